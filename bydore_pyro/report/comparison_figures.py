"""The figures of several runs, by plotly: records in, a figure out; nothing is saved here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.report.drawing import (
    GRID,
    MOST_DRAWN,
    ROW,
    Look,
    escaped,
    figure_of,
    labelled_rows,
    line_trace,
    point_trace,
)
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.words import count, number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["comparison_figure", "cost_bars", "losses_beside"]

SHADES = ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#6b7280")
FILLS = ("", "/", ".", "x", "-", "|", "+")  # for who prints in grey
USED = 0.72  # of a row, by the runs' points


def comparison_figure(
    records: Sequence[RunRecord], runs: Sequence[Look], looks: Mapping[str, Look]
) -> Figure:
    """Draws the weights that several runs found beside each other, with their intervals."""
    weights = [{} if r.mixture is None else r.mixture.as_dict() for r in records]
    mean = {name: np.mean([found.get(name, 0.0) for found in weights]) for name in looks}
    order = sorted(looks, key=lambda name: -mean[name])[:MOST_DRAWN]
    traces: list[dict[str, Any]] = []
    for i, (record, run) in enumerate(zip(records, runs, strict=True)):
        mixture = record.mixture
        if mixture is None:
            continue
        hdi = dict(zip(mixture.names, mixture.hdi or (), strict=False))
        for row, name in enumerate(order):
            if name not in weights[i]:
                continue
            told = f"{escaped(name)}<br>{escaped(run.name)}: {number(weights[i][name], 4)}"
            keys, y = [looks[name].key, run.key], row + _aside(i, len(records))
            if name in hdi:
                low, high = hdi[name]
                told += f", {number(low)} to {number(high)}"
                x = [low, (low + high) / 2, high]
                traces.append(
                    line_trace(x, [y] * 3, keys=keys, colour=run.colour, width=1.5, text=told)
                )
            traces.append(
                point_trace(
                    weights[i][name],
                    y,
                    keys=keys,
                    colour=run.colour,
                    symbol=run.symbol,
                    size=8,
                    text=told,
                )
            )
    between = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    lines = [
        {**between, "y0": row + 0.5, "y1": row + 0.5, "line": {"color": GRID, "width": 1}}
        for row in range(len(order) - 1)
    ]
    return figure_of(
        traces,
        height=max(ROW, 11 * len(records) + 10) * len(order) + 102,
        xaxis={"title": {"text": "weight"}, "rangemode": "tozero"},
        yaxis=labelled_rows(order),
        shapes=lines,
    )


def losses_beside(losses: Sequence[Mapping[str, float]], runs: Sequence[Look]) -> Figure:
    """Draws the losses of the runs' fresh models, a row a label, the lowest on top.

    Args:
        losses: By label, of each run.
        runs: Their looks.
    """
    lowest: dict[str, float] = {}
    for found in losses:
        for label, loss in found.items():
            lowest[label] = min(loss, lowest.get(label, loss))
    order = sorted(lowest, key=lambda label: lowest[label])
    traces = [
        point_trace(
            found[label],
            row + _aside(i, len(runs)),
            keys=[run.key],
            colour=run.colour,
            symbol=run.symbol,
            text=f"{escaped(run.name)}<br>{escaped(label)}: {number(found[label], 4)}",
        )
        for i, (found, run) in enumerate(zip(losses, runs, strict=True))
        for row, label in enumerate(order)
        if label in found
    ]
    return figure_of(
        traces,
        height=max(ROW, 11 * len(runs) + 10) * len(order) + 102,
        xaxis={"title": {"text": "nats per token"}},
        yaxis=labelled_rows(order),
    )


def _aside(run: int, runs: int) -> float:
    """Returns how far from the middle of a row a run's points lie."""
    return USED * (run / (runs - 1) - 0.5) if runs > 1 else 0.0


def cost_bars(labels: Sequence[str], parts: Sequence[Mapping[str, float]]) -> Figure:
    """Draws the FLOPs of several runs, a bar a run, split into its parts.

    Args:
        labels: Of the runs.
        parts: FLOPs by part of each run.
    """
    most: dict[str, float] = {}
    for run in parts:
        for part, flops in run.items():
            most[part] = max(flops, most.get(part, 0.0))
    known = sorted((part for part in most if most[part] > 0), key=lambda part: -most[part])
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": escaped(part),
            "y": list(range(len(labels))),
            "x": [run.get(part, 0.0) for run in parts],
            "marker": {
                "color": SHADES[i % len(SHADES)],
                "pattern": {
                    "shape": FILLS[i % len(FILLS)],
                    "size": 7,
                    "fillmode": "overlay",
                    "fgcolor": "white",
                    "fgopacity": 0.75,
                },
            },
            "hovertext": [
                f"{escaped(label)}<br>{escaped(part)}: {count(run.get(part, 0.0))} FLOPs"
                for label, run in zip(labels, parts, strict=True)
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        for i, part in enumerate(known)
    ]
    return figure_of(
        traces,
        height=(ROW + 8) * len(labels) + 90 + 24 * len(known),
        xaxis={"title": {"text": "FLOPs"}, "exponentformat": "SI"},
        yaxis=labelled_rows(labels),
        barmode="stack",
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )
