"""The figures of several runs, by plotly: records in, a figure out; nothing is saved here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.report_page.drawing import (
    GRID,
    MOST_DRAWN,
    ROW,
    Look,
    escaped,
    figure_of,
    labelled_rows,
    line,
    points,
)
from bydore_pyro.report_page.run_record import RunRecord
from bydore_pyro.report_page.words import count, number, shortened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["comparison_figure", "cost_bars"]


def comparison_figure(
    records: Sequence[RunRecord], runs: Sequence[Look], looks: Mapping[str, Look]
) -> Figure:
    """Draws the weights that several runs found beside each other, with their intervals."""
    mixtures = [record.mixture for record in records]
    found = {name: [m.as_dict().get(name, 0.0) for m in mixtures if m] for name in looks}
    order = sorted(looks, key=lambda name: -float(np.mean(found[name])))[:MOST_DRAWN]
    apart = 0.72 / max(len(records) - 1, 1) if len(records) > 1 else 0.0
    traces: list[dict[str, Any]] = []
    for i, (mixture, run) in enumerate(zip(mixtures, runs, strict=True)):
        if mixture is None:
            continue
        weights = mixture.as_dict()
        hdi = dict(zip(mixture.names, mixture.hdi or (), strict=False))
        for row, name in enumerate(order):
            if name not in weights:
                continue
            y = row + (i - (len(records) - 1) / 2) * apart
            meta = {"keys": [looks[name].key, run.key]}
            told = f"{escaped(name)}<br>{escaped(run.name)}: {number(weights[name], 4)}"
            if name in hdi:
                low, high = hdi[name]
                told += f", {number(low)} to {number(high)}"
                traces.append(
                    line([low, high], [y, y], run.colour, 1.5, meta, text=told, hover="%{text}")
                )
            marker = {"color": run.colour, "size": 8, "symbol": run.symbol}
            traces.append(points([weights[name]], [y], marker, meta, told))
    lines = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": row + 0.5, "y1": row + 0.5,
         "line": {"color": GRID, "width": 1}, "layer": "below"}
        for row in range(len(order) - 1)
    ]  # fmt: skip
    return figure_of(
        traces,
        height=max(ROW, 9 * len(records) + 8) * len(order) + 90,
        xaxis={"title": {"text": "weight (share of training tokens)"}, "rangemode": "tozero"},
        yaxis=labelled_rows([shortened(name, 18) for name in order]),
        shapes=lines,
    )


def cost_bars(labels: Sequence[str], parts: Sequence[Mapping[str, float]]) -> Figure:
    """Draws the FLOPs of several runs, a bar a run, split into its parts.

    Args:
        labels: Of the runs.
        parts: FLOPs by part of each run.
    """
    known = sorted({part for run in parts for part in run}, key=lambda p: -max_of(parts, p))
    shades = ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#6b7280")
    fills = ("", "/", ".", "x", "-", "|", "+")
    traces: list[dict[str, Any]] = [
        {
            "type": "bar", "orientation": "h", "name": escaped(part), "meta": {},
            "y": list(range(len(labels))), "x": [run.get(part, 0.0) for run in parts],
            "marker": {"color": shades[i % 7], "pattern": {"shape": fills[i % 7], "size": 6}},
            "text": [f"{escaped(label)}: {escaped(part)} {count(run.get(part, 0.0))} FLOPs"
                     for label, run in zip(labels, parts, strict=True)],
            "hovertemplate": "%{text}<extra></extra>", "textposition": "none",
        }
        for i, part in enumerate(known)
    ]  # fmt: skip
    return figure_of(
        traces,
        height=(ROW + 8) * len(labels) + 60 + 24 * ((len(known) + 1) // 2 + 1),
        xaxis={"title": {"text": "FLOPs"}, "exponentformat": "power"},
        yaxis=labelled_rows([shortened(label, 18) for label in labels]),
        barmode="stack",
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )


def max_of(parts: Sequence[Mapping[str, float]], part: str) -> float:
    """Returns the most that any run spent on a part."""
    return max(run.get(part, 0.0) for run in parts)
