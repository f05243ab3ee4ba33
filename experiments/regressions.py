"""Rivals' regressions of a metric on the weights, beside ours: linear, olmix's, a process alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from log_linear import fit_log_linear

from bydore_pyro.errors import DataError, require
from bydore_pyro.methods import fit_trees
from bydore_pyro.tables import REACH, GaussianProcess, RunsRegression, fit_runs, likeliest_process

Kind = Literal["law", "gaussian_process", "log_linear", "linear", "lightgbm"]
KINDS: tuple[Kind, ...] = ("law", "gaussian_process", "log_linear", "linear", "lightgbm")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rival:
    """A regression of each of T metrics by itself.

    Args:
        models: Fitted, with a method `predict` of mixtures ``(S, K)``.
        units: Of their losses ``(T,)``.
    """

    models: Sequence[Any]
    units: np.ndarray

    @property
    def knows_deviation(self) -> bool:
        """Whether it predicts how far a run's loss deviates."""
        return isinstance(self.models[0], GaussianProcess)

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S, T)``."""
        return self.units * np.stack([model.predict(weights) for model in self.models], 1)

    def deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns the standard deviations ``(S, T)`` of a run's losses, by Gaussian processes."""
        return self.units * np.stack([model.deviation(weights) for model in self.models], 1)


def fit_regression(
    kind: Kind,
    weights: np.ndarray,
    losses: np.ndarray,
    own: Sequence[int] | None = None,
    worth: np.ndarray | None = None,
) -> RunsRegression | Rival:
    """Fits a regression to runs.

    Args:
        kind: "law" is ours, with a Gaussian process; "gaussian_process" the process alone;
            "log_linear" olmix's law; "linear" least squares; "lightgbm" RegMix's trees.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N, T)``, or of one metric ``(N,)``.
        own: The domain ``(T,)`` that each metric is held-out text of, -1 for none.
        worth: What smaller models say of the transfer ``(T, K)``; for the law.

    Raises:
        DataError: When runs are too few for the law, losses of the log-linear law are not positive,
            or a Gaussian process finds a constant.
    """
    losses = losses.reshape(len(losses), -1)
    if kind == "law":
        even = np.full(losses.shape[1], 1 / losses.shape[1])
        return fit_runs(weights, losses, even, own, worth)
    units = losses.std(0)
    if kind == "lightgbm":
        return Rival(models=fit_trees(weights, losses).boosters, units=np.ones(len(units)))
    columns = np.ascontiguousarray((losses / units).T)
    if kind == "linear":
        linear = require("sklearn.linear_model", "baselines").LinearRegression
        return Rival(models=[linear().fit(weights, one) for one in columns], units=units)
    if kind == "log_linear":
        return Rival(models=[fit_log_linear(weights, one) for one in columns], units=units)
    processes = [likeliest_process(weights, one) for one in columns]
    if None in processes:
        raise DataError(
            "Expected losses that depend on the weights, found that a Gaussian process takes those "
            f"of all {len(losses)} runs for noise around one value"
        )
    return Rival(models=processes, units=units)


def intervals_of(model: RunsRegression | Rival, weights: np.ndarray) -> np.ndarray:
    """Returns the 94 % intervals of a run's losses on each mixture ``(S, T, 2)``."""
    expected, half = model.predict(weights), REACH * model.deviation(weights)
    return np.stack([expected - half, expected + half], -1)
