"""The law of losses and a Gaussian process, fitted to the runs of a table.

Each metric is predicted by itself, and the weighted mean of metrics is the mean of their
predictions: this ranks mixtures far better than one regression of the mean.

The law and the Gaussian process count half each; from 20 runs on the share lies halfway between a
half and what the runs prefer when each is left out. Below 12 runs the law alone predicts metrics
that are a domain's own text: it knows more of them than of benchmarks. What a domain is worth for a
metric can come from runs of a smaller model: then fewer runs are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np
import torch

from bydore_pyro import mixture
from bydore_pyro.errors import DataError
from bydore_pyro.law import Law, fit_law
from bydore_pyro.tables.gaussian_process import (
    Either,
    GaussianProcess,
    kernel_runs,
    law_processes,
    likeliest_process,
)

REACH = NormalDist().inv_cdf(
    (1 + mixture.HDI_PROBABILITY) / 2
)  # standard deviations of an interval
FEWEST_RUNS, FEWEST_SCALED_UP = 6, 4
SHARED_FROM, PREFERRED_FROM = 12, 20  # runs from which the process counts, and runs left out
ROUNDED = 1e-12  # differences of losses that are rounding, as a share of the largest loss
APART = 5.0  # metrics' standard deviations are brought within this factor of the median's
WORTH_DRAWS = 400


class Regression(Protocol):
    """What predicts T metrics of a run on a mixture, lower is better, in the table's unit."""

    @property
    def shares(self) -> np.ndarray:
        """Of the metrics in the mean that is wanted ``(T,)``, summing to 1."""

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S, T)`` of mixtures ``(S, K)``."""

    def deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns the standard deviations ``(S, T)`` of a run's losses on each mixture."""

    def apart(self, weights: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the losses of a run on one mixture ``(K,)`` less those of a run on another, and
        their standard deviations, ``(T,)`` each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunsRegression:
    """The law and the Gaussian processes of T metrics.

    Args:
        law: Of the losses in their units.
        models: What predicts each metric, in its unit.
        units: Of the metrics' losses, in the table's ``(T,)``.
        shares: Of the metrics in their mean ``(T,)``, summing to 1.
        flat: How many metrics the law predicts alone because a Gaussian process takes their losses
            for noise around one value.
    """

    law: Law
    models: tuple[GaussianProcess | Either, ...]
    units: np.ndarray
    shares: np.ndarray
    flat: int = 0

    @property
    def law_alone(self) -> bool:
        """Whether no metric is predicted by a Gaussian process."""
        return not any(isinstance(model, Either) for model in self.models)

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S, T)`` of mixtures ``(S, K)``."""
        return self.units * np.stack([model.predict(weights) for model in self.models], 1)

    def deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns the standard deviations ``(S, T)`` of a run's losses on each mixture."""
        return self.units * np.stack([model.deviation(weights) for model in self.models], 1)

    def apart(self, weights: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the losses of a run on one mixture ``(K,)`` less those of a run on another, and
        their standard deviations, ``(T,)`` each. What is not known of both is paired."""
        both, difference = np.stack([weights, other]), np.array([1.0, -1.0])
        variances = []
        for model in self.models:
            expected = difference @ model.covariance(both) @ difference
            of_runs = model.deviation(both) ** 2 - model.deviation(both, of_run=False) ** 2
            variances.append(max(expected, 0.0) + of_runs.sum())
        return difference @ self.predict(both), self.units * np.sqrt(variances)

    def sample(self, weights: np.ndarray, draws: int, seed: int) -> np.ndarray:
        """Draws the expected mean of the metrics from the posterior, ``(draws, S)``."""
        normal = np.random.default_rng(seed).standard_normal((draws, len(weights)))
        found = np.tile(self.predict(weights) @ self.shares, (draws, 1))
        for model, share, unit in zip(self.models, self.shares, self.units, strict=True):
            values, vectors = np.linalg.eigh(model.covariance(weights))
            # The symmetric root, so that one draw errs alike for all metrics.
            root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
            found += share * unit * normal @ root
        return found


def fit_runs(
    weights: np.ndarray,
    losses: np.ndarray,
    shares: Sequence[float] | np.ndarray = (1.0,),
    own: Sequence[int] | None = None,
    worth: np.ndarray | None = None,
) -> RunsRegression:
    """Fits the law and the Gaussian processes.

    Args:
        weights: Of the runs ``(N, K)``, no copies of each other.
        losses: Of the runs ``(N, T)``, lower is better, in any unit.
        shares: Of the metrics in their mean ``(T,)``.
        own: The domain ``(T,)`` that each metric is held-out text of, -1 for none; none if not
            given.
        worth: What smaller models say of the transfer ``(T, K)``, see `worth_of`.

    Raises:
        DataError: When there are too few runs, `check_runs_differ` raises it, or BoTorch is not
            installed.
    """
    fewest = FEWEST_RUNS if worth is None else FEWEST_SCALED_UP
    if len(losses) < fewest:
        raise DataError(f"Expected at least {fewest} runs, found {len(losses)}")
    check_runs_differ(weights, losses)
    own = [-1] * losses.shape[1] if own is None else own
    law, units = _law_of(weights, losses, own, worth)
    inside = losses / units
    models, flat = list[GaussianProcess | Either](), 0
    for place, alone in enumerate(law_processes(law, weights, inside)):
        if own[place] >= 0 and len(losses) < SHARED_FROM:
            models.append(alone)
            continue
        process = likeliest_process(weights, np.ascontiguousarray(inside[:, place]))
        if process is None:
            models.append(alone)
            flat += 1
        else:
            models.append(Either(law=alone, process=process, share=_share(alone, process)))
    return RunsRegression(
        law=law, models=tuple(models), units=units, shares=np.array(shares), flat=flat
    )


def worth_of(weights: np.ndarray, losses: np.ndarray, own: Sequence[int]) -> np.ndarray:
    """Returns what a token of each domain is worth for each metric ``(T, K)`` by the law of many
    runs: the arguments are those of `fit_runs`."""
    return _law_of(weights, losses, own)[0].draws(WORTH_DRAWS).worth().mean(0).numpy()


def check_runs_differ(weights: np.ndarray, losses: np.ndarray, runs: str = "runs") -> None:
    """Refuses runs, in words `runs`, that no regression can distinguish.

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


def _law_of(
    weights: np.ndarray,
    losses: np.ndarray,
    own: Sequence[int],
    worth: np.ndarray | None = None,
) -> tuple[Law, np.ndarray]:
    """Fits the law to losses in units of their own; returns these too ``(T,)``.

    Each unit is the median metric's standard deviation, but for metrics that differ more than 5
    times as much, or as little: these are brought within a factor of 5.
    """
    chosen = kernel_runs(len(losses))
    deviations = losses[chosen].std(0)
    units = deviations / np.clip(deviations / np.median(deviations), 1 / APART, APART)
    law = fit_law(
        torch.from_numpy(weights[chosen]),
        torch.from_numpy(losses[chosen] / units),
        None if worth is None else torch.from_numpy(worth),
        list(own),
    )
    return law, units


def _share(law: GaussianProcess, process: GaussianProcess) -> float:
    errors, others = law.left_out()[0], process.left_out()[0]
    if len(errors) < PREFERRED_FROM:
        return 0.5
    apart = others - errors
    preferred = np.clip(others @ apart / max(float(apart @ apart), 1e-300), 0, 1)
    return (0.5 + float(preferred)) / 2
