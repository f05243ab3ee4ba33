"""How well a regression predicts runs that are left out, a fifth at a time.

Runs are dealt into folds, runs on one mixture into the same; each fold is predicted by a fit to the
others. Intervals are as wide as these errors ask for (conformal prediction): the errors of left-out
runs, in units of what the regression takes for their standard deviation, have a quantile, and
intervals reach that far. Beyond where runs were measured no calibration holds.

References:
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from bydore_pyro.errors import DataError, require
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.tables.record import Regressed
from bydore_pyro.tables.regression import REACH, Kind, Regression, fit_regression

FOLDS = 5
FEWEST_RUNS = 20  # below, a 94 % quantile is chance


def spearman_x100(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Returns the rank correlation times 100, in [-100, 100]; None if one ``(N,)`` is constant."""
    if min(np.ptp(predicted), np.ptp(measured)) == 0:
        return None
    from scipy.stats import spearmanr

    return 100 * float(spearmanr(predicted, measured).statistic)


def cross_validate(
    kind: Kind,
    weights: np.ndarray,
    losses: np.ndarray,
    shares: Sequence[float] = (1.0,),
    own: Sequence[int] | None = None,
    worth: np.ndarray | None = None,
    progress: Callable[[], object] = int,
) -> list[Regressed]:
    """Predicts each fold of the runs by a fit to the others.

    Args:
        kind: As for `fit_regression`, and so are the others.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N, T)``.
        shares: Of the targets ``(T,)``.
        own: The targets' own domains ``(T,)``.
        worth: Of domains for targets ``(T, K)``.
        progress: Is called after each fold.

    Returns:
        What left-out runs say of the mean, and then of each target. Widths and coverage are unknown
        below 20 runs.

    Raises:
        DataError: When there are too few runs.
    """
    _, group = np.unique(weights, axis=0, return_inverse=True)
    losses = losses.reshape(len(losses), -1)
    if group.max() < FOLDS:
        raise DataError(
            f"Expected at least {FOLDS + 1} mixtures to cross-validate, found {group.max() + 1}"
        )
    dealt = require("sklearn.model_selection", "baselines").GroupKFold(
        FOLDS, shuffle=True, random_state=0
    )
    folds, start = np.empty(len(losses), int), time.perf_counter()
    measured = np.concatenate([(losses @ np.array(shares))[:, None], losses], 1)  # (N, 1 + T)
    predicted, deviation = np.empty_like(measured), np.empty_like(measured)
    for fold, (rest, out) in enumerate(dealt.split(weights, groups=group.ravel())):
        model = fit_regression(kind, weights[rest], losses[rest], shares, own, worth)
        one_each = [one.predict(weights[out]) for one in model.models]
        predicted[out] = np.stack([model.mean_of(one_each), *one_each], 1)
        one_each = [one.deviation(weights[out]) for one in model.models]
        deviation[out] = np.stack([model.mean_of(one_each), *one_each], 1)
        folds[out] = fold
        progress()
    seconds = (time.perf_counter() - start) / FOLDS
    columns = zip(predicted.T, deviation.T, measured.T, strict=True)
    return [_told(kind, *column, folds, seconds) for column in columns]


def _told(
    kind: Kind,
    predicted: np.ndarray,
    deviation: np.ndarray,
    measured: np.ndarray,
    folds: np.ndarray,
    seconds: float,
) -> Regressed:
    found = Regressed(
        regression=kind,
        spearman_x100=spearman_x100(predicted, measured) or 0.0,
        rmse=float(np.sqrt(np.mean((predicted - measured) ** 2))),
        seconds=seconds,
    )
    if len(measured) < FEWEST_RUNS:
        return found
    errors = np.abs(predicted - measured) / np.maximum(deviation, 1e-12 * np.ptp(measured))
    inside = [errors[folds == f] <= _quantile(errors[folds != f]) for f in range(FOLDS)]
    coverage = float(np.concatenate(inside).mean())
    return dataclasses.replace(found, coverage=coverage, width=_quantile(errors) / REACH)


def _quantile(errors: np.ndarray) -> float:
    """Returns what HDI_PROBABILITY of new errors stay below: the quantile of one more."""
    rank = int(np.ceil((len(errors) + 1) * HDI_PROBABILITY))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])


def validated(model: Regression, told: Regressed | None) -> Regression:
    """Returns a regression with what left-out runs say of it: its width, and its rank, which is 0
    where none could be left out."""
    if told is None:
        return dataclasses.replace(model, rank=0.0)
    width = model.width if told.width is None else told.width
    return dataclasses.replace(model, width=width, rank=told.spearman_x100)
