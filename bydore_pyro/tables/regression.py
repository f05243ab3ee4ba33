"""Regressions of a target's loss on the weights, and how well they predict runs left out.

Runs are dealt into folds, runs on one mixture into the same; each fold is predicted by a fit to the
others. No regression wins on every table, so the one with the best rank correlation is chosen. Its
intervals are as wide as its own errors ask for (conformal prediction): the errors of left-out runs,
in units of what the regression takes for their standard deviation, have a quantile, and intervals
reach that far. Beyond where runs were measured no calibration holds.

References:
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, on conformal
    prediction. allenai/olmix (Apache-2.0), the log-linear law.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np
from scipy import optimize, stats

from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.tables.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.tables.record import Regressed
from bydore_pyro.utils import DataError, require

__all__ = ["LIGHTGBM", "TREES", "AnyRegression", "Choice", "Kind", "LogLinear", "PointRegression",
           "best_of", "cross_validate", "fit_log_linear", "fit_regression", "interval_of_run",
           "spearman_x100"]  # fmt: skip

REACH = NormalDist().inv_cdf((1 + HDI_PROBABILITY) / 2)  # standard deviations of an interval
Kind = Literal["linear", "lightgbm", "log_linear", "gaussian_process"]
Choice = Literal["auto", "linear", "lightgbm", "log_linear", "gaussian_process"]
FOLDS = 5
FEWEST_RUNS = 20  # below, a fold's correlation and a 94 % quantile are chance
ROUNDED = 1e-12  # differences of losses that are rounding, as a share of the largest loss

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

# The log-linear law's search.
SHRINKAGE = 1e-3  # in units of the losses' variance for a slope of 1
BELOW = (0.05, 0.5, 2.0)  # starts: the asymptote, so many ranges of the losses below the least
LARGEST = 50.0  # of an exponent, so that a step too far is only a bad one
EVALUATIONS = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class PointRegression:
    """A fitted regression without uncertainty of its own.

    Args:
        estimator: Fitted, with a method `predict`.
        width: Standard deviation of a new run's loss about the prediction, which cross-validation
            finds; None before.
    """

    estimator: Any
    width: float | None = None

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the predicted losses ``(S,)`` of mixtures ``(S, K)``, in the runs' unit."""
        return self.estimator.predict(weights)

    def deviation(self, weights: np.ndarray) -> np.ndarray | None:
        """Returns standard deviations ``(S,)`` of one more run on each mixture, None if unknown."""
        return None if self.width is None else np.full(len(weights), self.width)

    def gap(self, weights: np.ndarray, other: np.ndarray) -> tuple[float, float | None]:
        """Returns the other mixture's loss minus this one's, and its standard deviation between
        two new runs, in the unit of the losses."""
        own, others = self.predict(np.stack([weights, other]))
        return float(others - own), None if self.width is None else np.sqrt(2) * self.width


AnyRegression = PointRegression | GaussianProcess


def interval_of_run(model: AnyRegression, weights: np.ndarray) -> np.ndarray:
    """Returns the 94 % intervals of one more run on each mixture ``(S, 2)``, NaN if unknown."""
    mean, deviation = model.predict(weights), model.deviation(weights)
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
        DataError: When there are too few runs, their losses are equal but for rounding, or the
            library that fits is not installed.
    """
    fewest = 2 * MIN_RUNS_IN_LEAF if kind == "lightgbm" else 2
    if len(losses) < fewest:
        raise DataError(f"Expected at least {fewest} runs for {kind}, found {len(losses)}")
    if not np.ptp(losses) > ROUNDED * np.abs(losses).max():
        raise DataError(f"Expected runs that differ in loss, found {losses[0]:g} in all")
    if kind == "gaussian_process":
        return fit_gaussian_process(weights, losses)
    if kind == "log_linear":
        return PointRegression(estimator=fit_log_linear(weights, losses))
    if kind == "linear":
        linear = require("sklearn.linear_model", "baselines").LinearRegression()
        return PointRegression(estimator=linear.fit(weights, losses))
    lightgbm = require("lightgbm", "baselines")
    # LightGBM's own interface: the names of its scikit-learn interface change between versions.
    training = lightgbm.Dataset(weights, losses, params=LIGHTGBM)
    return PointRegression(estimator=lightgbm.train(LIGHTGBM, training, TREES))


def cross_validate(
    kind: Kind, weights: np.ndarray, losses: np.ndarray, progress: Callable[[], object] = int
) -> Regressed:
    """Predicts each fold of the runs by a fit to the others.

    Args:
        kind: The regression.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``.
        progress: Is called after each fold.

    Raises:
        DataError: When there are too few runs.
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
    predicted, deviation = np.empty(len(losses)), np.empty(len(losses))
    for fold, (rest, out) in enumerate(dealt.split(weights, groups=group.ravel())):
        model = dataclasses.replace(fit_regression(kind, weights[rest], losses[rest]), width=1.0)
        predicted[out], folds[out] = model.predict(weights[out]), fold
        deviation[out] = model.deviation(weights[out])
        progress()
    seconds = (time.perf_counter() - start) / FOLDS
    errors = np.abs(predicted - losses) / np.maximum(deviation, 1e-12 * np.ptp(losses))
    inside = [errors[folds == f] <= _quantile(errors[folds != f]) for f in range(FOLDS)]
    return Regressed(
        regression=kind,
        spearman_x100=spearman_x100(predicted, losses) or 0.0,
        rmse=float(np.sqrt(np.mean((predicted - losses) ** 2))),
        coverage=float(np.concatenate(inside).mean()),
        width=_quantile(errors) / REACH,
        seconds=seconds,
    )


