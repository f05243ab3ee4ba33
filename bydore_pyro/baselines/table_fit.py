"""A fit to tables of finished runs, and all that is asked for with it; nothing is trained."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from tqdm import tqdm

from bydore_pyro.baselines.gaussian_process import GaussianProcess
from bydore_pyro.baselines.metrics import with_mean
from bydore_pyro.baselines.problem import Fit
from bydore_pyro.baselines.proposal import gain_over, proposed
from bydore_pyro.baselines.regmix import Choice, RegMixConfig, next_mixtures
from bydore_pyro.baselines.regression import (
    FEWEST_RUNS,
    AnyRegression,
    CrossValidated,
    Kind,
    best_of,
    calibrated,
    fit_regression,
)
from bydore_pyro.baselines.scoring import FEWEST_LARGE, ScaledUp, scale_up, score_mixtures
from bydore_pyro.baselines.simulated import TrustRegion, simulated_optimum
from bydore_pyro.baselines.tables import RunsTable, read_mixtures, read_runs
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.utils import DataError, tell

__all__ = ["Regressed", "fit_runs", "fit_table_of_runs", "prior_of", "regress_runs"]


def prior_of(table: RunsTable, source: str | None = None) -> tuple[np.ndarray, str]:
    """Returns the prior ``(K,)`` of a table's domains, and where it comes from.

    Args:
        table: The runs.
        source: A mixture file or `published:NAME`. If not given, the Pile's token shares where the
            domains are the Pile's, else the mean of the runs' mixtures.

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Regressed:
    """A regression of one target of a table of runs.

    Args:
        kind: Which one.
        model: Fitted to all runs; its intervals are as wide as left-out runs ask for.
        compared: What left-out runs told of each regression that was tried, best first; () where
            there are too few runs to leave any out.
    """

    kind: Kind
    model: AnyRegression
    compared: tuple[CrossValidated, ...] = ()


def regress_runs(
    table: RunsTable, target: str, choice: Choice, progress: Callable[[], object] = int
) -> Regressed:
    """Cross-validates regressions of a target, and fits the one that is asked for, or the best.

    Args:
        table: The runs.
        target: The column of losses.
        choice: "auto" for the best rank correlation of left-out runs, and for the Gaussian process
            where there are fewer than 20 runs.
        progress: Is called after each fold.

    Raises:
        DataError: When there is no such target, or the runs are too few for the regression.
    """
    losses = table.losses_of(target)
    kinds: tuple[Kind, ...] = get_args(Kind) if choice == "auto" else (choice,)
    kind, compared = kinds[-1], tuple[CrossValidated, ...]()  # the Gaussian process is the last
    if len(losses) >= FEWEST_RUNS:
        # A regression may be content with all runs and not with four fifths of them.
        with contextlib.suppress(DataError):
            compared = best_of(table.weights, losses, kinds, progress)
            kind = compared[0].kind
    model = fit_regression(kind, table.weights, losses)
    model = calibrated(model, compared[0]) if compared else model
    return Regressed(kind=kind, model=model, compared=compared)


def fit_runs(
    table: RunsTable,
    target: str,
    prior: np.ndarray,
    config: RegMixConfig,
    found: Regressed,
    *,
    caps: np.ndarray | None = None,
    progress: Callable[[], object] = int,
) -> Fit:
    """Simulates the optimum of a regression of finished runs.

    Args:
        table: The runs.
        target: The column of losses that is to fall.
        prior: Shares ``(K,)`` in the table's order: the natural mixture.
        config: The simulation; with `adaptive`, the details hold the mixtures to train next.
        found: The target's regression.
        caps: Largest weights ``(K,)`` in the table's order, None without limits.
        progress: Is called as optima are found, and for each mixture that is proposed.

    Raises:
        DataError: When the caps leave no mixture.
    """
    model, draws, kl = found.model, config.regmix_draws, config.regmix_kl
    region = TrustRegion(table.weights, table.runs)
    optimum = simulated_optimum(
        model, prior, region, draws=draws, caps=caps, kl=kl, progress=progress
    )
    named = Mixture(names=table.domains, weights=tuple((prior / prior.sum()).tolist()))
    mixture, details = proposed(model, optimum, named, prior, region, caps=caps, kl=kl)
    if caps is not None:
        free = simulated_optimum(model, prior, region, draws=draws, kl=kl, posterior=False).weights
        mixture = dataclasses.replace(mixture, free_weights=tuple((free / free.sum()).tolist()))
    told: dict[str, Any] = {
        "runs": len(table.runs),
        "target": target,
        "regression": found.kind,
        "regressions": {one.kind: one.row() for one in found.compared},
    }
    if config.adaptive and isinstance(model, GaussianProcess):
        ahead = next_mixtures(
            model, table.weights, prior, config.adaptive, caps=caps, progress=progress
        )
        details["adaptive"] = ahead.details()
    return Fit(mixture=mixture, details={**told, **details})


