"""Which metrics are asked for, and whether less or more of each is better.

Lower is better where a name says that it is a loss and all its values are positive; of every other
metric the user says it. Nothing is minimised unsaid: each metric is reported with its direction,
its best value, and the run that has it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from bydore_pyro.errors import DataError, listed
from bydore_pyro.tables.column_names import sounds_like_a_loss
from bydore_pyro.tables.tables import Asked, Direction, RunsTable

ALL = "all"  # every metric of the table
SAID = 8  # metrics of which a line is printed
FAR = 30.0  # times the interquartile range from the median, where a run has probably diverged
SAME = 1e-6  # weights, and losses as shares of their range, are the same up to here


def metric_shares(table: RunsTable, wanted: Sequence[str]) -> dict[str, float]:
    """Returns the metrics whose weighted mean is wanted, with shares that sum to 1.

    Wanted are names of metrics, in which * stands for anything, with =WEIGHT after them or a weight
    of 1; or `ALL`. What is named twice counts twice.

    Raises:
        DataError: When nothing has such a name, or a weight is no number >= 0.
    """
    found: dict[str, float] = {}
    for item in wanted:
        pattern, equals, number = item.rpartition("=")
        if not equals or item in table.targets:
            pattern, number = item, "1"
        try:
            weight = float(number)
        except ValueError:
            weight = np.nan
        if not (np.isfinite(weight) and weight >= 0):
            raise DataError(f"Expected NAME=WEIGHT with a weight >= 0, found '{item}'")
        for name in _named(table, pattern):
            found[name] = found.get(name, 0.0) + weight
    total = sum(found.values())
    if not total > 0:
        raise DataError("Expected a metric with a weight > 0, found none")
    return {name: weight / total for name, weight in found.items() if weight > 0}


def _named(table: RunsTable, pattern: str) -> list[str]:
    names = [name for name in table.targets if pattern in (ALL, name) or fnmatchcase(name, pattern)]
    if not names:
        raise table.lacking(pattern)
    return names


def directed(
    table: RunsTable,
    shares: Mapping[str, float],
    maximize: Sequence[str] = (),
    minimize: Sequence[str] = (),
) -> tuple[RunsTable, list[str]]:
    """Returns the runs that have all of some metrics, turned so that lower is better, and lines on
    what was done.

    Args:
        table: The runs.
        shares: The metrics that are asked for.
        maximize: Names of metrics, or patterns, that are better when higher: they are negated.
        minimize: Of those that are better when lower.

    Raises:
        DataError: When nobody says the direction of a metric whose name is not a loss's or that is
            not positive, both are said, a pattern names no metric, no run has all metrics, or
            metrics of both directions, which have no unit in common, count alike.
    """
    up, down = (
        {name for pattern in patterns for name in _named(table, pattern)}
        for patterns in (maximize, minimize)
    )
    if both := sorted(up & down):
        raise DataError(f"Expected one direction for '{both[0]}', found both")
    names = [name for name in shares if name in table.targets]
    _refuse_unclear(table, [name for name in names if name not in up | down])
    high = [name for name in shares if name in up]
    if high and len(high) < len(shares) and len({*shares.values()}) == 1:
        low = next(name for name in shares if name not in up)
        raise DataError(
            f"Expected metrics of one unit, or NAME=WEIGHT for each, found '{high[0]}', better "
            f"when higher, and '{low}', better when lower"
        )
    sign = np.where([name in up for name in table.targets], -1.0, 1.0)
    has = np.isfinite(table.losses[:, [name in shares for name in table.targets]]).all(1)
    if not has.any():
        raise DataError(f"Expected runs with {listed(shares, 5)}, found none")
    kept = _part(table, has)
    once = _first_of_copies(kept, names)
    kept = _part(kept, once)
    asked, lines = _asked(kept, names, up)
    if lacking := int((~has).sum()):
        lines.append(f"left out without {listed(shares, 5)}: {lacking} of {len(has)} runs")
    if copies := len(once) - int(once.sum()):
        lines.append(f"left out as copies of a run: {copies} of {len(once)} rows")
    return replace(kept, losses=kept.losses * sign, asked=asked), lines


def _part(table: RunsTable, kept: np.ndarray) -> RunsTable:
    runs = tuple(run for run, one in zip(table.runs, kept, strict=True) if one)
    return replace(table, runs=runs, weights=table.weights[kept], losses=table.losses[kept])


def _first_of_copies(table: RunsTable, metrics: Sequence[str]) -> np.ndarray:
    """Returns which runs ``(N,)`` no earlier one equals in its weights and its metrics.

    From copies a regression would conclude that there is no noise.
    """
    losses = table.losses[:, [table.targets.index(name) for name in metrics]]
    unit = np.maximum(np.ptp(losses, axis=0), 1e-300)
    rows = np.concatenate([table.weights, (losses - losses.min(0)) / unit], 1)
    _, first = np.unique(np.round(rows / SAME), axis=0, return_index=True)
    return np.isin(np.arange(len(rows)), first)


def _refuse_unclear(table: RunsTable, names: Sequence[str]) -> None:
    silent = []
    for name in names:
        values = table.losses_of(name)
        known = values[np.isfinite(values)]
        if not len(known) or np.ptp(known) == 0:
            continue  # it decides nothing
        if not (sounds_like_a_loss(table.column_of(name)) or sounds_like_a_loss(name)):
            silent.append(name)
        elif known.min() <= 0:
            where = [run for run, v in zip(table.runs, values, strict=True) if v <= 0]
            raise DataError(
                f"Expected losses > 0 in '{name}', found {known.min():g} ({len(where)} of "
                f"{len(values)} runs: {listed(where, 3)}): empty the cells of runs that failed, or "
                f"say --minimize {shlex.quote(name)}, or --maximize"
            )
    if silent:
        first = shlex.quote(silent[0])
        raise DataError(
            f"Expected a direction for {listed(silent, 5)}, whose name does not say that it is a "
            f"loss, found none: --maximize {first}, or --minimize {first}"
            f"{' (* matches anything)' if len(silent) > 1 else ''}"
        )


def _asked(
    table: RunsTable, names: Sequence[str], up: set[str]
) -> tuple[dict[str, Asked], list[str]]:
    asked, lines = {}, []
    for name in names:
        values = table.losses_of(name)
        if np.ptp(values) == 0:
            lines.append(f"the same in all runs, and without effect: {name} ({values[0]:.6g})")
            continue
        place = int(values.argmax() if name in up else values.argmin())
        direction: Direction = "maximised" if name in up else "minimised"
        one = Asked(direction=direction, best=float(values[place]), run=table.runs[place])
        asked[name] = one
        better = "higher" if name in up else "lower"
        best = f"best {values[place]:.6g}, run {one.run}"
        low, median, high = np.quantile(values, (0.25, 0.5, 0.75))
        far = np.flatnonzero((np.abs(values - median) > FAR * (high - low)) & (high > low))
        if len(far):
            best += f"; far from all others: {listed([table.runs[one] for one in far], 3)}"
        lines.append(f"{direction}: {name} ({better} is better; {best})")
    if len(lines) > SAID:
        rest = len(lines) - SAID
        lines = [*lines[:SAID], f"and {rest} more metrics, which the record names"]
    return asked, lines
