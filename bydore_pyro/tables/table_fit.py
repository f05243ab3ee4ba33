"""A regression on a table of finished runs, and its simulated optimum; nothing is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.tables.proposal import BEST, TrustRegion, gain_over, proposed
from bydore_pyro.tables.record import Details, Regressed, Scored
from bydore_pyro.tables.regression import AnyRegression, Choice, best_of, interval_of_run
from bydore_pyro.tables.tables import RunsTable, mean_of, read_mixtures
from bydore_pyro.utils import Checked, DataError, option, tell

__all__ = ["RegressionConfig", "fit_table_of_runs", "prior_of"]


@dataclass(frozen=True, kw_only=True)
class RegressionConfig(Checked):
    """How losses are regressed on weights, and how the optimum is simulated."""

    regmix_regression: Choice = option(
        "auto",
        "Regression from weights to losses. auto: with --runs the one that best ranks left-out "
        "runs, otherwise the Gaussian process. LightGBM needs 40 runs.",
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
    caps: np.ndarray | None = None,
    predict: Path | None = None,
    each: bool = False,
) -> tuple[Mixture, Details]:
    """Regresses a mean of metrics of finished runs, and simulates the optimum; nothing is trained.

    Args:
        table: The runs.
        metrics: Shares of the metrics whose mean is to fall.
        prior: The natural mixture ``(K,)``.
        config: The regression.
        caps: Largest weights ``(K,)``.
        predict: File of mixtures to score.
        each: Whether every metric is regressed on its own, too.

    Raises:
        DataError: When the file cannot be read, the runs are fewer than the domains, or their
            losses are all equal.
    """
    from tqdm import tqdm

    if len(table.runs) < len(table.domains):
        raise DataError(
            f"Expected at least as many runs as domains ({len(table.domains)}), found "
            f"{len(table.runs)}"
        )
    # What can be wrong with the file is found before anything is fitted.
    given = None if predict is None else read_mixtures(predict, table.domains)
    prior, region = prior / prior.sum(), TrustRegion(table.weights, table.runs)
    choice, losses = config.regmix_regression, mean_of(table, metrics)
    with tqdm(desc="fit and optima", unit="step", mininterval=0.5) as bar:
        model, compared = best_of(choice, table.weights, losses, bar.update)
        mixture, gain, distance = proposed(
            model,
            Mixture(names=table.domains, weights=tuple(prior.tolist())),
            region,
            draws=config.regmix_draws,
            caps=caps,
            kl=config.regmix_kl,
        )
        bar.update()
    found = Details(
        runs=len(table.runs),
        regression=next(iter(compared), ""),
        regressions=compared,
        each_metric=_each_metric(table, choice, mixture, prior, region) if each else {},
        gain_over_prior=gain,
        distance=distance,
        predictions=() if given is None else _scored(model, *given, prior, region),
    )
    return mixture, found


def _each_metric(
    table: RunsTable, choice: Choice, mixture: Mixture, prior: np.ndarray, region: TrustRegion
) -> dict[str, Regressed]:
    """Fits every metric on its own, and predicts it for the proposal and the prior; a metric that
    all runs share is left out."""
    from tqdm import tqdm

    proposal, found = np.array(mixture.weights), {}
    with tqdm(table.targets, desc="each metric", unit="metric", mininterval=0.5) as bar:
        for name in bar:
            bar.set_postfix_str(name[:20])
            try:
                model, compared = best_of(choice, table.weights, table.losses_of(name))
            except DataError as error:
                tell(f"{name}: {error}")
                continue
            own, others = model.predict(np.stack([proposal, prior])).tolist()
            found[name] = dataclasses.replace(
                next(iter(compared.values()), Regressed()),
                weights=own,
                prior=others,
                better_than_prior=gain_over(model, proposal, prior, region).probability,
            )
    return found


def _scored(
    model: AnyRegression,
    names: tuple[str, ...],
    weights: np.ndarray,
    prior: np.ndarray,
    region: TrustRegion,
) -> tuple[Scored, ...]:
    """Returns the mixtures ``(S, K)``, the least predicted loss first."""
    ends, distances = interval_of_run(model, weights).tolist(), region.nearest(weights)[1].tolist()
    predicted = model.predict(weights)
    return tuple(
        Scored(
            mixture=names[place],
            rank=rank + 1,
            predicted=float(predicted[place]),
            low=ends[place][0] if np.isfinite(ends[place][0]) else None,
            high=ends[place][1] if np.isfinite(ends[place][1]) else None,
            better_than_prior=gain_over(model, weights[place], prior, region).probability,
            nearest_run=distances[place],
        )
        for rank, place in enumerate(np.argsort(predicted, kind="stable").tolist())
    )
