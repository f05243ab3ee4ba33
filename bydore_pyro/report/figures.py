"""The figures of a run, by plotly: a record in, a figure out; nothing is saved here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.report.drawing import (
    INK,
    MOST_DRAWN,
    SHORT,
    Look,
    escaped,
    figure_of,
    mark,
    plain_numbers,
    thinned,
    trace,
    word_trace,
)
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.verdicts import average_start
from bydore_pyro.report.words import number

if TYPE_CHECKING:
    import xarray
    from plotly.graph_objects import Figure

__all__ = [
    "SMOOTHED",
    "lengths_figure",
    "losses_figure",
    "rounds_figure",
    "running_mean",
    "trajectory_figure",
    "weights_figure",
]

SMOOTHED = 10  # steps of the losses' running mean
ROW = 26  # pixels
MOST_WORDS = 5  # at the ends of lines, for who prints in grey
MOST_ROUNDS_DRAWN, MOST_UNNAMED = 8, 0.05  # domains; weights that are not named in the figure
AT_STEP = "%{meta.told}<br>step %{x}: %{y:.4f}"
IN_ROUND = "%{meta.told}<br>rounds 1 to %{x}: %{y:.4f}"
ALONE = "%{meta.told}<br>round %{x} alone: %{y:.4f}"
FOR_RUN = "%{meta.told}<br>a run of %{x:.3s} tokens: %{y:.4g}"
STEPS = {"title": {"text": "step"}}
WEIGHTS = {"title": {"text": "weight"}, "rangemode": "tozero"}


def weights_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws every weight with its interval and quartiles, largest on top; None without weights."""
    mixture = record.mixture
    if mixture is None:
        return None
    weights = mixture.as_dict()
    hdi = dict(zip(mixture.names, mixture.hdi or (), strict=False))
    free = dict(zip(mixture.names, mixture.free_weights or (), strict=False))
    order = sorted(mixture.names, key=lambda name: -weights[name])[:MOST_DRAWN]
    traces: list[dict[str, Any]] = []
    for row, name in enumerate(order):
        look = dataclasses.replace(looks[name], dash="solid")
        told = f"{escaped(name)}: {number(weights[name], 4)}"
        bars: list[tuple[int, float, float]] = []
        points = [(weights[name], "diamond", 10)]
        if name in free:
            told += f"<br>free of the cap {number(free[name], 4)}"
            points.append((free[name], "diamond-open", 8))
        if name in hdi:
            low, high = hdi[name]
            told += f"<br>{mixture.hdi_probability:.0%} interval {number(low)} to {number(high)}"
            bars.append((2, low, high))
        if name in record.draws:
            low, high = record.draws[name].lower, record.draws[name].upper
            told += f"<br>half of the draws {number(low)} to {number(high)}"
            bars.append((7, low, high))
        for width, low, high in bars:
            ends = [low, (low + high) / 2, high]  # the middle can be pointed at as well
            traces.append(trace(ends, [row] * 3, look, told=told, width=width))
        for x, symbol, size in points:
            line = {"color": INK if symbol.endswith("-open") else "white", "width": 1}
            marker = {"color": INK, "symbol": symbol, "size": size, "line": line}
            more: dict[str, Any] = {"marker": marker, "cliponaxis": False}
            traces.append(trace([x], [row], look, told=told, mode="markers", **more))
    rows = {
        "tickvals": list(range(len(order))),
        "ticktext": [escaped(name, SHORT) for name in order],
        "range": [len(order) - 0.4, -0.6],
        "showgrid": False,
    }
    figure = figure_of(traces, height=ROW * len(order) + 102, xaxis=WEIGHTS, yaxis=rows)
    mark(figure, 1 / len(mixture.names), "uniform")
    return figure


