"""What the page on several runs shows."""

from __future__ import annotations

from pathlib import Path

from report_runs import write_fit, write_search, write_seeds

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
    assert [look.name for look, _ in page["runs"]] == ["case", "fit", "seed 0", "seed 1"]
    assert page["loss_header"] == ["trained on", "case"]  # the only one that was verified
    assert page["agreement"] == []
    assert len(page["distances"]) == 6
    assert page["cost_rows"][0] == ("training the proxy", "1.00e+09", "6.00e+09", *["1.00e+09"] * 2)


def test_seeds_alone_tell_their_agreement(tmp_path: Path) -> None:
    page = comparison_page([read_run(write_seeds(tmp_path / "many", 3))])
    assert page["title"] == "many: 3 seeds"
    assert len(page["agreement"]) == 4
    assert page["agreement_verdicts"][0].question == "Would another seed find the same?"
    assert page["losses"] is None


def test_seeds_whose_runs_are_gone(tmp_path: Path) -> None:
    page = comparison_page([read_run(write_seeds(tmp_path / "none", 0))])
    assert page["runs"] == page["commands"] == []
    assert len(page["agreement"]) == 4
