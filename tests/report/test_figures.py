"""The figures of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import xarray
from report_runs import (
    NAMES,
    lengths_of,
    mixture_with_intervals,
    record_of,
    write_fit,
    write_matching,
    write_search,
    write_trajectory,
)

from bydore_pyro.report.drawing import MOST_DRAWN, domain_looks
from bydore_pyro.report.figures import (
    lengths_figure,
    losses_figure,
    rounds_figure,
    running_mean,
    trajectory_figure,
    weights_figure,
)
from bydore_pyro.report.run_record import RunRecord, read_run


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return read_run(write_search(tmp_path / "run", verified=True))


def test_weights_stand_in_falling_order_with_their_intervals(record: RunRecord) -> None:
    figure = weights_figure(record, domain_looks(NAMES))
    assert figure is not None
    assert list(figure.layout.yaxis.ticktext) == list(NAMES)
    assert record.mixture is not None
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert [p.x[0] for p in points] == pytest.approx(list(record.mixture.weights), rel=1e-4)
    interval = next(t for t in figure.data if t.mode == "lines" and t.line.width == 2)
    assert [interval.x[0], interval.x[-1]] == pytest.approx(record.mixture.hdi[0], rel=1e-4)
    assert figure.layout.shapes[0].x0 == 0.25
    assert len(figure.data) == 3 * len(NAMES)  # interval, quartiles, weight


def test_capped_weights_stand_beside_the_free_ones(record: RunRecord) -> None:
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    figure = weights_figure(dataclasses.replace(record, mixture=capped), domain_looks(NAMES))
    assert figure is not None
    assert "diamond-open" in {trace.marker.symbol for trace in figure.data}
    assert "free of the cap 0.4596" in figure.data[0].meta["told"]


def test_the_trajectory_has_a_line_a_domain(record: RunRecord) -> None:
    figure = trajectory_figure(record, domain_looks(NAMES))
    assert figure is not None
    lines = [t for t in figure.data if t.mode == "lines" and t.meta.get("keys")]
    assert [line.meta["told"] for line in lines] == list(NAMES)
    assert len(lines[0].customdata) == len(lines[0].y) == 60
    assert figure.layout.shapes[0].x0 == 30
    assert figure.data[-1].meta["role"] == "band"
    words = [t.text[0] for t in figure.data if t.mode == "text"]
    assert words == list(NAMES)


def test_losses_of_domains_validation_and_training(record: RunRecord) -> None:
    figure = losses_figure(record, domain_looks(NAMES))
    assert figure is not None
    told = [trace.meta["told"] for trace in figure.data]
    assert told == [*NAMES, "training batch", "validation"]


def test_a_search_by_matching_is_drawn_by_its_rounds(tmp_path: Path) -> None:
    found, looks = read_run(write_matching(tmp_path / "run")), domain_looks(NAMES)
    figure = trajectory_figure(found, looks)
    assert figure is not None
    assert [shape.x0 for shape in figure.layout.shapes] == [9, 19, 29]
    assert [word.text for word in figure.layout.annotations] == ["round 1", "round 2", "round 3"]
    assert figure.data[0].line.shape == "hv"
    figure = losses_figure(found, looks)
    assert figure is not None
    drawn = {trace.meta["told"]: trace for trace in figure.data}
    assert list(drawn) == [*NAMES, "training batch", "validation"]
    assert list(drawn["validation"].y) == [5.0, 4.0, 3.0]
    assert list(drawn["law"].x) == [9, 19, 29]
    assert len(drawn["training batch"].x) == 30
    figure = rounds_figure(found, looks)
    assert figure is not None
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    assert [line.meta["told"] for line in lines] == list(NAMES)
    assert len(dots) == len(lines)
    alone = found.metrics.matching.rounds[2].alone["code"]
    assert dots[0].y[-1] == pytest.approx(alone, rel=1e-4)


def test_a_linear_search_has_no_rounds(record: RunRecord) -> None:
    assert rounds_figure(record, domain_looks(NAMES)) is None
    assert not record.by_matching


def test_weights_are_drawn_over_the_lengths_of_runs() -> None:
    looks, found = domain_looks(NAMES), record_of(metrics={"lengths": lengths_of()})
    figure = lengths_figure(found, looks)
    assert figure is not None
    lines = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert [trace.meta["told"] for trace in lines] == ["code", "web", "law", "prose"]
    assert list(lines[0].x) == [1e9, 1e10]
    assert len(figure.data) == 3 * len(NAMES)  # an interval a length, and the line
    assert lengths_figure(record_of(metrics={"lengths": lengths_of()[:1]}), looks) is None


def test_what_is_missing_is_not_drawn(tmp_path: Path) -> None:
    record = read_run(write_fit(tmp_path / "fit"))
    looks = domain_looks(NAMES)
    assert trajectory_figure(record, looks) is None
    assert losses_figure(record, looks) is None
    figure = weights_figure(record, looks)
    assert figure is not None
    assert {trace.mode for trace in figure.data} == {"markers"}
    assert weights_figure(RunRecord(path=tmp_path, label=""), looks) is None
    write_trajectory(tmp_path / "bare.nc", NAMES, np.full((3, 4), 0.25), whole=False)
    record = dataclasses.replace(record, trajectory=xarray.load_dataset(tmp_path / "bare.nc"))
    assert losses_figure(record, looks) is None
    drawn = trajectory_figure(record, looks)
    assert drawn is not None
    assert drawn.data[0].customdata is None


def test_of_many_domains_the_largest_are_drawn(tmp_path: Path) -> None:
    names = [f"domain {i:03d}" for i in range(60)]
    record = read_run(write_search(tmp_path / "run", names))
    figure = trajectory_figure(record, domain_looks(names))
    assert figure is not None
    words = [t.text[0] for t in figure.data if t.mode == "text"]
    assert words == names[:5]
    drawn = {trace.meta["keys"][0] for trace in figure.data if trace.meta.get("keys")}
    assert len(drawn) == MOST_DRAWN


def test_losses_are_smoothed() -> None:
    values = np.arange(20.0)
    assert running_mean(values)[:3].tolist() == [0.0, 0.5, 1.0]
    assert running_mean(values)[-1] == np.arange(10, 20).mean()
    values[5] = np.nan
    assert np.isfinite(running_mean(values)).all()
    assert running_mean(values)[5] == np.arange(5).mean()
    assert np.isnan(running_mean(np.array([np.nan]))).all()
