"""The figures of several runs."""

from __future__ import annotations

from pathlib import Path

from report_runs import NAMES, write_fit, write_search

from bydore_pyro.report.comparison_figures import (
    comparison_figure,
    cost_bars,
    losses_beside,
)
from bydore_pyro.report.drawing import domain_looks, run_looks
from bydore_pyro.report.run_record import read_run


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


def test_losses_beside_each_other() -> None:
    losses = [{"learned": 3.0, "uniform": 4.0}, {"learned": 2.0}]
    figure = losses_beside(losses, run_looks(["a", "b"]))
    assert list(figure.layout.yaxis.ticktext) == ["learned", "uniform"]
    assert [trace.x[0] for trace in figure.data] == [3.0, 4.0, 2.0]
    alone = losses_beside(losses[1:], run_looks(["b"]))
    assert alone.data[0].y[0] == 0


def test_costs_by_part() -> None:
    figure = cost_bars(["a", "<b>"], [{"train": 1e9, "guide": 0.0}, {"reference": 3e9}])
    assert [trace.name for trace in figure.data] == ["reference", "train"]
    assert list(figure.data[1].x) == [1e9, 0.0]
    assert figure.data[0].hovertext[1] == "&lt;b&gt;<br>reference: 3 B FLOPs"
