"""What the page on several runs shows."""

from __future__ import annotations

from pathlib import Path

from report_runs import NAMES, write_fit, write_search, write_seeds

from bydore_pyro.report.comparison_page import comparison_figure, comparison_page
from bydore_pyro.report.drawing import domain_looks, run_looks
from bydore_pyro.report.run_record import read_run


def test_runs_of_several_kinds(tmp_path: Path) -> None:
    records = [
        read_run(write_search(tmp_path / "case", verified=True)),
        read_run(write_fit(tmp_path / "fit")),
        read_run(write_seeds(tmp_path / "seeds")),
    ]
    page = comparison_page(records)
    assert page["title"] == "4 runs compared"
    assert [look.name for look in page["runs"]] == ["case", "fit", "seed 0", "seed 1"]
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


def test_weights_of_several_runs(tmp_path: Path) -> None:
    names = ("law", "web", "more")
    records = [
        read_run(write_search(tmp_path / "a")),
        read_run(write_fit(tmp_path / "b", "mde", names)),
    ]
    looks = domain_looks([*NAMES, "more"])
    figure = comparison_figure(records, run_looks(["a", "b"]), looks)
    points = [trace for trace in figure.data if trace.mode == "markers"]
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert (len(points), len(lines)) == (4 + 3, 4)  # the fit has no intervals
    more = next(p for p in points if p.meta["keys"] == [looks["more"].key, "r1"])
    assert more.meta["told"].startswith("more<br>b: ")
    # Two runs' points of one domain do not cover each other.
    law = [p.y[0] for p in points if looks["law"].key in p.meta["keys"]]
    assert abs(law[0] - law[1]) > 0.5
