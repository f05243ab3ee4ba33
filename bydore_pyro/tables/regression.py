"""Regressions of targets' losses on the weights, and how well they predict runs left out.

Each target has a regression of its own, and the weighted mean of targets is the mean of theirs: it
ranks mixtures far better than one regression of the mean.

The law of losses and the Gaussian process count half each; from 20 runs on the share lies halfway
between a half and what the runs prefer when each is left out. Below 12 runs the law decides alone
on targets that are a domain's own text: it knows more of them than of benchmarks. What a domain is
worth for a target can come from runs of a smaller model: then the law needs fewer runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from bydore_pyro.errors import DataError, require
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.tables.gaussian_process import (
    GaussianProcess,
    fit_gaussian_process,
    fit_law_processes,
    likeliest_process,
    unit_of,
)
from bydore_pyro.tables.log_linear import fit_log_linear

REACH = NormalDist().inv_cdf((1 + HDI_PROBABILITY) / 2)  # standard deviations of an interval
Kind = Literal["law", "linear", "lightgbm", "log_linear", "gaussian_process"]
Choice = Literal["auto", "law", "linear", "lightgbm", "log_linear", "gaussian_process"]
#: Whose regressions these are: ours, RegMix's and olmix's.
WHOSE: dict[str, tuple[Kind, ...]] = {
    "bydore": ("law", "gaussian_process"),
    "regmix": ("lightgbm", "linear"),
    "olmix": ("log_linear",),
}
FEWEST_FOR_LAW, FEWEST_SCALED_UP = 6, 4
SHARED_FROM, PREFERRED_FROM = 12, 20  # runs from which the process counts, and runs left out
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


@dataclass(frozen=True, kw_only=True, eq=False)
class PointRegression:
    """A fitted regression of one target, without uncertainty: a new run's loss deviates by 1, and
    `Regression.width` tells in which unit.

    Args:
        estimator: Fitted, with a method `predict`.
        unit: Of its losses.
    """

    estimator: Any
    unit: float = 1.0

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the predicted losses ``(S,)`` of mixtures ``(S, K)``, in the runs' unit."""
        return self.unit * self.estimator.predict(weights)

    def deviation(self, weights: np.ndarray, of_run: bool = True) -> np.ndarray:
        """Returns 1 ``(S,)``."""
        return np.ones(len(weights))

    def covariance(self, weights: np.ndarray) -> np.ndarray:
        """Returns that of new runs ``(S, S)``."""
        return np.eye(len(weights))


