"""A table of finished runs -> the law of losses -> the best mixture; nothing is trained."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from bydore_pyro import answer, terminal
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture
from bydore_pyro.tables.decision import best_weights, bounds_near, draws_of_best
from bydore_pyro.tables.expected import Mixtures, recorded
from bydore_pyro.tables.left_out import leave_out
from bydore_pyro.tables.record import TableRecord
from bydore_pyro.tables.regression import FEWEST_RUNS, check_runs_differ, fit_runs, worth_of
from bydore_pyro.tables.tables import RunsTable
from bydore_pyro.tables.wanted import Wanted, prior_of


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


@terminal.one_thread()
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
    near, bounds, left = bounds_near(table.weights), bounds_near(table.weights, caps), None
    with tqdm(desc="fit", unit="step", mininterval=0.5) as bar:
        model = fit(table.weights, wanted.losses)
        bar.update()
        # All runs may be enough for a fit, and four fifths of them not.
        with contextlib.suppress(DataError):
            left = leave_out(fit, table.weights, wanted.losses, bar.update)
        weights = best_weights(model, table.weights, bounds)
        draws = draws_of_best(model, weights, table.weights, bounds)
        bar.update()
    low, high = answer.interval_of_draws(draws).T
    ends = zip(np.minimum(low, weights), np.maximum(high, weights), strict=True)
    found = Mixture(
        names=table.domains,
        weights=tuple((weights / weights.sum()).tolist()),
        standard_deviation=tuple(draws.std(0).tolist()),
        hdi=tuple((float(a), float(b)) for a, b in ends),
        hdi_probability=HDI_PROBABILITY,
    )
    if caps is not None:
        free = best_weights(model, table.weights, near)
        found = dataclasses.replace(found, free_weights=tuple((free / free.sum()).tolist()))
    prior = prior_of(table)[0] if prior is None else prior
    record = recorded(table, wanted, model, left, found, prior, near, mixtures)
    notes = wanted.notes()
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
