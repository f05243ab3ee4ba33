"""The figures of a run."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from report_runs import NAMES, outlook_of, planted, write_fit, write_matching, write_search

from bydore_pyro.answer.plots import picture_label
from bydore_pyro.core.inference_data import as_inference_data
from bydore_pyro.law.losses import PER_TOKEN
from bydore_pyro.report.figures import (
    COLUMNS,
    MOST_CHANGES,
    as_svg,
    changes_figure,
    curves_figure,
    frontier_figure,
    trajectory_figure,
    triangle_figure,
)
from bydore_pyro.report.run import read_run
from bydore_pyro.report.sections import TRIANGLE, run_sections


def legend_of(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_a_search_is_drawn_by_its_steps(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run"))
    figure = trajectory_figure(record)
    assert figure is not None
    assert legend_of(figure) == list(NAMES)
    (axes,) = figure.axes
    *lines, start = axes.lines
    means = record.trajectory["mean"].values
    for line, values, name in zip(lines, means.T, NAMES, strict=True):
        np.testing.assert_allclose(line.get_ydata(), values)
        assert line.get_gid().startswith(f"{name}: {values[30:].mean():.4f} ")
    assert list(start.get_xdata()) == [30, 30]
    assert trajectory_figure(read_run(write_matching(tmp_path / "matching"))) is None
    fit = read_run(write_fit(tmp_path / "fit"))
    assert trajectory_figure(fit) is curves_figure(fit.metrics.outlook) is None


def write_draws(folder: Path, names: tuple[str, ...]) -> np.ndarray:
    draws = np.random.default_rng(0).dirichlet(np.arange(len(names)) + 1.0, (4, 100))
    data = {"posterior": {"w": draws}}
    of_domains = as_inference_data(data, coords={"domain": names}, dims={"w": ["domain"]})
    of_domains.to_netcdf(str(folder / "posterior.nc"))
    return draws.reshape(-1, len(names))


def test_the_changes_of_all_targets_are_drawn_by_unit() -> None:
    targets = ("law", "web", "quiz")
    given = outlook_of(targets)
    rows = given["differences"]["natural"]
    given["differences"]["natural"] = rows | {
        "law": {"loss": 0.2, "low": 0.1, "high": 0.3, "better": 0.0},
        "quiz": {"loss": -0.2, "low": -0.3, "high": -0.1, "better": 1.0},
    }
    units = {"law": PER_TOKEN, "web": PER_TOKEN, "quiz": "bits per byte"}
    outlook = planted(
        targets=targets, differences=given["differences"], units=units, baseline="natural"
    )
    figure = changes_figure(outlook)
    assert figure is not None
    shown = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    assert shown == [["web", "law"], ["quiz"], ["all targets"]]
    colours = [axes.lines[0].get_color() for axes in figure.axes]
    assert colours == ["0.45", "C0", "0.45"]
    assert figure.axes[0].lines[2].get_color() == "C3"
    assert figure.axes[1].lines[0].get_gid() == "quiz: -0.200 (-0.300 to -0.100)"
    assert "natural, bits per byte" in figure.axes[1].get_xlabel()
    assert changes_figure(dataclasses.replace(outlook, baseline="another")) is None
    many = [f"t{place}" for place in range(MOST_CHANGES + 5)]
    figure = changes_figure(planted(targets=many, baseline="uniform"))
    assert figure is not None
    assert len(figure.axes[0].get_yticklabels()) == MOST_CHANGES + 1


def test_three_weights_are_drawn_in_a_triangle(tmp_path: Path) -> None:
    names = ("web", "code", "law")
    run = write_search(tmp_path / "run", names)
    assert triangle_figure(read_run(run)) is None, "it has no draws"
    draws = write_draws(run, names[::-1])
    record = read_run(run)
    np.testing.assert_array_equal(record.draws, draws[:, ::-1], "by name, not by place")
    figure = triangle_figure(record)
    assert legend_of(figure) == ["draws", "the weights"]
    blocks = {one.title: one.blocks for one in run_sections(record)}["The mixture"]
    assert TRIANGLE in blocks
    four = write_search(tmp_path / "four")
    write_draws(four, NAMES)
    assert triangle_figure(read_run(four)) is None
    write_draws(run, ("other", "code", "law"))
    assert triangle_figure(read_run(run)) is None, "the draws are of other domains"


def picture(*names: str) -> Figure:
    """Points, whose labels and gids are names."""
    figure = Figure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), [picture_label(name) for name in names])
    for height, name in enumerate(names):
        axes.plot(0.123456789, height, "o", gid=f"{name}: 1.23456")
    return figure


def test_names_are_the_texts_and_titles_of_a_picture() -> None:
    names = ("<b> & 'it'", '"$x^2$"', "_own", "漢")
    tree = ElementTree.fromstring(as_svg(picture(*names), ""))
    assert [title.text for title in tree.iter("title")] == [f"{name}: 1.23456" for name in names]
    texts = [text.text for text in tree.iter("text")]
    assert [text for text in texts if text in names] == list(names)
    marked = [group for group in tree.iter("g") if group.find("title") is not None]
    assert all(group.find(".//use") is not None for group in marked), "what the mouse meets"


@pytest.mark.parametrize("count", [1, 13])
def test_every_domain_has_a_panel_and_no_name_reaches_the_next(count: int) -> None:
    names = [f"web/part-{k}/of a name that is $x^2$ long-{k}" for k in range(count)]
    figure = curves_figure(planted(names=names))
    assert figure is not None
    figure.canvas.draw()
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == count
    assert len(figure.axes) == -(-count // COLUMNS) * min(COLUMNS, count)
    for axes in shown:
        law, *runs = axes.lines
        np.testing.assert_allclose(law.get_ydata(), (4.0, 3.0, 2.5))
        np.testing.assert_allclose([one.get_ydata()[0] for one in runs], (4.05, 2.95))
    boxes = sorted((a.title.get_window_extent() for a in shown), key=lambda b: (-b.y0, b.x0))
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


@pytest.mark.parametrize("targets", [("law", "web"), ("law", "web", "a" * 80 + ".jsonl")])
def test_the_frontier_has_a_panel_for_each_pair(targets: tuple[str, ...]) -> None:
    figure = frontier_figure(planted(targets=targets))
    assert figure is not None
    figure.canvas.draw()
    assert len(figure.axes) == len(targets) * (len(targets) - 1) // 2
    line, *points = figure.axes[0].lines
    np.testing.assert_allclose(line.get_xdata(), (2.0, 2.2, 2.5))
    assert [one.get_gid().split(":")[0] for one in points] == ["this mixture", "uniform", "natural"]
    assert points[1].get_xydata().tolist() == [[2.2, 2.7]]
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)
    for axes in figure.axes:
        assert axes.yaxis.label.get_window_extent().height < figure.bbox.height
    assert frontier_figure(planted(targets=("law",))) is None
