"""Regressions of a target's loss on the weights, and how well they predict runs left out.

Runs are dealt into folds, runs on one mixture into the same; each fold is predicted by a fit to the
others. No regression wins on every table, so the one with the best rank correlation is chosen. Its
intervals are as wide as its own errors ask for (conformal prediction): the errors of left-out runs,
in units of what the regression takes for their standard deviation, have a quantile, and intervals
reach that far. Beyond where runs were measured no calibration holds.

References:
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, on conformal
    prediction.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from bydore_pyro.baselines.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.baselines.log_linear import fit_log_linear
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.utils import DataError, require

__all__ = ["FEWEST_RUNS", "LIGHTGBM", "TREES", "AnyRegression", "CrossValidated", "Kind",
           "PointRegression", "best_of", "calibrated", "cross_validate", "deviation_of_run",
           "fit_regression", "interval_of_run", "spearman_x100"]  # fmt: skip

REACH = NormalDist().inv_cdf((1 + HDI_PROBABILITY) / 2)  # standard deviations of an interval
Kind = Literal["linear", "lightgbm", "log_linear", "gaussian_process"]
FOLDS = 5
FEWEST_RUNS = 20  # below, a fold's correlation and a 94 % quantile are chance

# The authors' settings, LightGBM's own for the rest, and what makes it the same everywhere.
TREES, MIN_RUNS_IN_LEAF = 1000, 20
LIGHTGBM = {
    "objective": "regression",
    "metric": ["l1", "l2"],
    "learning_rate": 0.01,
    "seed": 42,
    "min_data_in_leaf": MIN_RUNS_IN_LEAF,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class PointRegression:
    """A fitted regression without uncertainty of its own.

    Args:
        kind: Which one.
        estimator: Fitted, with a method `predict`.
        deviation: Standard deviation of a new run's loss about the prediction, which
            cross-validation finds; None before.
    """

    kind: str
    estimator: Any
    deviation: float | None = None

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the predicted losses ``(S,)`` of mixtures ``(S, K)``, in the runs' unit."""
        return self.estimator.predict(weights)


AnyRegression = PointRegression | GaussianProcess


def deviation_of_run(model: AnyRegression, weights: np.ndarray) -> np.ndarray | None:
    """Returns how unsure the loss of one more run on each mixture is ``(S,)``, None if unknown."""
    if isinstance(model, GaussianProcess):
        return model.standard_deviation(weights)
    return None if model.deviation is None else np.full(len(weights), model.deviation)


def interval_of_run(model: AnyRegression, weights: np.ndarray) -> np.ndarray:
    """Returns the 94 % intervals of one more run on each mixture ``(S, 2)``, NaN if unknown."""
    mean, deviation = model.predict(weights), deviation_of_run(model, weights)
    half = np.full(len(mean), np.nan) if deviation is None else REACH * deviation
    return np.stack([mean - half, mean + half], axis=1)


def spearman_x100(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Returns the rank correlation times 100, in [-100, 100]; None if one ``(N,)`` is constant."""
    if min(np.ptp(predicted), np.ptp(measured)) == 0:
        return None
    return 100 * float(stats.spearmanr(predicted, measured).statistic)


def fit_regression(kind: Kind, weights: np.ndarray, losses: np.ndarray) -> AnyRegression:
    """Fits a regression of a target's loss on the weights.

    Args:
        kind: "linear": least squares. "lightgbm": 1000 trees, learning rate 0.01, seed 42, on one
            thread, so that the same runs give the same trees. "log_linear": olmix's law, see
            `fit_log_linear`. "gaussian_process": see `fit_gaussian_process`.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, in any unit.

    Raises:
        DataError: When there are too few runs, all have one loss, or the library that fits is not
            installed.
    """
    fewest = 2 * MIN_RUNS_IN_LEAF if kind == "lightgbm" else 2
    if len(losses) < fewest:
        raise DataError(f"Expected at least {fewest} runs for {kind}, found {len(losses)}")
    if np.ptp(losses) == 0:
        raise DataError(f"Expected runs that differ in loss, found {losses[0]:g} in all")
    if kind == "gaussian_process":
        return fit_gaussian_process(weights, losses)
    if kind == "log_linear":
        return PointRegression(kind=kind, estimator=fit_log_linear(weights, losses))
    if kind == "linear":
        linear = require("sklearn.linear_model", "baselines").LinearRegression()
        return PointRegression(kind=kind, estimator=linear.fit(weights, losses))
    lightgbm = require("lightgbm", "baselines")
    # LightGBM's own interface: the names of its scikit-learn interface change between versions.
    training = lightgbm.Dataset(weights, losses, params=LIGHTGBM)
    return PointRegression(kind=kind, estimator=lightgbm.train(LIGHTGBM, training, TREES))


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
    kind: Kind, weights: np.ndarray, losses: np.ndarray, progress: Callable[[], object] = int
) -> CrossValidated:
    """Predicts each fold of the runs by a fit to the others.

    Args:
        kind: The regression.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``.
        progress: Is called after each fold.

    Raises:
        DataError: When there are too few runs, or too few for the regression.
    """
    _, group = np.unique(weights, axis=0, return_inverse=True)
    if len(losses) < FEWEST_RUNS or group.max() < FOLDS:
        raise DataError(
            f"Expected at least {FEWEST_RUNS} runs to cross-validate, found {len(losses)}"
        )
    dealt = require("sklearn.model_selection", "baselines").GroupKFold(
        FOLDS, shuffle=True, random_state=0
    )
    folds, start = np.empty(len(losses), int), time.perf_counter()
    predicted, deviation = np.empty(len(losses)), np.ones(len(losses))
    for fold, (rest, out) in enumerate(dealt.split(weights, groups=group.ravel())):
        model = fit_regression(kind, weights[rest], losses[rest])
        predicted[out], folds[out] = model.predict(weights[out]), fold
        if isinstance(model, GaussianProcess):
            deviation[out] = model.standard_deviation(weights[out])
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
    kinds: Sequence[Kind] = get_args(Kind),
    progress: Callable[[], object] = int,
) -> tuple[CrossValidated, ...]:
    """Cross-validates regressions; returns those that can be fitted, best rank correlation first.

    Raises:
        DataError: When no regression can be fitted.
    """
    found, refused = [], "none"
    for kind in kinds:
        try:
            found.append(cross_validate(kind, weights, losses, progress))
        except DataError as error:
            refused = str(error)
    if not found:
        raise DataError(refused)
    return tuple(sorted(found, key=lambda one: (-one.spearman_x100, one.rmse)))


def calibrated(model: AnyRegression, by: CrossValidated) -> AnyRegression:
    """Returns a regression, fitted to all runs, with intervals as wide as left-out runs ask for."""
    if isinstance(model, GaussianProcess):
        return dataclasses.replace(model, width=by.width)
    return dataclasses.replace(model, deviation=by.width)


def _quantile(errors: np.ndarray) -> float:
    """Returns what HDI_PROBABILITY of new errors stay below: the quantile of one more."""
    rank = int(np.ceil((len(errors) + 1) * HDI_PROBABILITY))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])
