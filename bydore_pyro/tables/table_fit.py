"""A table of finished runs -> the law of losses -> the best mixture; nothing is trained."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import numpy as np

from bydore_pyro.answer import ANSWER, Difference, Expected, interval_of_draws
from bydore_pyro.errors import DataError, listed
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture, by_name, mixture_from
from bydore_pyro.tables.decision import WeightBounds, best_weights, bounds_near, draws_of_best
from bydore_pyro.tables.left_out import Predictions, leave_out, scores_by_metric
from bydore_pyro.tables.record import LeftOut, MetricRecord, Nearness, Scored, TableRecord
from bydore_pyro.tables.regression import (
    FEWEST_RUNS,
    REACH,
    Regression,
    check_runs_differ,
    fit_runs,
    worth_of,
)
from bydore_pyro.tables.tables import Direction, RunsTable
from bydore_pyro.terminal import one_thread

UNLIKE = 40  # times as much one metric differs as another: no one unit; olmix's 110 reach 25
PRIOR, UNIFORM = "prior", "uniform"
Mixtures = tuple[tuple[str, ...], np.ndarray]  # names and weights (S, K)


@dataclass(frozen=True, kw_only=True)
class TableFit:
    """A mixture for the runs of a table.

    Args:
        mixture: The weights, with their intervals where the method has some.
        record: What is expected of it, and of the runs.
        draws: Of the weights, from the posterior ``(D, K)``; None without intervals.
    """

    mixture: Mixture
    record: TableRecord
    draws: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is wanted of a table: T metrics that differ between its N runs.

    Args:
        names: Of the metrics.
        losses: Of the runs ``(N, T)``, lower is better.
        shares: Of the metrics in the mean that is to fall ``(T,)``.
        own: The domain that each metric is held-out text of, by its place; -1 for none.
        signs: -1 for each metric that is maximised, else 1 ``(T,)``.
        direction: Of the mean.
    """

    names: tuple[str, ...]
    losses: np.ndarray
    shares: np.ndarray
    own: tuple[int, ...]
    signs: np.ndarray
    direction: Direction

    @classmethod
    def of(cls, table: RunsTable, metrics: Mapping[str, float]) -> Wanted:
        """Takes the metrics, whose shares are given, out of a table that `directed` returned.

        Raises:
            DataError: When the runs are all alike in the metrics, or on one mixture.
        """
        if len(table.runs) < 2:
            raise DataError("Expected runs on several mixtures, found one run")
        names = [n for n in metrics if np.ptp(v := table.losses_of(n)) > 1e-12 * np.abs(v).max()]
        if not names:
            raise DataError(
                f"Expected runs that differ in {listed(metrics, 3)}, found one value in all"
            )
        shares = np.array([metrics[name] for name in names])
        directions: list[Direction] = [
            table.asked[name].direction if name in table.asked else "minimised" for name in names
        ]
        losses = np.stack([table.losses_of(name) for name in names], 1)
        check_runs_differ(table.weights, losses)
        return cls(
            names=tuple(names),
            losses=losses,
            shares=shares / shares.sum(),
            own=tuple(table.domains.index(n) if n in table.domains else -1 for n in names),
            signs=np.where([one == "maximised" for one in directions], -1.0, 1.0),
            direction=directions[0] if len({*directions}) == 1 else "both",
        )

    @property
    def sign(self) -> float:
        """Of the mean: -1 where it is maximised, else 1; no unit."""
        return -1.0 if self.direction == "maximised" else 1.0

    def notes(self) -> list[str]:
        """Returns a note where one of metrics that nobody weighted decides the mean alone."""
        spread = self.losses.std(0)
        most, least = int(spread.argmax()), int(spread.argmin())
        if len({*self.shares.tolist()}) > 1 or spread[most] < UNLIKE * spread[least]:
            return []
        return [
            f"Are the metrics in one unit? Between runs '{self.names[most]}' differs "
            f"{spread[most] / spread[least]:.0f} times as much as '{self.names[least]}' and "
            "decides alone; NAME=WEIGHT sets what each counts."
        ]


def prior_of(table: RunsTable, source: str | None = None) -> tuple[np.ndarray, str]:
    """Returns the prior ``(K,)`` of a table's domains, and where it comes from.

    The source is a mixture file or `published:NAME`. If not given, it is the Pile's token shares
    where the domains are the Pile's, else the mean of the runs' mixtures.

    Raises:
        DataError: When a source is given whose domains are not the table's.
    """
    shares = mixture_from(source or "published:token_share").as_dict()
    other = sorted(set(shares) ^ set(table.domains))
    if other and source is not None:
        where = source if other[0] in shares else "the runs"
        raise DataError(
            f"Expected the same domains in {source} and in the runs, found '{other[0]}' only in "
            f"{where}"
        )
    if other:
        mean = table.weights.mean(0)
        return mean / mean.sum(), "the mean of the runs' mixtures, which are not of the Pile"
    return np.array([shares[n] for n in table.domains]), source or "the Pile's token shares"


