"""The figures of a run, by plotly: a record in, a figure out; nothing is saved here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.report_page.drawing import (
    INK,
    MOST_DRAWN,
    ROW,
    RUN_COLOURS,
    Look,
    band,
    escaped,
    figure_of,
    labelled_rows,
    line,
    note,
    plain_numbers,
    points,
    smooth,
    thinned,
    upright,
)
from bydore_pyro.report_page.run_record import RunRecord
from bydore_pyro.report_page.verdicts import average_start
from bydore_pyro.report_page.words import number, shortened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "cost_figure",
    "losses_figure",
    "trajectory_figure",
    "verification_figure",
    "weights_figure",
]


def weights_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure:
    """Draws every weight with its interval and quartiles, largest on top."""
    mixture = record.mixture
    assert mixture is not None
    order = sorted(mixture.names, key=lambda name: -mixture.as_dict()[name])[:MOST_DRAWN]
    place = {name: row for row, name in enumerate(order)}
    interval = None if mixture.hdi is None else dict(zip(mixture.names, mixture.hdi, strict=True))
    traces: list[dict[str, Any]] = []
    for name in order:
        look, row = looks[name], place[name]
        weight, shown = mixture.as_dict()[name], escaped(name)
        meta = {"keys": [look.key]}
        if interval is not None:
            low, high = interval[name]
            told = f"{shown}: {number(weight)}, {number(low)} to {number(high)}"
            traces.append(
                line([low, high], [row, row], look.colour, 2, meta, text=told, hover="%{text}")
            )
        if name in record.draws:
            low, _, high = record.draws[name].quartiles
            told = f"{shown}: half of the posterior within {number(low)} to {number(high)}"
            traces.append(
                line([low, high], [row, row], look.colour, 7, meta, text=told, hover="%{text}")
            )
        told = f"{shown}: {number(weight, 4)}"
        marker = {"color": INK, "size": 9, "symbol": "diamond"}
        traces.append(points([weight], [row], marker, meta, told))
    return figure_of(
        traces,
        height=ROW * len(order) + 90,
        xaxis={"title": {"text": "weight (share of training tokens)"}, "rangemode": "tozero"},
        yaxis=labelled_rows([shortened(name, 18) for name in order]),
        shapes=[upright(1 / len(mixture.names))],
        annotations=[note(1 / len(mixture.names), "uniform")],
    )


def trajectory_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure:
    """Draws the mean weight of every domain over the steps, and where the average begins."""
    trajectory = record.trajectory
    assert trajectory is not None
    chosen = thinned(len(trajectory.steps))
    means = trajectory.by_domain["mean"]
    spread = trajectory.by_domain.get("standard_deviation")
    start = average_start(record)
    traces: list[dict[str, Any]] = []
    for k in _drawn(trajectory.names, means[start:].mean(0), looks):
        name = trajectory.names[k]
        look = looks[name]
        line = line(
            trajectory.steps[chosen], means[chosen, k], look.colour, 1.8,
            {"keys": [look.key]}, text=escaped(name), dash=look.dash,
            hover="%{text}<br>step %{x}: %{y:.4f}",
        )  # fmt: skip
        if spread is not None:
            line["customdata"] = plain_numbers(spread[chosen, k])
            line["hovertemplate"] = (
                "%{text}<br>step %{x}: %{y:.4f} ± %{customdata:.4f}<extra></extra>"
            )
        traces.append(line)
    traces.append(band())
    last = float(trajectory.steps[-1])
    first = float(trajectory.steps[min(start, len(trajectory.steps) - 1)])
    shaded = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": first, "x1": last, "y0": 0, "y1": 1,
        "fillcolor": "#f4f5f7", "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
    return figure_of(
        traces,
        height=420,
        xaxis={"title": {"text": "step"}},
        yaxis={"title": {"text": "weight"}, "rangemode": "tozero"},
        shapes=[shaded],
        annotations=[note(first, "averaged from here")] if start else [],
    )


def losses_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the losses over the steps, running means; None where none were noted."""
    trajectory = record.trajectory
    assert trajectory is not None
    chosen = thinned(len(trajectory.steps))
    steps = trajectory.steps[chosen]
    traces: list[dict[str, Any]] = []
    signals = trajectory.by_domain.get("signals")
    if signals is not None:
        means = trajectory.by_domain["mean"]
        for k in _drawn(trajectory.names, means.mean(0), looks):
            name = trajectory.names[k]
            look = looks[name]
            traces.append(
                line(
                    steps,
                    smooth(signals[:, k])[chosen],
                    look.colour,
                    1.2,
                    {"keys": [look.key]},
                    text=escaped(name),
                    dash=look.dash,
                    hover="%{text}<br>step %{x}: %{y:.3f}",
                )  # fmt: skip
            )
    for column, told, dash in (
        ("train_loss", "training batch", "dash"),
        ("validation_loss", "validation", "solid"),
    ):
        if column in trajectory.by_step:
            values = smooth(trajectory.by_step[column])[chosen]
            hover = "%{text}<br>step %{x}: %{y:.3f}"
            traces.append(line(steps, values, INK, 2.4, {}, text=told, dash=dash, hover=hover))
    if not traces:
        return None
    return figure_of(
        traces,
        height=420,
        xaxis={"title": {"text": "step"}},
        yaxis={"title": {"text": "nats per token"}},
    )


def verification_figure(losses: Mapping[str, float]) -> Figure:
    """Draws the losses of fresh models, the best on top."""
    order = sorted(losses, key=lambda label: losses[label])
    traces = [
        points(
            [losses[label]],
            [row],
            {"color": RUN_COLOURS[0] if label.startswith("learned") else INK, "size": 11},
            {},
            f"{escaped(label)}: {number(losses[label], 4)}",
        )
        for row, label in enumerate(order)
    ]
    return figure_of(
        traces,
        height=ROW * len(order) + 90,
        xaxis={"title": {"text": "validation loss (nats per token)"}},
        yaxis=labelled_rows([shortened(label, 18) for label in order]),
    )


def cost_figure(rows: Sequence[tuple[str, float, bool]]) -> Figure:
    """Draws what methods cost, in plain trainings of the proxy, on a logarithmic axis.

    Args:
        rows: Label, cost, and whether it was measured.
    """
    order = sorted(rows, key=lambda row: row[1])
    traces = [
        points(
            [cost],
            [row],
            {"color": RUN_COLOURS[0], "size": 11, "symbol": "circle" if known else "circle-open"},
            {},
            f"{escaped(label)}: {number(cost, 1)} ({'measured' if known else 'counted'})",
        )
        for row, (label, cost, known) in enumerate(order)
    ]
    return figure_of(
        traces,
        height=ROW * len(order) + 90,
        xaxis={"title": {"text": "plain trainings of the proxy"}, "type": "log", "dtick": 1},
        yaxis=labelled_rows([shortened(label, 18) for label, _, _ in order]),
    )


def _drawn(names: Sequence[str], weights: np.ndarray, looks: Mapping[str, Look]) -> list[int]:
    """Returns the places of the domains that are drawn, largest first."""
    order = [int(k) for k in np.argsort(-np.nan_to_num(weights))]
    return [k for k in order if names[k] in looks][:MOST_DRAWN]
