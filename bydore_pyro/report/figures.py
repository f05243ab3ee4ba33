"""The figures of a run, by plotly: a record in, a figure out; nothing is saved here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.report.drawing import (
    INK,
    MOST_DRAWN,
    ROW,
    Look,
    band_trace,
    escaped,
    figure_of,
    labelled_rows,
    line_trace,
    marked_x,
    plain_numbers,
    point_trace,
    thinned,
    word_trace,
)
from bydore_pyro.report.matching_words import rounds_in
from bydore_pyro.report.run_record import RunRecord, Trajectory
from bydore_pyro.report.verdicts import average_start
from bydore_pyro.report.words import number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "SMOOTHED",
    "losses_figure",
    "rounds_figure",
    "running_mean",
    "trajectory_figure",
    "weights_figure",
]

SMOOTHED = 10  # steps of the losses' running mean
MOST_WORDS = 5  # at the ends of lines, for who prints in grey
MOST_ROUNDS_DRAWN, MOST_UNNAMED = 8, 0.05  # domains; weights that are not named in the figure
AT_STEP = "%{meta.told}<br>step %{x}: %{y:.4f}"
IN_ROUND = "%{meta.told}<br>rounds 1 to %{x}: %{y:.4f}"
ALONE = "%{meta.told}<br>round %{x} alone: %{y:.4f}"


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
        look = looks[name]
        told = f"{escaped(name)}: {number(weights[name], 4)}"
        if name in free:
            told += f"<br>free of the cap {number(free[name], 4)}"
        if name in hdi:
            low, high = hdi[name]
            told += f"<br>{mixture.hdi_probability:.0%} interval {number(low)} to {number(high)}"
        if name in record.draws:
            low, _, high = record.draws[name].quartiles
            told += f"<br>half of the posterior {number(low)} to {number(high)}"
        shared: dict[str, Any] = {"keys": [look.key], "text": told}
        for width, ends in ((2, hdi.get(name)), (7, _middle_half(record, name))):
            if ends is not None:
                y = [float(row)] * 3  # the middle can be pointed at as well
                x = [ends[0], sum(ends) / 2, ends[1]]
                traces.append(line_trace(x, y, colour=look.colour, width=width, **shared))
        traces.append(point_trace(weights[name], row, colour=INK, symbol="diamond", **shared))
        if name in free:
            traces.append(
                point_trace(free[name], row, colour=INK, symbol="diamond-open", size=8, **shared)
            )
    return figure_of(
        traces,
        height=ROW * len(order) + 102,
        xaxis={"title": {"text": "weight"}, "rangemode": "tozero"},
        yaxis=labelled_rows(order),
        **marked_x(1 / len(mixture.names), "uniform"),
    )


def _middle_half(record: RunRecord, name: str) -> tuple[float, float] | None:
    """Returns the quartiles of a weight around its median, None where they are not known."""
    draws = record.draws.get(name)
    return None if draws is None else (draws.quartiles[0], draws.quartiles[2])


def trajectory_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the mean weight of every domain over the steps, and where the average begins."""
    trajectory = record.trajectory
    if trajectory is None:
        return None
    chosen, start = thinned(len(trajectory.steps)), average_start(record)
    means = trajectory.by_domain["mean"]
    spread = trajectory.by_domain.get("standard_deviation")
    traces: list[dict[str, Any]] = []
    for k in _largest(trajectory.names, means[start:].mean(0), looks):
        name = trajectory.names[k]
        look = looks[name]
        trace = line_trace(
            trajectory.steps[chosen],
            means[chosen, k],
            keys=[look.key],
            colour=look.colour,
            width=1.8,
            dash=look.dash,
            text=escaped(name),
            hover=AT_STEP if spread is None else f"{AT_STEP} ± %{{customdata:.4f}}",
        )
        if spread is not None:
            trace["customdata"] = plain_numbers(spread[chosen, k])
        traces.append(trace)
    if record.by_matching:
        marks = _marked_rounds(record)
        for trace in traces:  # weights stay between rounds
            trace["line"]["shape"] = "hv"
    else:
        first = float(trajectory.steps[min(start, len(trajectory.steps) - 1)])
        marks = marked_x(first, "averaged from here")
    return figure_of(
        [*traces, *_words(trajectory, looks), band_trace()],
        height=420,
        xaxis={"title": {"text": "step"}},
        yaxis={"title": {"text": "weight"}, "rangemode": "tozero"},
        **marks,
    )


def _marked_rounds(record: RunRecord) -> dict[str, list[dict[str, Any]]]:
    """Returns the parts of a layout that mark every round of a search by matching."""
    marks: dict[str, list[dict[str, Any]]] = {"shapes": [], "annotations": []}
    rounds = rounds_in(record.metrics)
    for place, one in enumerate(rounds, start=1):
        marked = marked_x(max(0, one.step - 1), f"round {place}" if len(rounds) < 7 else "")
        marked["annotations"][0]["xanchor"] = "right"
        for part, drawn in marked.items():
            marks[part] += drawn
    return marks


