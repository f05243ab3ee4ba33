"""A regression on a table of finished runs, and its simulated optimum; nothing is trained."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError, listed
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.tables.gaussian_process import worth_of
from bydore_pyro.tables.left_out import cross_validate, validated
from bydore_pyro.tables.proposal import (
    BEST,
    TrustRegion,
    gain_over,
    in_own_direction,
    proposed,
)
from bydore_pyro.tables.record import Details, Direction, Regressed, Scored
from bydore_pyro.tables.regression import (
    FEWEST_FOR_LAW,
    Choice,
    Kind,
    Regression,
    check_runs_differ,
    fit_regression,
    interval_of_run,
    kind_of,
)
from bydore_pyro.tables.tables import RunsTable, read_mixtures

UNLIKE = 40  # times as much one metric differs as another: no one unit; olmix's 110 reach 25


@dataclass(frozen=True, kw_only=True)
class RegressionConfig(Checked):
    """How losses are regressed on weights, and how the optimum is simulated."""

    regmix_regression: Choice = option(
        "auto",
        "Regression from weights to losses. With --runs, law (the law of losses and a Gaussian "
        "process, below 12 runs the law alone of a domain's own text) and gaussian_process are "
        "--method bydore, lightgbm and linear --method regmix, log_linear --method olmix; auto is "
        "the first of each, and linear for regmix on fewer than 40 runs. On proxies, auto is "
        "gaussian_process. The law needs 6 runs (4 with --scale_up), LightGBM 40.",
    )
    regmix_kl: float = option(
        0.0,
        "Penalty in units of the loss for each nat of KL divergence from the prior (the natural"
        " mixture). olmix uses 0.05.",
        least=0,
    )
    regmix_draws: int = option(
        100_000, f"Simulated mixtures; the best {BEST} are averaged.", least=BEST
    )


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


def fit_table_of_runs(
    table: RunsTable,
    metrics: Mapping[str, float],
    prior: np.ndarray,
    config: RegressionConfig,
    *,
    method: str = "bydore",
    caps: np.ndarray | None = None,
    predict: Path | None = None,
    each: bool = False,
    smaller: RunsTable | None = None,
) -> tuple[Mixture, Details]:
    """Regresses metrics of finished runs, and simulates the optimum of their mean.

    Args:
        table: The runs.
        metrics: Shares of the metrics whose mean is to fall.
        prior: The natural mixture ``(K,)``.
        config: The regression.
        method: Whose regression it is, of `WHOSE`.
        caps: Largest weights ``(K,)``.
        predict: File of mixtures to score.
        each: Whether every metric is reported on its own, too.
        smaller: Runs of a smaller model, from which the law learns what domains are worth for the
            metrics.

    Raises:
        DataError: When the file cannot be read, the runs are too few, or all alike, or the smaller
            model's runs are of other domains, have not all metrics, or another method's regression
            is asked for.
    """
    from tqdm import tqdm

    count = len(table.runs)
    kind = kind_of(method, config.regmix_regression, count)
    if kind != "law" and count < len(table.domains):
        raise DataError(
            f"Expected at least as many runs as domains ({len(table.domains)}), found {count}"
        )
    # What can be wrong with the file is found before anything is fitted.
    given = None if predict is None else read_mixtures(predict, table.domains)
    prior, region = prior / prior.sum(), TrustRegion(table.weights, table.runs)
    names = _differing(table, metrics)
    direction = _direction(table, names)
    losses = np.stack([table.losses_of(name) for name in names], 1)
    total = sum(metrics[name] for name in names)
    runs = (kind, table.weights, losses, [metrics[name] / total for name in names])
    own = [table.domains.index(name) if name in table.domains else -1 for name in names]
    worth = None if smaller is None else _worth(smaller, table, names, own, kind)
    with tqdm(desc="fit and optima", unit="step", mininterval=0.5) as bar:
        model, told = fit_regression(*runs, own, worth), list[Regressed]()
        # A regression may be content with all runs and not with four fifths of them.
        with contextlib.suppress(DataError):
            told = cross_validate(*runs, own, worth, bar.update)
        model = validated(model, told[0] if told else None)
        mixture, gain, distance = proposed(
            model,
            Mixture(names=table.domains, weights=tuple(prior.tolist())),
            region,
            draws=config.regmix_draws,
            caps=caps,
            kl=config.regmix_kl,
            direction=direction,
        )
        bar.update()
    mixture = dataclasses.replace(mixture, notes=(*mixture.notes, *model.notes))
    if len({*runs[3]}) == 1:  # nobody has weighted them
        mixture = dataclasses.replace(mixture, notes=(*mixture.notes, *_unlike(names, losses)))
    found = Details(
        runs=count,
        columns=table.columns,
        reading=table.notes,
        asked=table.asked,
        direction=direction,
        regression=kind,
        regressions={kind: told[0]} if told else {},
        each_metric=_each_metric(model, table, names, told[1:], mixture, prior, region)
        if each
        else {},
        gain_over_prior=gain,
        distance=distance,
        predictions=() if given is None else _scored(model, *given, prior, region, direction),
    )
    return mixture, found


def _worth(
    smaller: RunsTable, table: RunsTable, names: Sequence[str], own: Sequence[int], kind: Kind
) -> np.ndarray:
    """Returns what domains are worth for metrics ``(T, K)``, by a smaller model's runs."""
    if kind != "law":
        raise DataError(f"Expected the law of losses with --scale_up, found {kind}")
    if other := sorted(set(smaller.domains) ^ set(table.domains)):
        raise DataError(
            f"Expected the runs' domains in --scale_up, found '{other[0]}' in one table only"
        )
    if len(smaller.runs) < FEWEST_FOR_LAW:
        raise DataError(
            f"Expected at least {FEWEST_FOR_LAW} runs in --scale_up, found {len(smaller.runs)}"
        )
    if lacking := [name for name in names if name not in smaller.targets]:
        raise DataError(f"Expected the metric '{lacking[0]}' in --scale_up, found none")
    places = [smaller.domains.index(name) for name in table.domains]
    weights = smaller.weights[:, places]
    losses = np.stack([smaller.losses_of(name) for name in names], 1)
    check_runs_differ(weights, losses, "runs in --scale_up")
    if np.array_equal(losses, np.stack([table.losses_of(name) for name in names], 1)):
        raise DataError("Expected a smaller model's runs in --scale_up, found the losses of --runs")
    return worth_of(weights, losses, own)


