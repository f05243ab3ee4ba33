"""What a regression expects of a mixture, of the prior and of others, beside the runs."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from bydore_pyro.answer import ANSWER, Difference, Expected
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture, by_name
from bydore_pyro.tables.decision import WeightBounds
from bydore_pyro.tables.left_out import Predictions, scores_by_metric
from bydore_pyro.tables.record import LeftOut, MetricRecord, Nearness, Scored, TableRecord
from bydore_pyro.tables.regression import REACH, Regression
from bydore_pyro.tables.tables import RunsTable
from bydore_pyro.tables.wanted import Wanted

PRIOR, UNIFORM = "prior", "uniform"
Mixtures = tuple[tuple[str, ...], np.ndarray]  # names and weights (S, K)


def recorded(
    table: RunsTable,
    wanted: Wanted,
    model: Regression,
    left: Predictions | None,
    mixture: Mixture,
    prior: np.ndarray,
    bounds: WeightBounds,
    mixtures: Mixtures | None = None,
) -> TableRecord:
    """Returns what a regression expects of a mixture, of the prior, and of others.

    Args:
        table: The runs.
        wanted: The metrics.
        model: Fitted to them.
        left: What was predicted of left-out runs, if any were.
        mixture: The answer.
        prior: Weights ``(K,)``.
        bounds: That the runs set.
        mixtures: Others that are to be predicted.
    """
    prior = prior / prior.sum()
    answer = np.array(mixture.weights)
    against = {PRIOR: prior, UNIFORM: np.full(len(prior), 1 / len(prior))}

    def of(shares: np.ndarray, sign: float, scores: LeftOut) -> MetricRecord:
        return MetricRecord(
            left_out=scores,
            expected={
                name: expected_of(model, shares, sign, one[None])[0]
                for name, one in {ANSWER: answer, **against}.items()
            },
            differences={
                name: difference_of(model, shares, sign, answer, one)
                for name, one in against.items()
            },
        )

    each = scores_by_metric(left, len(wanted.names))
    rows = zip(wanted.names, np.eye(len(wanted.names)), wanted.signs, each, strict=True)
    several = len(wanted.names) > 1
    of_mean = LeftOut() if left is None else left.scores(wanted.shares)
    return TableRecord(
        runs=len(table.runs),
        columns=table.columns,
        reading=table.notes,
        asked=table.asked,
        direction=wanted.direction,
        prior=by_name(table.domains, prior),
        mean=of(wanted.shares, wanted.sign, of_mean),
        metrics={name: of(one, sign, s) for name, one, sign, s in rows} if several else {},
        nearness=nearness_of(table, answer, bounds),
        predictions=() if mixtures is None else _scored(table, wanted, model, mixtures, prior),
    )


def expected_of(
    model: Regression, shares: np.ndarray, sign: float, weights: np.ndarray
) -> list[Expected]:
    """Returns the mean of metrics with shares ``(T,)`` that a run on each mixture ``(S, K)`` will
    have. Nobody knows how the metrics' errors go together: it is as if all erred alike."""
    means = sign * model.predict(weights) @ shares
    halves = REACH * model.deviation(weights) @ shares
    return [
        Expected(loss=mean, low=mean - half, high=mean + half)
        for mean, half in zip(means.tolist(), halves.tolist(), strict=True)
    ]


def difference_of(
    model: Regression, shares: np.ndarray, sign: float, weights: np.ndarray, other: np.ndarray
) -> Difference:
    """Returns by how much a run on a mixture ``(K,)`` differs from one on another, in the mean of
    metrics with shares ``(T,)``, and the probability that it is better."""
    apart, deviations = model.apart(weights, other)
    mean, deviation = float(apart @ shares), float(deviations @ shares)
    better = NormalDist().cdf(-mean / deviation) if deviation > 0 else float(mean < 0)
    mean, half = sign * mean, REACH * deviation
    return Difference(loss=mean, low=mean - half, high=mean + half, better=better)


def nearness_of(table: RunsTable, weights: np.ndarray, bounds: WeightBounds) -> Nearness:
    """Returns how near a mixture ``(K,)`` is to the runs of a table."""
    from scipy.spatial.distance import cdist

    distinct = np.unique(table.weights, axis=0)
    among = cdist(distinct, distinct, "cityblock") / 2
    np.fill_diagonal(among, np.inf)
    distances = _distances(table, weights[None])[0]
    held = bounds.held(weights)
    return Nearness(
        run=table.runs[int(distances.argmin())],
        distance=float(distances.min()),
        usual=float(np.median(among.min(1))),
        reach=float(np.quantile(among.min(1), HDI_PROBABILITY)),
        held=tuple(name for name, one in zip(table.domains, held, strict=True) if one),
    )


def _distances(table: RunsTable, weights: np.ndarray) -> np.ndarray:
    """Returns the total variation from mixtures ``(S, K)`` to the runs, ``(S, N)``."""
    from scipy.spatial.distance import cdist

    found: np.ndarray = cdist(weights, table.weights, "cityblock") / 2
    return found


def _scored(
    table: RunsTable, wanted: Wanted, model: Regression, mixtures: Mixtures, prior: np.ndarray
) -> tuple[Scored, ...]:
    names, weights = mixtures
    expected = expected_of(model, wanted.shares, wanted.sign, weights)
    distances = _distances(table, weights).min(1).tolist()
    order = np.argsort([wanted.sign * one.loss for one in expected], kind="stable").tolist()
    return tuple(
        Scored(
            mixture=names[place],
            rank=rank,
            expected=expected[place].loss,
            low=expected[place].low,
            high=expected[place].high,
            direction=wanted.direction,
            better_than_prior=difference_of(
                model, wanted.shares, wanted.sign, weights[place], prior
            ).better,
            nearest_run=distances[place],
        )
        for rank, place in enumerate(order, 1)
    )