def fit_table_of_runs(
    table: RunsTable,
    metrics: Mapping[str, float],
    prior: np.ndarray,
    config: RegMixConfig,
    *,
    caps: np.ndarray | None = None,
    few_runs: bool = False,
    predict: str | None = None,
    scale_up_to: str | None = None,
    each: bool = False,
) -> Fit:
    """Fits the regression of a mean of metrics, and does what else is asked for with it.

    Args:
        table: The runs.
        metrics: Shares of the metrics whose mean is to fall.
        prior: The natural mixture ``(K,)``.
        config: The regression.
        caps: Largest weights ``(K,)``.
        few_runs: Whether fewer runs than domains are taken.
        predict: File of mixtures to score.
        scale_up_to: Tables of runs of a larger model.
        each: Whether every metric is regressed of its own, too.

    Raises:
        DataError: When a file cannot be read, the runs are too few or conflict, or the caps leave
            no mixture.
    """
    table, target = with_mean(table, dict(metrics))
    table.check(target)
    if len(table.runs) < len(table.domains) and not few_runs:
        raise DataError(
            f"Expected at least as many runs as domains ({len(table.domains)}), found "
            f"{len(table.runs)}; --few_runs fits them anyway"
        )
    # What can be wrong with files is found before anything is fitted.
    given = None if predict is None else read_mixtures(Path(predict), table.domains)
    large = None if scale_up_to is None else _large_runs(Path(scale_up_to), table, metrics)
    with tqdm(desc="fit and optima", unit="step", mininterval=0.5) as bar:
        regressed = regress_runs(table, target, config.choice, bar.update)
        found = fit_runs(table, target, prior, config, regressed, caps=caps, progress=bar.update)
    region, both = TrustRegion(table.weights), np.stack([found.mixture.weights, prior])
    more: dict[str, Any] = {"metrics": dict(metrics)} if len(metrics) > 1 else {}
    model: AnyRegression | ScaledUp = regressed.model
    if large is not None:
        model = scale_up(regressed.model, *large)
        more["scale_up"] = model.details(both)
    if each:
        more["each_metric"] = _each_metric(table, metrics, config.choice, both, region)
    if given is not None:
        more["predictions"] = score_mixtures(model, *given, prior, region)
    return dataclasses.replace(found, details={**found.details, **more})


def _large_runs(
    path: Path, table: RunsTable, metrics: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights ``(N, K)`` and the same mean of metrics ``(N,)`` of the large runs."""
    large, target = with_mean(read_runs(path).ordered(table.domains, list(metrics)), dict(metrics))
    if len(large.runs) < FEWEST_LARGE:
        raise DataError(f"Expected at least {FEWEST_LARGE} runs in {path}, found {len(large.runs)}")
    large.check(target)
    return large.weights, large.losses_of(target)


def _each_metric(
    table: RunsTable,
    metrics: Mapping[str, float],
    choice: Choice,
    both: np.ndarray,
    region: TrustRegion,
) -> dict[str, dict[str, Any]]:
    """Fits every metric of its own, and predicts it for the proposal and the natural mixture
    ``(2, K)``; a metric that all runs share is left out."""
    found: dict[str, dict[str, Any]] = {}
    with tqdm(metrics, desc="each metric", unit="metric", mininterval=0.5) as bar:
        for name in bar:
            bar.set_postfix_str(name[:20])
            try:
                one = regress_runs(table, name, choice)
            except DataError as error:
                tell(f"{name}: {error}")
                continue
            own, prior = one.model.predict(both).tolist()
            better = gain_over(one.model, both[0], both[1], region).get("probability")
            found[name] = {
                "regression": one.kind,
                **(one.compared[0].row() if one.compared else {}),
                "weights": own,
                "prior": prior,
                "better_than_prior": better,
            }
    return found
