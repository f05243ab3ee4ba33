"""How well a regression predicts runs that are left out, a fifth at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bydore_pyro.errors import DataError, require
from bydore_pyro.tables.record import LeftOut
from bydore_pyro.tables.regression import REACH, Regression

FOLDS = 5

Fit = Callable[[np.ndarray, np.ndarray], Regression]  # of weights (N, K) and losses (N, T)


class Predictions(NamedTuple):
    """Of N runs, each by a fit to the runs of the other folds; T metrics.

    Attributes:
        expected: ``(N, T)``.
        deviation: Standard deviation of a run's ``(N, T)``.
        measured: ``(N, T)``.
    """

    expected: np.ndarray
    deviation: np.ndarray
    measured: np.ndarray

    def scores(self, shares: np.ndarray) -> LeftOut:
        """Returns how well the mean of metrics with shares ``(T,)`` is predicted."""
        expected, deviation, measured = (part @ shares for part in self)
        errors = expected - measured
        return LeftOut(
            spearman_x100=spearman_x100(expected, measured) or 0.0,
            rmse=float(np.sqrt(np.mean(errors**2))),
            coverage=float(np.mean(np.abs(errors) <= REACH * deviation)),
        )


def spearman_x100(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Returns the rank correlation times 100, in [-100, 100]; None if one ``(N,)`` is constant."""
    if min(np.ptp(predicted), np.ptp(measured)) == 0:
        return None
    from scipy.stats import spearmanr

    return 100 * float(spearmanr(predicted, measured).statistic)


def leave_out(
    fit: Fit, weights: np.ndarray, losses: np.ndarray, progress: Callable[[], object] = int
) -> Predictions:
    """Predicts each fold of the runs by a fit to the others; runs on one mixture are in one fold.

    Args:
        fit: Of some runs.
        weights: Of all runs ``(N, K)``.
        losses: Of all runs ``(N, T)``.
        progress: Is called after each fold.

    Raises:
        DataError: When there are fewer than 6 mixtures, or too few runs for the fit.
    """
    _, group = np.unique(weights, axis=0, return_inverse=True)
    if group.max() < FOLDS:
        raise DataError(
            f"Expected at least {FOLDS + 1} mixtures to cross-validate, found {group.max() + 1}"
        )
    dealt = require("sklearn.model_selection", "baselines").GroupKFold(
        FOLDS, shuffle=True, random_state=0
    )
    expected, deviation = np.empty_like(losses), np.empty_like(losses)
    for rest, out in dealt.split(weights, groups=group.ravel()):
        model = fit(weights[rest], losses[rest])
        expected[out], deviation[out] = model.predict(weights[out]), model.deviation(weights[out])
        progress()
    return Predictions(expected, deviation, losses)


def scores_by_metric(found: Predictions | None, count: int) -> Sequence[LeftOut]:
    """Returns the scores of each of so many metrics; empty ones where no runs were left out."""
    if found is None:
        return [LeftOut()] * count
    return [found.scores(one) for one in np.eye(count)]
