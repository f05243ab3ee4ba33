"""How well regressions predict runs that they were not fitted to, and how wide intervals must be.

The runs are dealt into folds, runs on one mixture into the same; each fold is predicted by a fit to
the others. No regression wins on every table, so the one with the best rank correlation is chosen.
Its intervals are as wide as its own errors ask for (conformal prediction): the errors of left-out
runs, in units of what the regression takes for their standard deviation, have a quantile, and
intervals reach that far. Beyond where runs were measured no calibration holds.

References:
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, on conformal
    prediction.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from bydore_pyro.baselines.regression import (
    REACH,
    AnyRegression,
    Kind,
    PointRegression,
    deviation_of_run,
    fit_regression,
)
from bydore_pyro.baselines.regression_input import spearman_x100
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.utils import DataError

__all__ = ["FEWEST_RUNS", "CrossValidated", "best_of", "calibrated", "cross_validate"]

FOLDS = 5
FEWEST_RUNS = 20  # below, a fold's correlation and a 94 % quantile are chance


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossValidated:
    """What left-out runs tell of a regression.

    Args:
        kind: The regression.
        spearman_x100: Rank correlation with what was measured, times 100; higher is better.
        rmse: Root of the mean squared error, in the losses' unit.
        coverage: Share of the runs inside their 94 % intervals, whose width comes from the other
            folds' errors.
        width: What calibrates the regression's intervals, fitted to all runs: a factor of its
            standard deviations or, where it has none, a standard deviation.
        seconds: Of one fit.
    """

    kind: Kind
    spearman_x100: float
    rmse: float
    coverage: float
    width: float
    seconds: float

    def row(self) -> dict[str, Any]:
        """Returns the figures as plain values."""
        return {name: value for name, value in vars(self).items() if name != "kind"}


def cross_validate(
    kind: Kind,
    weights: np.ndarray,
    losses: np.ndarray,
    *,
    fit: Callable[..., AnyRegression] = fit_regression,
    progress: Callable[[], object] = int,
) -> CrossValidated:
    """Predicts each fold of the runs by a fit to the others.

    Args:
        kind: The regression.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``.
        fit: Fits a kind to weights and losses.
        progress: Is called after each fold.

    Raises:
        DataError: When there are fewer than `FEWEST_RUNS` runs, or too few for the regression.
    """
    if len(losses) < FEWEST_RUNS:
        raise DataError(f"Expected at least {FEWEST_RUNS} runs to cross-validate, found "
                        f"{len(losses)}")  # fmt: skip
    folds = _folds(weights)
    predicted, deviation = np.empty(len(losses)), np.ones(len(losses))
    start = time.perf_counter()
    for fold in range(FOLDS):
        out = folds == fold
        model = fit(kind, weights[~out], losses[~out])
        predicted[out] = model.predict(weights[out])
        own = deviation_of_run(model, weights[out])
        deviation[out] = 1.0 if own is None else own
        progress()
    seconds = (time.perf_counter() - start) / FOLDS
    errors = np.abs(predicted - losses) / np.maximum(deviation, 1e-12 * np.ptp(losses))
    inside = [errors[folds == f] <= _quantile(errors[folds != f]) for f in range(FOLDS)]
    return CrossValidated(
        kind=kind,
        spearman_x100=spearman_x100(predicted, losses) or 0.0,
        rmse=float(np.sqrt(np.mean((predicted - losses) ** 2))),
        coverage=float(np.concatenate(inside).mean()),
        width=_quantile(errors) / REACH,
        seconds=seconds,
    )


def best_of(
    weights: np.ndarray,
    losses: np.ndarray,
    *,
    kinds: Sequence[Kind] = get_args(Kind),
    fit: Callable[..., AnyRegression] = fit_regression,
    progress: Callable[[], object] = int,
) -> tuple[CrossValidated, ...]:
    """Cross-validates regressions; returns those that can be fitted, best rank correlation first.

    Raises:
        DataError: When there are fewer than `FEWEST_RUNS` runs, or no regression can be fitted.
    """
    found, refused = [], "none"
    for kind in kinds:
        try:
            found.append(cross_validate(kind, weights, losses, fit=fit, progress=progress))
        except DataError as error:
            refused = str(error)
    if not found:
        raise DataError(refused)
    return tuple(sorted(found, key=lambda one: (-one.spearman_x100, one.rmse)))


def calibrated(model: AnyRegression, by: CrossValidated) -> AnyRegression:
    """Returns a regression, fitted to all runs, with intervals as wide as left-out runs ask for."""
    if isinstance(model, PointRegression):
        return dataclasses.replace(model, deviation=by.width)
    return dataclasses.replace(model, width=by.width)


def _folds(weights: np.ndarray) -> np.ndarray:
    """Returns each run's fold ``(N,)``; runs on one mixture share theirs."""
    _, group = np.unique(weights, axis=0, return_inverse=True)
    group = group.ravel()
    order = np.random.default_rng(0).permutation(group.max() + 1)
    return (np.argsort(order) % FOLDS)[group]


def _quantile(errors: np.ndarray) -> float:
    """Returns what HDI_PROBABILITY of new errors stay below: the quantile of one more."""
    rank = int(np.ceil((len(errors) + 1) * HDI_PROBABILITY))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])
