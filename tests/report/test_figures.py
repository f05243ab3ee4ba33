"""The figures of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from report_runs import (
    HOSTILE,
    NAMES,
    mixture_with_intervals,
    record_of,
    write_fit,
    write_matching,
    write_search,
)

from bydore_pyro.report.figures import (
    FEW_LINES,
    MOST_POINTS,
    rounds_figure,
    trajectory_figure,
    weights_figure,
)
from bydore_pyro.report.run import RunRecord, read_run


def test_weights_stand_in_falling_order_with_their_intervals(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run"))
    figure = weights_figure(record)
    assert figure is not None
    assert list(figure.layout.yaxis.ticktext) == list(NAMES)
    assert record.mixture is not None
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert [p.x[0] for p in points] == pytest.approx(list(record.mixture.weights), rel=1e-4)
    interval = next(t for t in figure.data if t.mode == "lines" and t.line.width == 2)
    assert list(interval.x) == pytest.approx(record.mixture.hdi[0], rel=1e-4)
    assert figure.layout.shapes[0].x0 == 0.25
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    figure = weights_figure(dataclasses.replace(record, mixture=capped))
    assert figure is not None
    assert "diamond-open" in {trace.marker.symbol for trace in figure.data}


def test_many_domains_are_drawn_as_their_tree() -> None:
    names = [f"{a}/{b}" for a in "xyz" for b in range(20)]
    record = record_of(mixture_with_intervals(names))
    figure = weights_figure(record)
    assert figure is not None
    ticks = list(figure.layout.yaxis.ticktext)
    assert ticks[:2] == ["<b>x</b>", "x/0"]
    assert ticks[-1] == "<b>the rest (40 domains)</b>"
    squares = [trace for trace in figure.data if trace.mode == "markers"
               and trace.marker.symbol == "square"]  # fmt: skip
    assert squares[0].x[0] == pytest.approx(sum(record.mixture.weights[:20]), rel=1e-4)


def test_a_search_is_drawn_by_its_steps_or_rounds(tmp_path: Path) -> None:
    linear = read_run(write_search(tmp_path / "linear"))
    figure = trajectory_figure(linear)
    assert figure is not None
    assert [line.name for line in figure.data] == list(NAMES)
    assert figure.layout.shapes[0].x0 == 30
    assert rounds_figure(linear) is None
    matching = read_run(write_matching(tmp_path / "matching"))
    assert trajectory_figure(matching) is None
    figure = rounds_figure(matching)
    assert figure is not None
    lines, dots = ([t for t in figure.data if t.mode == mode] for mode in ("lines", "markers"))
    assert [line.name for line in lines] == list(NAMES)
    alone = matching.metrics.matching.rounds[2].alone["code"]
    assert dots[0].y[-1] == pytest.approx(alone, rel=1e-4)


def test_what_is_missing_is_not_drawn(tmp_path: Path) -> None:
    fit = read_run(write_fit(tmp_path / "fit"))
    assert trajectory_figure(fit) is rounds_figure(fit) is None
    figure = weights_figure(fit)
    assert figure is not None
    assert {trace.mode for trace in figure.data} == {"markers"}
    assert weights_figure(RunRecord(path=tmp_path, label="")) is None


def test_many_domains_and_steps_are_thinned_and_names_are_harmless(tmp_path: Path) -> None:
    names = [*HOSTILE, *(f"domain {i:03d}" for i in range(60))]
    figure = trajectory_figure(read_run(write_search(tmp_path / "run", names, steps_drawn=1200)))
    assert figure is not None
    assert len(figure.data) == FEW_LINES
    assert len(figure.data[0].x) <= MOST_POINTS
    assert figure.data[0].x[-1] == 1199
    shown = [trace.name for trace in figure.data]
    assert not any(set("<>$\u202e\x00") & set(name) for name in shown)
