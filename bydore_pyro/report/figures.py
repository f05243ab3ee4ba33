"""The figures of a run, by plotly: a record in, a figure out; nothing is saved here."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.answer import PALETTE, domain_colours
from bydore_pyro.mixture import MOST_SHOWN, interval_of, shown_rows
from bydore_pyro.report.run import RunRecord
from bydore_pyro.utils import visible

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["rounds_figure", "trajectory_figure", "weights_figure"]

FEW_LINES = 8  # of rounds, and of the steps of many domains; the tables hold all
MOST_POINTS = 500  # of a line
ROW = 26  # pixels
SHORT = 40  # characters of a name
INK, FAINT, GRID = "#1f2328", "#6b7280", "#e6e8eb"
AXIS = {"gridcolor": GRID, "zeroline": False, "linecolor": FAINT, "automargin": True}
LAYOUT = {
    "template": "none",
    "margin": {"l": 12, "r": 14, "t": 26, "b": 56},
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
}
WEIGHTS = {"title": {"text": "weight"}, "rangemode": "tozero"}


def weights_figure(record: RunRecord) -> Figure | None:
    """Draws every weight with its interval, largest on top; None without weights. Of many domains
    the largest, and the sums of branches and of the rest."""
    mixture = record.mixture
    if mixture is None:
        return None
    colours, rows = domain_colours(mixture.names), shown_rows(mixture.names, mixture.weights)
    labels = [_label(row.name) for row in rows]
    traces = []
    for height, row in enumerate(rows):
        own = {"name": labels[height], "showlegend": False}
        single, ends = row.kind == "domain", interval_of(mixture, row)
        if ends is not None:
            line = {"color": colours[row.name] if single else FAINT, "width": 2}
            traces.append(_trace(ends, [height, height], mode="lines", line=line, **own))
        shape = "diamond" if single else "square"
        points = {shape: mixture.weights, f"{shape}-open": mixture.free_weights}
        for symbol, values in points.items():
            if values is not None:
                marker = {"color": INK if single else FAINT, "symbol": symbol, "size": 9}
                total = sum(values[k] for k in row.places)
                traces.append(_trace([total], [height], mode="markers", marker=marker, **own))
    ticks = [
        label if row.kind == "domain" else f"<b>{label}</b>"
        for label, row in zip(labels, rows, strict=True)
    ]
    axis = {"tickvals": list(range(len(rows))), "ticktext": ticks, "showgrid": False}
    axis["range"] = [len(rows) - 0.4, -0.6]
    figure = _figure(traces, ROW * len(rows) + 102, WEIGHTS, axis)
    _mark(figure, 1 / len(mixture.names), "uniform")
    return figure


def trajectory_figure(record: RunRecord) -> Figure | None:
    """Draws the mean weights over the steps, of many domains the largest, and where the average
    begins.

    None of a search by matching, which learns its weights after the last step.
    """
    trajectory = record.trajectory
    if trajectory is None or record.by_matching:
        return None
    start, steps = record.average_start, trajectory["step"].values
    names = [str(name) for name in trajectory["domain"].values]
    means = dict(zip(names, trajectory["mean"].values.T, strict=True))
    order = sorted(names, key=lambda name: -float(means[name][start:].mean()))
    order = order if len(order) <= MOST_SHOWN else order[:FEW_LINES]
    figure = _figure(_lines(steps, means, order), 420, {"title": {"text": "step"}}, WEIGHTS)
    _mark(figure, float(steps[min(start, len(steps) - 1)]), "averaged from here")
    return figure


def rounds_figure(record: RunRecord) -> Figure | None:
    """Draws the largest weights by every round's evidence: alone as dots, together as lines; of a
    training that moves its mixture, the weights trained on as lines, those found as dots.

    None where a run has no two rounds to compare.
    """
    rounds = record.metrics.matching.rounds
    if len(rounds) < 2:
        return None
    last, places = rounds[-1].weights, np.arange(1, len(rounds) + 1)
    xaxis: dict[str, Any] = {"title": {"text": "round"}, "dtick": max(1, len(rounds) // 10)}
    if record.live:
        places = np.array([one.step for one in rounds])
        xaxis = {"title": {"text": "step of the model"}, "type": "log"}
    order = sorted(last, key=lambda name: -last[name])[:FEW_LINES]
    together, alone = (
        {name: [getattr(one, key).get(name, np.nan) for one in rounds] for name in order}
        for key in ("weights", "alone")
    )
    lines = _lines(places, together, order)
    dots = [{**one, "mode": "markers", "showlegend": False} for one in _lines(places, alone, order)]
    return _figure([*lines, *dots], 360, xaxis, WEIGHTS)


def _lines(x: np.ndarray, y: Mapping[str, Any], order: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a line a name, at most `MOST_POINTS` points of each."""
    kept = np.arange(len(x) - 1, -1, -max(1, -(-len(x) // MOST_POINTS)))[::-1]
    colours = domain_colours(list(y) if len(y) <= len(PALETTE) else order)
    return [
        _trace(
            x[kept],
            np.array(y[name], dtype=float)[kept],
            mode="lines",
            name=_label(name),
            line={"color": colours[name], "width": 1.8},
            marker={"color": colours[name], "size": 7},
        )
        for name in order
    ]


def _trace(x: Sequence[float] | np.ndarray, y: Any, **more: Any) -> dict[str, Any]:
    plain = [[float(f"{v:.5g}") for v in values] for values in (x, y)]
    return {"type": "scatter", "x": plain[0], "y": plain[1], **more}


def _label(name: str) -> str:
    """Returns a name for a label, in which plotly would read some HTML, and mathematics in $."""
    text = visible(name)
    text = text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
    return html.escape(text, quote=False).replace("$", "&#36;")


def _mark(figure: Figure, x: float, text: str) -> None:
    """Draws a line at a place of the x axis, with a word beside it."""
    figure.add_vline(x, line={"color": FAINT, "width": 1, "dash": "dot"}, annotation_text=text)


def _figure(
    traces: Sequence[Mapping[str, Any]], height: int, x: Mapping[str, Any], y: Mapping[str, Any]
) -> Figure:
    """Returns a figure in the report's style, of a height in pixels."""
    from plotly.graph_objects import Figure

    axes = {"xaxis": {**AXIS, **x}, "yaxis": {**AXIS, **y}}
    return Figure(data=list(traces), layout={**LAYOUT, "height": height, **axes})