def rounds_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the largest weights by every round's evidence: alone as dots, together as lines.

    None where a run has no two rounds to compare.
    """
    rounds = rounds_in(record.metrics)
    if len(rounds) < 2:
        return None
    last = rounds[-1].weights
    order = sorted((name for name in last if name in looks), key=lambda name: -last[name])
    numbers = [float(place) for place in range(1, len(rounds) + 1)]
    traces: list[dict[str, Any]] = []
    for name in order[:MOST_ROUNDS_DRAWN]:
        look, nothing = looks[name], float("nan")
        together = [one.weights.get(name, nothing) for one in rounds]
        alone = [one.alone.get(name, nothing) for one in rounds]
        shared: dict[str, Any] = {"keys": [look.key], "colour": look.colour, "width": 1.8}
        line = line_trace(
            numbers, together, **shared, dash=look.dash, text=escaped(name), hover=IN_ROUND
        )
        dots = line_trace(numbers, alone, **shared, text=escaped(name), hover=ALONE)
        dots |= {"mode": "markers", "marker": {"color": look.colour, "size": 9}}
        traces += [line, dots]
        if together[-1] > MOST_UNNAMED:
            keys = [look.key]
            traces.append(word_trace(numbers[-1], together[-1], keys=keys, text=name))
    return figure_of(
        traces,
        height=360,
        xaxis={
            "title": {"text": "round"},
            "dtick": max(1, len(rounds) // 10),
            "range": [0.85, len(rounds) + 0.15],
        },
        yaxis={"title": {"text": "weight"}, "rangemode": "tozero"},
    )


def _words(trajectory: Trajectory, looks: Mapping[str, Look]) -> list[dict[str, Any]]:
    """Returns the names of the largest weights at the ends of their lines, where there is room."""
    last = trajectory.by_domain["mean"][-1]
    room = 0.07 * float(trajectory.by_domain["mean"].max())
    placed: list[float] = []
    words = []
    for k in _largest(trajectory.names, last, looks)[:MOST_WORDS]:
        y, name = float(last[k]), trajectory.names[k]
        if all(abs(y - other) > room for other in placed):
            placed.append(y)
            keys = [looks[name].key]
            words.append(word_trace(float(trajectory.steps[-1]), y, keys=keys, text=name))
    return words


def losses_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the losses over the steps, running means; None where none were noted.

    A search by matching measures losses in its rounds alone: points on thin lines.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return None
    chosen = thinned(len(trajectory.steps))
    traces: list[dict[str, Any]] = []

    def line(values: np.ndarray, column: str, **look: Any) -> None:
        if record.by_matching and column != "train_loss":
            places = _measured(record, trajectory)
            trace = line_trace(trajectory.steps[places], values[places], **look, hover=AT_STEP)
            trace |= {"mode": "lines+markers", "marker": {"color": look["colour"], "size": 7}}
        else:
            steps, smoothed = trajectory.steps[chosen], running_mean(values)[chosen]
            trace = line_trace(steps, smoothed, **look, hover=AT_STEP)
        traces.append(trace)

    losses = trajectory.by_domain.get("losses")
    if losses is not None:
        for k in _largest(trajectory.names, trajectory.by_domain["mean"].mean(0), looks):
            look = looks[trajectory.names[k]]
            line(
                losses[:, k],
                "losses",
                keys=[look.key],
                colour=look.colour,
                width=1.2,
                dash=look.dash,
                text=escaped(trajectory.names[k]),
            )
    for column, told, dash in (
        ("train_loss", "training batch", "dash"),
        ("validation_loss", "validation", "solid"),
    ):
        if column in trajectory.by_step:
            values = trajectory.by_step[column]
            line(values, column, colour=INK, width=2.4, dash=dash, text=told)
    if not traces:
        return None
    return figure_of(
        traces,
        height=420,
        xaxis={"title": {"text": "step"}},
        yaxis={"title": {"text": "nats per token"}},
    )


def _measured(record: RunRecord, trajectory: Trajectory) -> np.ndarray:
    """Returns the places of the steps whose records a round ends."""
    ends = [one.step - 1 for one in rounds_in(record.metrics)]
    return np.array([k for k in ends if 0 <= k < len(trajectory.steps)], dtype=int)


def _largest(names: Sequence[str], weights: np.ndarray, looks: Mapping[str, Look]) -> list[int]:
    """Returns the places of the domains that are drawn, by falling weight."""
    order = [int(k) for k in np.argsort(-np.nan_to_num(weights))]
    return [k for k in order if names[k] in looks][:MOST_DRAWN]


def running_mean(values: np.ndarray) -> np.ndarray:
    """Returns the mean of the last `SMOOTHED` values that are numbers, of fewer at the start."""
    import pandas

    return pandas.Series(values).rolling(SMOOTHED, min_periods=1).mean().to_numpy()