@dataclass(frozen=True, kw_only=True, eq=False)
class Either:
    """One of two processes is right: the law, with probability `share`, or the other."""

    law: GaussianProcess
    process: GaussianProcess
    share: float

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        return self._mean(self.law.predict(weights), self.process.predict(weights))

    def deviation(self, weights: np.ndarray, of_run: bool = True) -> np.ndarray:
        """Returns the standard deviation ``(S,)`` of a run's loss, or of the expected loss."""
        own, other = (one.deviation(weights, of_run) for one in (self.law, self.process))
        between = self.share * (1 - self.share) * self._apart(weights) ** 2
        return np.sqrt(self._mean(own**2, other**2) + between)

    def covariance(self, weights: np.ndarray) -> np.ndarray:
        """Returns the covariance ``(S, S)`` of the mixtures' expected losses."""
        apart = self._apart(weights)
        within = self._mean(self.law.covariance(weights), self.process.covariance(weights))
        return within + self.share * (1 - self.share) * np.outer(apart, apart)

    def _mean(self, law: np.ndarray, process: np.ndarray) -> np.ndarray:
        return self.share * law + (1 - self.share) * process

    def _apart(self, weights: np.ndarray) -> np.ndarray:
        return self.law.predict(weights) - self.process.predict(weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """A regression a target, and the weighted mean of them.

    Nobody knows how targets' errors go together, so deviations are as if all erred alike.

    Args:
        models: Of the targets.
        shares: Of the targets in the mean ``(T,)``.
        width: Factor of all standard deviations, which cross-validation finds; None where neither
            it nor the regression tells any.
        rank: Rank correlation of left-out runs, times 100; None if there was none.
        least: The mean of the best run.
        notes: What is to be known of the fit, a sentence each.
    """

    models: tuple[PointRegression | GaussianProcess | Either, ...]
    shares: tuple[float, ...] = (1.0,)
    width: float | None = None
    rank: float | None = None
    least: float = -np.inf
    notes: tuple[str, ...] = ()

    @property
    def tells_doubt(self) -> bool:
        """Whether it knows of itself how sure it is."""
        return not isinstance(self.models[0], PointRegression)

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected mean losses ``(S,)`` of mixtures ``(S, K)``."""
        return self.mean_of([model.predict(weights) for model in self.models])

    def deviation(self, weights: np.ndarray, of_run: bool = True) -> np.ndarray | None:
        """Returns the standard deviations ``(S,)`` of a run's loss on each mixture, or of the
        expected loss; None if unknown."""
        if self.width is None:
            return None
        return self.width * self.mean_of([m.deviation(weights, of_run) for m in self.models])

    def gap(self, weights: np.ndarray, other: np.ndarray) -> tuple[float, float | None]:
        """Returns the other mixture's loss minus this one's, and its standard deviation, in the
        unit of the losses; without doubt of its own, that between two new runs."""
        both, difference = np.stack([weights, other]), np.array([-1.0, 1.0])
        mean = float(difference @ self.predict(both))
        if self.width is None:
            return mean, None
        variances = [difference @ model.covariance(both) @ difference for model in self.models]
        return mean, self.width * float(self.mean_of([np.sqrt(max(v, 0.0)) for v in variances]))

    def sample(self, weights: np.ndarray, draws: int, seed: int) -> np.ndarray:
        """Draws functions from the posterior: their losses of mixtures ``(draws, S)``."""
        normal = np.random.default_rng(seed).standard_normal((draws, len(weights)))
        drawn = []
        for model in self.models:
            values, vectors = np.linalg.eigh(model.covariance(weights))
            # The symmetric root, so that one draw errs alike for all targets.
            root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
            drawn.append(normal @ root)
        return self.predict(weights) + (self.width or 0.0) * self.mean_of(drawn)

    def of_target(self, place: int) -> Regression:
        """Returns that of one target."""
        return Regression(models=(self.models[place],), width=1.0 if self.tells_doubt else None)

    def mean_of(self, values: Sequence[Any]) -> Any:
        """Returns the weighted mean of the targets' values."""
        return sum(share * value for share, value in zip(self.shares, values, strict=True))


def interval_of_run(model: Regression, weights: np.ndarray) -> np.ndarray:
    """Returns the 94 % intervals of one more run on each mixture ``(S, 2)``, NaN if unknown."""
    mean, deviation = model.predict(weights), model.deviation(weights)
    half = np.full(len(mean), np.nan) if deviation is None else REACH * deviation
    return np.stack([mean - half, mean + half], axis=1)


def fit_regression(
    kind: Kind,
    weights: np.ndarray,
    losses: np.ndarray,
    shares: Sequence[float] = (1.0,),
    own: Sequence[int] | None = None,
    worth: np.ndarray | None = None,
) -> Regression:
    """Fits a regression of each target's loss on the weights.

    Args:
        kind: "law": the law of losses and the Gaussian process. "linear": least
            squares. "lightgbm": 1000 trees, learning rate 0.01, seed 42, on one thread, so that the
            same runs give the same trees. "log_linear": olmix's law, see `fit_log_linear`.
            "gaussian_process": see `fit_gaussian_process`.
        weights: Of the runs ``(N, K)``, no copies of each other.
        losses: Of the runs ``(N, T)``, or of one target ``(N,)``; in any unit.
        shares: Of the targets in their mean ``(T,)``.
        own: The domain ``(T,)`` that each target is held-out text of, -1 for none; none if not
            given. The law asks for it.
        worth: For the law: what smaller models say of the transfer ``(T, K)``, see `worth_of`.

    Raises:
        DataError: When there are too few runs, `check_runs_differ` raises it, a Gaussian process
            alone finds a constant, or the library that fits is not installed.
    """
    losses = losses.reshape(len(losses), -1)
    notes: tuple[str, ...] = ()
    for_law = FEWEST_FOR_LAW if worth is None else FEWEST_SCALED_UP
    fewest = {"lightgbm": 2 * MIN_RUNS_IN_LEAF, "law": for_law}.get(kind, 2)
    if len(losses) < fewest:
        raise DataError(f"Expected at least {fewest} runs for {kind}, found {len(losses)}")
    check_runs_differ(weights, losses)
    models: tuple[PointRegression | GaussianProcess | Either, ...]
    if kind == "law":
        models, flat = _by_law(
            weights, losses, [-1] * losses.shape[1] if own is None else own, worth
        )
        if flat:
            notes = (
                f"The law of losses decides alone on {flat} of {len(models)} metrics: a Gaussian "
                "process takes their losses for noise around one value.",
            )
    else:
        models = tuple(_one(kind, weights, column) for column in np.ascontiguousarray(losses.T))
    least = float((losses @ np.array(shares)).min())
    return Regression(
        models=models,
        shares=tuple(shares),
        width=1.0 if kind in ("law", "gaussian_process") else None,
        least=least,
        notes=notes,
    )


def kind_of(method: str, choice: Choice, runs: int) -> Kind:
    """Returns the regression of a method on so many runs.

    Without a choice it is the method's first; RegMix's is linear where LightGBM has too few runs.

    Args:
        method: Of `WHOSE`.
        choice: The user's, or "auto".
        runs: Their number.

    Raises:
        DataError: When the regression is another method's.
    """
    kinds = WHOSE[method]
    if choice == "auto":
        few = kinds[0] == "lightgbm" and runs < 2 * MIN_RUNS_IN_LEAF
        return kinds[1] if few else kinds[0]
    if choice not in kinds:
        other = next(name for name, own in WHOSE.items() if choice in own)
        raise DataError(
            f"Expected a regression of {method} ({', '.join(kinds)}), found {choice}: "
            f"--method {other} fits it"
        )
    return choice


def check_runs_differ(weights: np.ndarray, losses: np.ndarray, runs: str = "runs") -> None:
    """Refuses runs, in words `runs`, that no regression tells apart.

    Raises:
        DataError: When all are on one mixture ``(N, K)``, or alike in a loss ``(N, T)``.
    """
    if not np.ptp(weights, axis=0).max() > ROUNDED:
        raise DataError(
            f"Expected {runs} on different mixtures, found one in all {len(losses)} runs"
        )
    for column in losses.T:
        if not np.ptp(column) > ROUNDED * np.abs(column).max():
            raise DataError(f"Expected {runs} that differ in loss, found one value in all")


def _by_law(
    weights: np.ndarray, losses: np.ndarray, own: Sequence[int], worth: np.ndarray | None
) -> tuple[tuple[GaussianProcess | Either, ...], int]:
    """Fits the law to all targets, and a process to each that it does not decide alone; returns
    also on how many of these it does so nevertheless, because the process is a constant."""
    found, flat = list[GaussianProcess | Either](), 0
    laws = fit_law_processes(weights, losses, own, worth)
    for law, domain, column in zip(laws, own, np.ascontiguousarray(losses.T), strict=True):
        if domain >= 0 and len(losses) < SHARED_FROM:
            found.append(law)
            continue
        process, share = likeliest_process(weights, column), 0.5
        if process is None:
            found.append(law)
            flat += 1
            continue
        if len(losses) >= PREFERRED_FROM:
            errors, others = law.left_out()[0], process.left_out()[0]
            apart = others - errors
            preferred = np.clip(others @ apart / max(float(apart @ apart), 1e-300), 0, 1)
            share = (0.5 + float(preferred)) / 2
        found.append(Either(law=law, process=process, share=share))
    return tuple(found), flat


def _one(kind: Kind, weights: np.ndarray, losses: np.ndarray) -> PointRegression | GaussianProcess:
    if kind == "gaussian_process":
        return fit_gaussian_process(weights, losses)
    if kind == "log_linear":
        unit = unit_of(losses)
        return PointRegression(estimator=fit_log_linear(weights, losses / unit), unit=unit)
    if kind == "linear":
        linear = require("sklearn.linear_model", "baselines").LinearRegression()
        return PointRegression(estimator=linear.fit(weights, losses))
    lightgbm = require("lightgbm", "baselines")
    # LightGBM's own interface: the names of its scikit-learn interface change between versions.
    training = lightgbm.Dataset(weights, losses, params=LIGHTGBM)
    return PointRegression(estimator=lightgbm.train(LIGHTGBM, training, TREES))
