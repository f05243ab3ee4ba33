"""What the page on several runs shows."""

from __future__ import annotations

from pathlib import Path

from report_runs import NAMES, write_fit, write_search, write_seeds

from bydore_pyro.report.comparison_page import comparison_page
from bydore_pyro.report.run_record import read_run


def test_runs_of_several_kinds(tmp_path: Path) -> None:
    records = [
        read_run(write_search(tmp_path / "case", verified=True)),
        read_run(write_fit(tmp_path / "fit")),
        read_run(write_seeds(tmp_path / "seeds")),
    ]
    page = comparison_page(records)
    assert page["title"] == "4 runs compared"
    assert page["runs"] == ["case", "fit", "seed 0", "seed 1"]
    assert not page["verdicts"]
    assert {len(row.cells) for rows in page["sections"].values() for row in rows} == {4}


def test_seeds_alone_tell_their_agreement(tmp_path: Path) -> None:
    page = comparison_page([read_run(write_seeds(tmp_path / "many", 3))])
    assert page["title"] == "many: 3 seeds"
    assert page["verdicts"][0].question == "Would another seed find the same?"
    assert len(page["agreement"].rows) == len(NAMES)


def test_seeds_whose_runs_are_gone(tmp_path: Path) -> None:
    page = comparison_page([read_run(write_seeds(tmp_path / "none", 0))])
    assert page["runs"] == page["commands"] == []
    assert len(page["sections"]["Weights"]) == 4
