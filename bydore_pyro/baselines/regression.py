"""Regressions of a target's loss on the weights: linear, LightGBM, log-linear, Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, Protocol

import numpy as np

from bydore_pyro.baselines.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.baselines.log_linear import LogLinear, fit_log_linear
from bydore_pyro.baselines.regression_input import require_runs
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.utils import DataError, require

__all__ = [
    "REACH",
    "AnyRegression",
    "Kind",
    "PointRegression",
    "PosteriorRegression",
    "Regression",
    "deviation_of_run",
    "fit_regression",
    "interval_of_run",
]

REACH = NormalDist().inv_cdf((1 + HDI_PROBABILITY) / 2)  # standard deviations of an interval
Kind = Literal["linear", "lightgbm", "log_linear", "gaussian_process"]
PosteriorRegression = GaussianProcess | LogLinear  # those that know how sure they are

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


class Regression(Protocol):
    """What maps weights ``(S, K)`` to a target's loss ``(S,)``, in the unit of the runs' losses."""

    def predict(self, weights: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PointRegression:
    """A fitted regression without uncertainty.

    Args:
        kind: "linear" or "lightgbm".
        estimator: Of scikit-learn or LightGBM, fitted.
        deviation: Standard deviation of a new run's loss about the prediction, which
            cross-validation finds; None before.
    """

    kind: str
    estimator: Any
    deviation: float | None = None

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the predicted losses ``(S,)`` of mixtures ``(S, K)``, in the runs' unit."""
        return self.estimator.predict(weights)


AnyRegression = PointRegression | GaussianProcess | LogLinear


def deviation_of_run(model: Regression, weights: np.ndarray) -> np.ndarray | None:
    """Returns how unsure the loss of one more run on each mixture is ``(S,)``, None if unknown."""
    if isinstance(model, PosteriorRegression):
        return model.standard_deviation(weights)
    deviation = getattr(model, "deviation", None)
    return None if deviation is None else np.full(len(weights), deviation)


def interval_of_run(model: Regression, weights: np.ndarray) -> np.ndarray:
    """Returns the 94 % intervals of one more run on each mixture ``(S, 2)``, NaN if unknown."""
    mean, deviation = model.predict(weights), deviation_of_run(model, weights)
    if deviation is None:
        return np.full((len(mean), 2), np.nan)
    half = REACH * deviation
    return np.stack([mean - half, mean + half], axis=1)


def fit_regression(kind: Kind, weights: np.ndarray, losses: np.ndarray) -> AnyRegression:
    """Fits a regression of a target's loss on the weights.

    Args:
        kind: "linear": least squares. "lightgbm": 1000 trees, learning rate 0.01, seed 42, on one
            thread, so that the same runs give the same trees. "log_linear": olmix's law, see
            `fit_log_linear`. "gaussian_process": see `fit_gaussian_process`.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, in any unit.

    Returns:
        The fitted regression.

    Raises:
        DataError: When there are too few runs, all have one loss, or the library that fits is not
            installed.
    """
    require_runs(losses)
    if kind == "gaussian_process":
        return fit_gaussian_process(weights, losses)
    if kind == "log_linear":
        return fit_log_linear(weights, losses)
    if kind == "linear":
        linear = require("sklearn.linear_model", "baselines").LinearRegression()
        return PointRegression(kind=kind, estimator=linear.fit(weights, losses))
    if len(losses) < 2 * MIN_RUNS_IN_LEAF:
        raise DataError(
            f"Expected at least {2 * MIN_RUNS_IN_LEAF} runs for LightGBM, which puts "
            f"{MIN_RUNS_IN_LEAF} in every leaf, found {len(losses)}"
        )
    lightgbm = require("lightgbm", "baselines")
    # LightGBM's own interface: the names of its scikit-learn interface change between versions.
    training = lightgbm.Dataset(weights, losses, params=LIGHTGBM)
    estimator = lightgbm.train(LIGHTGBM, training, TREES)
    return PointRegression(kind=kind, estimator=estimator)