@one_thread()
def fit_table(
    table: RunsTable,
    metrics: Mapping[str, float],
    *,
    prior: np.ndarray | None = None,
    caps: np.ndarray | None = None,
    smaller: RunsTable | None = None,
    mixtures: Mixtures | None = None,
) -> TableFit:
    """Fits the law of losses and a Gaussian process to runs, and finds the best mixture.

    >>> table = read_runs(Path("runs.csv"))
    >>> metrics = metric_shares(table, ["val/loss"])
    >>> table, _ = directed(table, metrics)
    >>> fit = fit_table(table, metrics)
    >>> for name, weight, (low, high) in zip(table.domains, fit.mixture.weights, fit.mixture.hdi):
    ...     print(f"{name}: {weight:.1f} ({low:.1f} to {high:.1f})")
    code: 0.2 (0.0 to 0.3)
    web: 0.8 (0.7 to 1.0)
    >>> fit.record.mean.differences["uniform"].better > 0.9
    True

    Args:
        table: The runs, of which `directed` has returned those that have all metrics.
        metrics: Shares of the metrics whose mean is to fall, see `metric_shares`.
        prior: Weights that the answer is compared with ``(K,)``, see `prior_of`.
        caps: Largest weights ``(K,)``.
        smaller: Runs of a smaller model, from which the law learns what domains are worth for the
            metrics.
        mixtures: Others whose losses are predicted: names, and weights ``(S, K)``.

    Raises:
        DataError: When the runs are too few, or all alike, or the smaller model's runs are of other
            domains, or have not all metrics.
    """
    from tqdm import tqdm

    wanted = Wanted.of(table, metrics)
    worth = None if smaller is None else _worth(smaller, table, wanted)
    fit = partial(fit_runs, shares=wanted.shares, own=wanted.own, worth=worth)
    bounds, left = bounds_near(table.weights, caps), None
    with tqdm(desc="fit", unit="step", mininterval=0.5) as bar:
        model = fit(table.weights, wanted.losses)
        bar.update()
        # All runs may be enough for a fit, and four fifths of them not.
        with contextlib.suppress(DataError):
            left = leave_out(fit, table.weights, wanted.losses, bar.update)
        weights = best_weights(model, table.weights, bounds)
        draws = draws_of_best(model, weights, table.weights, bounds)
        bar.update()
    low, high = interval_of_draws(draws).T
    ends = zip(np.minimum(low, weights), np.maximum(high, weights), strict=True)
    found = Mixture(
        names=table.domains,
        weights=tuple((weights / weights.sum()).tolist()),
        standard_deviation=tuple(draws.std(0).tolist()),
        hdi=tuple((float(a), float(b)) for a, b in ends),
        hdi_probability=HDI_PROBABILITY,
    )
    if caps is not None:
        free = best_weights(model, table.weights, bounds_near(table.weights))
        found = dataclasses.replace(found, free_weights=tuple((free / free.sum()).tolist()))
    record = recorded(table, wanted, model, left, found, prior, bounds, mixtures)
    notes = [*wanted.notes(), *_notes(table, record)]
    if model.flat:
        notes.append(
            f"The law of losses alone predicts {model.flat} of {len(wanted.names)} metrics: a "
            "Gaussian process takes their losses for noise around one value."
        )
    return TableFit(
        mixture=dataclasses.replace(found, notes=tuple(notes)), record=record, draws=draws
    )


def _worth(smaller: RunsTable, table: RunsTable, wanted: Wanted) -> np.ndarray:
    """Returns what domains are worth for metrics ``(T, K)``, by a smaller model's runs."""
    if other := sorted(set(smaller.domains) ^ set(table.domains)):
        raise DataError(
            f"Expected the runs' domains in --scale_up, found '{other[0]}' in one table only"
        )
    if len(smaller.runs) < FEWEST_RUNS:
        raise DataError(
            f"Expected at least {FEWEST_RUNS} runs in --scale_up, found {len(smaller.runs)}"
        )
    if lacking := [name for name in wanted.names if name not in smaller.targets]:
        raise DataError(f"Expected the metric '{lacking[0]}' in --scale_up, found none")
    places = [smaller.domains.index(name) for name in table.domains]
    weights = smaller.weights[:, places]
    losses = np.stack([smaller.losses_of(name) for name in wanted.names], 1)
    check_runs_differ(weights, losses, "runs in --scale_up")
    if np.array_equal(losses, wanted.losses):
        raise DataError("Expected a smaller model's runs in --scale_up, found the losses of --runs")
    return worth_of(weights, losses, wanted.own)


def recorded(
    table: RunsTable,
    wanted: Wanted,
    model: Regression,
    left: Predictions | None,
    mixture: Mixture,
    prior: np.ndarray | None,
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
        prior: Weights ``(K,)``; those of `prior_of` when None.
        bounds: Within which the answer was found.
        mixtures: Others that are to be predicted.
    """
    prior = prior_of(table)[0] if prior is None else prior / prior.sum()
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
    """Returns given mixtures, the best first."""
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


def _notes(table: RunsTable, record: TableRecord) -> Sequence[str]:
    """Returns what is to be known of a fit, a sentence each."""
    notes, domains = [], len(table.domains)
    if len(table.runs) < domains:
        notes.append(
            f"Fitted to {len(table.runs)} runs of {domains} domains, fewer runs than domains: what "
            "a domain is worth is mostly assumed."
        )
    if record.nearness.far:
        notes.append(
            f"No run is like this mixture: the nearest one, {record.nearness.run}, has "
            f"{record.nearness.distance:.0%} of its tokens in other domains."
        )
    return notes