def _differing(table: RunsTable, metrics: Mapping[str, float]) -> list[str]:
    """Returns the metrics that differ between runs; the others, which `directed` names, have no
    effect."""
    found = [n for n in metrics if np.ptp(v := table.losses_of(n)) > 1e-12 * np.abs(v).max()]
    if len(table.runs) < 2:
        raise DataError("Expected runs on several mixtures, found one run")
    if not found:
        raise DataError(
            f"Expected runs that differ in {listed(metrics, 3)}, found one value in all"
        )
    return found


def _unlike(names: Sequence[str], losses: np.ndarray) -> tuple[str, ...]:
    """Returns a note on metrics ``(N, M)`` of which one decides the mean alone."""
    spread = losses.std(0)
    most, least = int(spread.argmax()), int(spread.argmin())
    if spread[most] < UNLIKE * spread[least]:
        return ()
    return (
        f"Are the metrics in one unit? Between runs '{names[most]}' differs "
        f"{spread[most] / spread[least]:.0f} times as much as '{names[least]}' and decides alone; "
        "NAME=WEIGHT sets what each counts.",
    )


def _direction(table: RunsTable, names: Sequence[str]) -> Direction:
    """Returns the direction of the mean of metrics; without `directed` they are minimised."""
    found: set[Direction] = {
        table.asked[name].direction if name in table.asked else "minimised" for name in names
    }
    return found.pop() if len(found) == 1 else "both"


def _each_metric(
    model: Regression,
    table: RunsTable,
    names: Sequence[str],
    told: Sequence[Regressed],
    mixture: Mixture,
    prior: np.ndarray,
    region: TrustRegion,
) -> dict[str, Regressed]:
    """Predicts every metric for the proposal and the prior."""
    proposal, found = np.array(mixture.weights), {}
    for place, name in enumerate(names):
        one = validated(model.of_target(place), told[place] if told else None)
        predicted = one.predict(np.stack([proposal, prior]))
        weights, others = in_own_direction(predicted, _direction(table, [name])).tolist()
        found[name] = dataclasses.replace(
            told[place] if told else Regressed(),
            weights=weights,
            prior=others,
            better_than_prior=gain_over(one, proposal, prior, region).probability,
        )
    return found


def _scored(
    model: Regression,
    names: tuple[str, ...],
    weights: np.ndarray,
    prior: np.ndarray,
    region: TrustRegion,
    direction: Direction,
) -> tuple[Scored, ...]:
    """Returns the mixtures ``(S, K)``, the best first."""
    losses, distances = model.predict(weights), region.nearest(weights)[1].tolist()
    predicted = in_own_direction(losses, direction)
    ends = np.sort(in_own_direction(interval_of_run(model, weights), direction), axis=1).tolist()
    return tuple(
        Scored(
            mixture=names[place],
            rank=rank + 1,
            predicted=float(predicted[place]),
            low=ends[place][0] if np.isfinite(ends[place][0]) else None,
            high=ends[place][1] if np.isfinite(ends[place][1]) else None,
            direction=direction,
            better_than_prior=gain_over(model, weights[place], prior, region).probability,
            nearest_run=distances[place],
        )
        for rank, place in enumerate(np.argsort(losses, kind="stable").tolist())
    )
