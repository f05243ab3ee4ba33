"""Which metrics of a table of runs are to fall: one, a mean, a weighted mean, or all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from bydore_pyro.baselines.tables import RunsTable, some
from bydore_pyro.mixture import numbers_of
from bydore_pyro.utils import DataError

__all__ = ["ALL", "metric_shares", "with_mean"]

ALL = "all"  # every metric of the table


def metric_shares(table: RunsTable, wanted: Sequence[str]) -> dict[str, float]:
    """Returns the metrics whose weighted mean is to fall, with shares that sum to 1.

    Args:
        table: The runs.
        wanted: Names of metrics, in which * stands for anything, each with =WEIGHT or 1 after it;
            files of metrics' weights; or `ALL`. What is named twice counts twice.

    Raises:
        DataError: When nothing has such a name, or a weight is no number >= 0.
    """
    found: dict[str, float] = {}
    for item in wanted:
        for name, weight in _named(table, item).items():
            found[name] = found.get(name, 0.0) + weight
    total = sum(found.values())
    if not total > 0:
        raise DataError("Expected a metric with a weight > 0, found none")
    return {name: weight / total for name, weight in found.items() if weight > 0}


def with_mean(table: RunsTable, shares: dict[str, float]) -> tuple[RunsTable, str]:
    """Returns the table with one target more, the weighted mean of some, and its name.

    A single metric is its own mean: the table stays as it is.

    Raises:
        DataError: When a metric has the mean's name.
    """
    if len(shares) == 1:
        return table, next(iter(shares))
    name = f"mean of {len(shares)} metrics"
    if len(set(shares.values())) > 1:
        name = f"weighted {name}"
    if name in table.targets:
        raise DataError(f"Expected no metric named '{name}' in the table, found one")
    mean = sum(share * table.losses_of(one) for one, share in shares.items())
    losses = np.concatenate([table.losses, np.asarray(mean)[:, None]], axis=1)
    return dataclasses.replace(table, targets=(*table.targets, name), losses=losses), name


def _named(table: RunsTable, item: str) -> dict[str, float]:
    """Returns what one item names, with weights as they stand there."""
    if item in table.targets:
        return {item: 1.0}
    if item == ALL:
        return dict.fromkeys(table.targets, 1.0)
    if Path(item).suffix.lower() in (".json", ".yaml", ".yml", ".csv"):
        weights = numbers_of(Path(item))
        for name in weights:
            table.losses_of(name)
        return weights
    pattern, equals, number = item.rpartition("=")
    if not equals:
        pattern, number = item, "1"
    try:
        weight = float(number)
    except ValueError:
        weight = np.nan
    if not (np.isfinite(weight) and weight >= 0):
        raise DataError(f"Expected NAME=WEIGHT with a weight >= 0, found '{item}'")
    names = [name for name in table.targets if name == pattern or fnmatchcase(name, pattern)]
    if not names:
        raise DataError(f"Expected one of the targets {some(table.targets)}, found '{pattern}'")
    return dict.fromkeys(names, weight)
