"""The figures of a run, by plotly: a record in, a figure out; nothing is saved here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.analysis import domain_colours
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.verdicts import average_start
from bydore_pyro.report.words import clean, number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "losses_figure",
    "rounds_figure",
    "trajectory_figure",
    "weights_figure",
]

MOST_DRAWN = 40  # domains in a figure; the tables hold all
MOST_POINTS = 500  # of a line
SMOOTHED = 10  # steps of the losses' running mean
ROW = 26  # pixels
SHORT = 40  # characters of a name
DASHES = ("solid", "dash", "dot", "dashdot")  # another one for every ten domains
INK, FAINT, GRID = "#1f2328", "#6b7280", "#e6e8eb"
AXIS = {"gridcolor": GRID, "zeroline": False, "linecolor": FAINT, "automargin": True}
LAYOUT = {
    "template": "none",
    "margin": {"l": 12, "r": 14, "t": 26, "b": 56},
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
    "hoverlabel": {"bgcolor": "white", "font": {"color": INK}, "align": "left"},
}
WEIGHTS = {"title": {"text": "weight"}, "rangemode": "tozero"}


def weights_figure(record: RunRecord) -> Figure | None:
    """Draws every weight with its interval and quartiles, largest on top; None without weights."""
    mixture = record.mixture
    if mixture is None:
        return None
    weights = mixture.as_dict()
    hdi = dict(zip(mixture.names, mixture.hdi or (), strict=False))
    free = dict(zip(mixture.names, mixture.free_weights or (), strict=False))
    colours = domain_colours(sorted(weights))
    order = sorted(mixture.names, key=lambda name: -weights[name])[:MOST_DRAWN]
    traces = []
    for row, name in enumerate(order):
        bars, quartiles = [], record.draws.get(name)
        told = [f"{_label(name)}: {number(weights[name], 4)}"]
        if name in hdi:
            bars.append((2, *hdi[name]))
            ends = " to ".join(map(number, hdi[name]))
            told.append(f"{mixture.hdi_probability:.0%} interval {ends}")
        if quartiles is not None:
            bars.append((7, quartiles.lower, quartiles.upper))
        hover = f"{'<br>'.join(told)}<extra></extra>"
        look = {"hovertemplate": hover, "showlegend": False}
        for width, low, high in bars:
            line = {"color": colours[name], "width": width}
            traces.append(_trace([low, high], [row, row], mode="lines", line=line, **look))
        points = {"diamond": weights[name], "diamond-open": free.get(name)}
        for symbol, x in points.items():
            if x is not None:
                marker = {"color": INK, "symbol": symbol, "size": 9}
                traces.append(_trace([x], [row], mode="markers", marker=marker, **look))
    rows = {
        "tickvals": list(range(len(order))),
        "ticktext": [_label(name) for name in order],
        "range": [len(order) - 0.4, -0.6],
        "showgrid": False,
    }
    figure = _figure(traces, ROW * len(order) + 102, WEIGHTS, rows)
    _mark(figure, 1 / len(mixture.names), "uniform")
    return figure


def trajectory_figure(record: RunRecord) -> Figure | None:
    """Draws the mean weight of every domain over the steps, and where the average begins.

    None of a search by matching, which learns its weights after the last step.
    """
    trajectory = record.trajectory
    if trajectory is None or record.by_matching:
        return None
    start, steps = average_start(record), trajectory["step"].values
    names = [str(name) for name in trajectory["domain"].values]
    means = dict(zip(names, trajectory["mean"].values.T, strict=True))
    order = sorted(names, key=lambda name: -float(means[name][start:].mean()))
    figure = _figure(_lines(steps, means, order), 420, {"title": {"text": "step"}}, WEIGHTS)
    _mark(figure, float(steps[min(start, len(steps) - 1)]), "averaged from here")
    return figure


def rounds_figure(record: RunRecord) -> Figure | None:
    """Draws the largest weights by every round's evidence: alone as dots, together as lines.

    None where a run has no two rounds to compare.
    """
    rounds = record.metrics.matching.rounds
    if len(rounds) < 2:
        return None
    last, places = rounds[-1].weights, np.arange(1, len(rounds) + 1)
    order = sorted(last, key=lambda name: -last[name])[:8]
    together, alone = (
        {name: [getattr(one, key).get(name, np.nan) for one in rounds] for name in order}
        for key in ("weights", "alone")
    )
    lines = _lines(places, together, order)
    dots = [{**one, "mode": "markers", "showlegend": False} for one in _lines(places, alone, order)]
    xaxis = {"title": {"text": "round"}, "dtick": max(1, len(rounds) // 10)}
    return _figure([*lines, *dots], 360, xaxis, WEIGHTS)


def losses_figure(record: RunRecord) -> Figure | None:
    """Draws the losses over the steps, running means; None where none were noted.

    A search by matching measures losses in its rounds alone: points on thin lines.
    """
    import pandas

    data = record.trajectory
    if data is None:
        return None
    losses = {}
    for key, label in (("validation_loss", "validation"), ("train_loss", "training batch")):
        if key in data:
            losses[label] = data[key].values
    colours = {"validation": INK, "training batch": FAINT}
    if "losses" in data:
        names = [str(name) for name in data["domain"].values]
        losses |= dict(zip(names, data["losses"].values.T, strict=True))
    traces = []
    for one in _lines(data["step"].values, losses, losses, colours):
        seen = np.isfinite(np.array(one["y"], dtype=float))
        if not record.by_matching or one["name"] == "training batch":
            smooth = pandas.Series(one["y"]).rolling(SMOOTHED, min_periods=1)
            traces.append({**one, "y": smooth.mean().tolist()})
        elif seen.any():
            x, y = np.array(one["x"])[seen].tolist(), np.array(one["y"])[seen].tolist()
            traces.append({**one, "x": x, "y": y, "mode": "lines+markers"})
    title = {"title": {"text": "nats per token"}}
    return _figure(traces, 420, {"title": {"text": "step"}}, title) if traces else None


def _lines(
    x: Sequence[float] | np.ndarray,
    y: Mapping[str, Any],
    order: Iterable[str],
    colours: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Returns a line a name, at most `MOST_POINTS` points of each."""
    every = max(1, -(-len(x) // MOST_POINTS))
    kept = np.arange(len(x) - 1, -1, -every)[::-1]
    names = sorted(y)
    own = {**domain_colours(names), **(colours or {})}
    dashes = {name: DASHES[place // 10 % len(DASHES)] for place, name in enumerate(names)}
    return [
        _trace(
            np.array(x)[kept],
            np.array(y[name], dtype=float)[kept],
            mode="lines",
            name=_label(name),
            line={"color": own[name], "width": 1.8, "dash": dashes[name]},
            marker={"color": own[name], "size": 7},
        )
        for name in list(order)[:MOST_DRAWN]
    ]


def _trace(x: Sequence[float] | np.ndarray, y: Any, **more: Any) -> dict[str, Any]:
    plain = [[float(f"{v:.5g}") for v in values] for values in (x, y)]
    return {"type": "scatter", "x": plain[0], "y": plain[1], **more}


def _label(name: str) -> str:
    """Returns a name for a label, in which plotly would read some HTML, and mathematics in $."""
    text = clean(name)
    text = text if len(text) <= SHORT else f"{text[: SHORT - 1].rstrip()}…"
    return html.escape(text, quote=False).replace("$", "&#36;")


def _mark(figure: Figure, x: float, text: str) -> None:
    """Draws a line at a place of the x axis, with a word beside it."""
    figure.add_vline(
        x, line={"color": FAINT, "width": 1, "dash": "dot"}, annotation_text=text,
        annotation_font={"color": FAINT, "size": 12},
    )  # fmt: skip


def _figure(
    traces: Sequence[Mapping[str, Any]], height: int, x: Mapping[str, Any], y: Mapping[str, Any]
) -> Figure:
    """Returns a figure in the report's style, of a height in pixels."""
    from plotly.graph_objects import Figure

    axes = {"xaxis": {**AXIS, **x}, "yaxis": {**AXIS, **y}}
    return Figure(data=list(traces), layout={**LAYOUT, "height": height, **axes})