def best_of(
    choice: Choice,
    weights: np.ndarray,
    losses: np.ndarray,
    progress: Callable[[], object] = int,
) -> tuple[AnyRegression, dict[str, Regressed]]:
    """Fits the regression that is asked for, or that ranks left-out runs best.

    Args:
        choice: "auto" for the best rank correlation of left-out runs, and for the Gaussian process
            where there are fewer than 20 runs.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``.
        progress: Is called after each fold.

    Returns:
        The regression fitted to all runs, with intervals as wide as left-out runs ask for, and
        what these said of those that were compared, best first; nothing where they are too few.

    Raises:
        DataError: When the runs are too few for the regression, or the losses are all equal.
    """
    kinds: tuple[Kind, ...] = get_args(Kind) if choice == "auto" else (choice,)
    found: dict[Kind, Regressed] = {}
    for kind in kinds:
        # A regression may be content with all runs and not with four fifths of them.
        with contextlib.suppress(DataError):
            found[kind] = cross_validate(kind, weights, losses, progress)
    ranked = sorted(found, key=lambda kind: -(found[kind].spearman_x100 or 0.0))
    best = ranked[0] if ranked else kinds[-1]  # the Gaussian process is the last
    model = fit_regression(best, weights, losses)
    if ranked:
        model = dataclasses.replace(model, width=found[best].width or 1.0)
    return model, {kind: found[kind] for kind in ranked}


def _quantile(errors: np.ndarray) -> float:
    """Returns what HDI_PROBABILITY of new errors stay below: the quantile of one more."""
    rank = int(np.ceil((len(errors) + 1) * HDI_PROBABILITY))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])


@dataclass(frozen=True, kw_only=True, eq=False)
class LogLinear:
    """olmix's law, ``loss(w) = exp(c) + exp(t . w)``: c and the slopes t ``(1 + K,)``."""

    parameters: np.ndarray

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        exponents = np.clip(weights @ self.parameters[1:], -LARGEST, LARGEST)
        return np.exp(min(self.parameters[0], LARGEST)) + np.exp(exponents)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Returns the law's derivatives by c and the slopes ``(S, 1 + K)``."""
        rise = np.exp(np.clip(weights @ self.parameters[1:], -LARGEST, LARGEST))
        flat = np.full((len(weights), 1), np.exp(min(self.parameters[0], LARGEST)))
        return np.concatenate([flat, rise[:, None] * weights], axis=1)


def fit_log_linear(weights: np.ndarray, losses: np.ndarray) -> LogLinear:
    """Fits the law by least squares; slopes of domains that few runs hold stay near the mean's.

        sum_i (loss_i - law(w_i))^2 / var(loss) + 0.001 sum_k (t_k - mean t)^2

    The search starts at several asymptotes below the losses.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, > 0.

    Raises:
        DataError: When a loss is not positive.
    """
    if losses.min() <= 0:
        raise DataError(f"Expected losses > 0 for the log-linear law, found {losses.min():g}")
    domains, scale = weights.shape[1], losses.std()
    centred = np.sqrt(SHRINKAGE) * (np.eye(domains) - 1 / domains)
    penalty = np.concatenate([np.zeros((domains, 1)), centred], axis=1)

    def residuals(p: np.ndarray) -> np.ndarray:
        own = (LogLinear(parameters=p).predict(weights) - losses) / scale
        return np.concatenate([own, penalty @ p])

    def jacobian(p: np.ndarray) -> np.ndarray:
        return np.concatenate([LogLinear(parameters=p).gradient(weights) / scale, penalty])

    fits = []
    for below in BELOW:
        floor = max(losses.min() - below * np.ptp(losses), 1e-3 * losses.min())
        lines = np.concatenate([weights, centred + 0.1 * np.eye(domains)])
        slopes = np.linalg.lstsq(lines, np.append(np.log(losses - floor), np.zeros(domains)))[0]
        start = np.append(np.log(floor), slopes)
        fits.append(
            optimize.least_squares(residuals, start, jacobian, method="lm", max_nfev=EVALUATIONS)
        )
    return LogLinear(parameters=min(fits, key=lambda fit: fit.cost).x)