def trajectory_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the mean weight of every domain over the steps, and where the average begins."""
    trajectory = record.trajectory
    if trajectory is None:
        return None
    means, steps = trajectory["mean"].values, trajectory["step"].values
    chosen, start = thinned(len(steps)), average_start(record)
    spread = trajectory.get("standard_deviation")
    traces: list[dict[str, Any]] = []
    for k, look in _largest(trajectory, means[start:].mean(0), looks):
        one = trace(steps[chosen], means[chosen, k], look, hover=AT_STEP)
        if spread is not None:
            one["customdata"] = plain_numbers(spread.values[chosen, k])
            one["hovertemplate"] = f"{AT_STEP} ± %{{customdata:.4f}}<extra></extra>"
        if record.by_matching:  # weights stay between rounds
            one["line"]["shape"] = "hv"
        traces.append(one)
    room = 0.07 * float(means.max())
    placed: list[float] = []
    for k, look in _largest(trajectory, means[-1], looks)[:MOST_WORDS]:
        y = float(means[-1, k])
        if all(abs(y - other) > room for other in placed):
            placed.append(y)
            traces.append(word_trace(float(steps[-1]), y, look))
    band = {"fill": "toself", "hoverinfo": "skip", "meta": {"role": "band"}, "line": {"width": 0}}
    traces.append({"type": "scatter", "mode": "lines", "x": [], "y": [], **band})
    figure = figure_of(traces, height=420, xaxis=STEPS, yaxis=WEIGHTS)
    rounds = record.metrics.matching.rounds
    for place, one_round in enumerate(rounds, start=1):
        word = f"round {place}" if len(rounds) < 7 else ""
        mark(figure, max(0, one_round.step - 1), word, "left")
    if not record.by_matching:
        mark(figure, float(steps[min(start, len(steps) - 1)]), "averaged from here")
    return figure


def rounds_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the largest weights by every round's evidence: alone as dots, together as lines.

    None where a run has no two rounds to compare.
    """
    rounds = record.metrics.matching.rounds
    if len(rounds) < 2:
        return None
    last, nothing = rounds[-1].weights, float("nan")
    order = sorted((name for name in last if name in looks), key=lambda name: -last[name])
    places = np.arange(1, len(rounds) + 1)
    traces: list[dict[str, Any]] = []
    for name in order[:MOST_ROUNDS_DRAWN]:
        look = looks[name]
        together = [one.weights.get(name, nothing) for one in rounds]
        alone = [one.alone.get(name, nothing) for one in rounds]
        traces.append(trace(places, together, look, hover=IN_ROUND))
        traces.append(trace(places, alone, look, hover=ALONE, mode="markers"))
        if last[name] > MOST_UNNAMED:
            traces.append(word_trace(len(rounds), last[name], look))
    xaxis = {
        "title": {"text": "round"},
        "dtick": max(1, len(rounds) // 10),
        "range": [0.85, len(rounds) + 0.15],
    }
    return figure_of(traces, height=360, xaxis=xaxis, yaxis=WEIGHTS)


def losses_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the losses over the steps, running means; None where none were noted.

    A search by matching measures losses in its rounds alone: points on thin lines.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return None
    steps = trajectory["step"].values
    ends = [int(one.step) - 1 for one in record.metrics.matching.rounds]
    measured = [k for k in ends if 0 <= k < len(steps)]
    traces: list[dict[str, Any]] = []

    def draw(values: np.ndarray, look: Look, width: float, *, in_rounds: bool) -> None:
        places = np.array(measured, dtype=int) if in_rounds else thinned(len(steps))
        drawn = (values if in_rounds else running_mean(values))[places]
        mode = "lines+markers" if in_rounds else "lines"
        traces.append(trace(steps[places], drawn, look, hover=AT_STEP, mode=mode, width=width))

    if "losses" in trajectory:
        for k, look in _largest(trajectory, trajectory["mean"].values.mean(0), looks):
            draw(trajectory["losses"].values[:, k], look, 1.2, in_rounds=record.by_matching)
    if "train_loss" in trajectory:
        look = Look(name="training batch", colour=INK, dash="dash")
        draw(trajectory["train_loss"].values, look, 2.4, in_rounds=False)
    if "validation_loss" in trajectory:
        look = Look(name="validation", colour=INK)
        draw(trajectory["validation_loss"].values, look, 2.4, in_rounds=record.by_matching)
    if not traces:
        return None
    yaxis = {"title": {"text": "nats per token"}}
    return figure_of(traces, height=420, xaxis=STEPS, yaxis=yaxis)


def lengths_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the weights over the lengths of runs, with their intervals; None of fewer than two."""
    lengths = record.lengths
    traces: list[dict[str, Any]] = []
    drawn = [name for name in record.largest_by_length if name in looks][:MOST_DRAWN]
    if not drawn:
        return None
    for name in drawn:
        solid = dataclasses.replace(looks[name], dash="solid")
        for one in lengths:
            if name in one.low and name in one.high:
                ends = [one.low[name], one.high[name]]
                traces.append(trace([one.tokens] * 2, ends, solid, hover=FOR_RUN, width=1))
        tokens = [one.tokens for one in lengths]
        weights = [one.weights.get(name, 0.0) for one in lengths]
        traces.append(trace(tokens, weights, looks[name], hover=FOR_RUN, mode="lines+markers"))
    xaxis = {"title": {"text": "tokens of the run"}, "type": "log"}
    return figure_of(traces, height=340, xaxis=xaxis, yaxis=WEIGHTS)


def _largest(
    trajectory: xarray.Dataset, weights: np.ndarray, looks: Mapping[str, Look]
) -> list[tuple[int, Look]]:
    """Returns the places and looks of the domains that are drawn, by falling weight."""
    names = [str(name) for name in trajectory["domain"].values]
    order = [int(k) for k in np.argsort(-np.nan_to_num(weights))]
    return [(k, looks[names[k]]) for k in order if names[k] in looks][:MOST_DRAWN]


def running_mean(values: np.ndarray) -> np.ndarray:
    """Returns the mean of the last `SMOOTHED` values that are numbers, of fewer at the start."""
    import pandas

    return pandas.Series(values).rolling(SMOOTHED, min_periods=1).mean().to_numpy()
