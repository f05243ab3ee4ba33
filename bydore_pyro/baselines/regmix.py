"""RegMix: small proxies on random mixtures, a regression of their losses, a simulated optimum.

Three steps: `sample_mixtures` gives the mixtures to train proxies on, `fit_regression` maps weights
to a target's loss, and `simulated_optimum` averages those of many random mixtures whose predicted
loss is least. The authors regress with a linear model and with LightGBM. The Gaussian process is
ours: it knows how sure it is.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from bydore_pyro.baselines.adaptive import adaptive_runs, propose
from bydore_pyro.baselines.cross_validation import (
    FEWEST_RUNS,
    CrossValidated,
    best_of,
    calibrated,
)
from bydore_pyro.baselines.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.proposal import few_runs, proposed, with_distance
from bydore_pyro.baselines.proxy_runs import train_mixtures
from bydore_pyro.baselines.regression import AnyRegression, Kind, fit_regression
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.baselines.simulated_optimum import (
    BEST,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.utils import DataError, option, require, require_fields

__all__ = [
    "RegMixConfig",
    "Regressed",
    "check_runs",
    "fit_regmix",
    "fit_runs",
    "prior_of",
    "regress_runs",
]

Choice = Literal["auto", "linear", "lightgbm", "log_linear", "gaussian_process"]


@dataclass(frozen=True, kw_only=True)
class RegMixConfig:
    """RegMix's settings. Its authors train 512 proxies and regress with LightGBM.

    Raises:
        ValueError: When an option is out of its range, or `adaptive` is given with a
            regression other than "auto" and "gaussian_process".
    """

    regmix_proxies: int = option(
        24, "Number of proxies that RegMix trains on random mixtures.", least=2
    )
    adaptive: int = option(
        0,
        "Maximum number of further mixtures, chosen by expected improvement. They are trained "
        "here or, with --runs, written as rows for your own trainer.",
        least=0,
    )
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

    def __post_init__(self) -> None:
        require_fields(self)
        if self.adaptive and self.regmix_regression not in ("auto", "gaussian_process"):
            raise ValueError(
                "Expected --regmix_regression gaussian_process with --adaptive, found "
                f"'{self.regmix_regression}'"
            )

    @property
    def choice(self) -> Choice:
        """The regression of finished runs; expected improvement needs the Gaussian process."""
        return "gaussian_process" if self.adaptive else self.regmix_regression


def fit_regmix(problem: Problem, config: RegMixConfig) -> Fit:
    """Trains proxies on random mixtures, regresses their target losses, simulates the optimum.

    The prior is the text's own token shares. With `adaptive`, the proxies after the random ones are
    on the mixtures of largest expected improvement; all are as long as the budget allows for the
    whole number, and where the search ends sooner the rest of the budget is not spent.

    Raises:
        DataError: When the budget does not reach, or the proxies are too few for the regression.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("regmix", config.regmix_proxies + config.adaptive)
    prior = problem.token_shares
    drawn = sample_mixtures(prior, config.regmix_proxies, problem.seed)
    details: dict[str, Any] = {"steps_of_each_proxy": steps}
    model: AnyRegression
    if config.adaptive:
        most = problem.most
        found = adaptive_runs(
            partial(_target_losses, problem, steps),
            *(drawn, prior, config.adaptive),
            seed=problem.seed,
            caps=None if most is None else np.array([most[name] for name in problem.names]),
        )
        model, count = found.model, len(found.losses)
        details["adaptive"] = found.details()
    else:
        losses, chosen = _target_losses(problem, steps, drawn), config.regmix_regression
        model = fit_regression("gaussian_process" if chosen == "auto" else chosen, drawn, losses)
        count = len(losses)
    kl = config.regmix_kl
    optimum = simulated_optimum(model, prior, draws=config.regmix_draws, best=BEST, kl=kl)
    mixture, more = proposed(model, optimum, problem.mixture(prior), prior, runs=count, kl=kl)
    return Fit(mixture=mixture, details={**details, "proxies": count, **more})


def _target_losses(problem: Problem, steps: int, mixtures: np.ndarray) -> np.ndarray:
    """Trains a proxy on each mixture ``(n, K)``; returns their losses on the target ``(n,)``."""
    runs = train_mixtures(problem, mixtures, steps, "regmix: proxies")
    return np.array([run.target_loss(problem.target) for run in runs])


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
    compared: tuple[CrossValidated, ...]


def regress_runs(
    table: RunsTable,
    target: str,
    choice: Choice,
    *,
    quick: bool = False,
    progress: Callable[[], object] = int,
) -> Regressed:
    """Cross-validates regressions of a target, and fits the one that is asked for, or the best.

    Args:
        table: The runs.
        target: The column of losses.
        choice: "auto" for the best rank correlation of left-out runs, and for the Gaussian process
            where there are fewer than 20 runs.
        quick: Whether a Gaussian process takes its most likely kernel for the truth.
        progress: Is called after each fold.

    Raises:
        DataError: When there is no such target, or the runs are too few for the regression.
    """
    losses = table.losses_of(target)

    def fit(kind: Kind, weights: np.ndarray, losses: np.ndarray) -> AnyRegression:
        if quick and kind == "gaussian_process":
            return fit_gaussian_process(weights, losses, kernel_draws=0)
        return fit_regression(kind, weights, losses)

    kinds: tuple[Kind, ...] = get_args(Kind) if choice == "auto" else (choice,)
    kind, compared = kinds[-1], tuple[CrossValidated, ...]()  # the Gaussian process is the last
    # Threads of several processes that wait for one another cost more than they bring.
    with require("threadpoolctl", "baselines").threadpool_limits(1, user_api="blas"):
        if len(losses) >= FEWEST_RUNS:
            # A regression may be content with all runs and not with four fifths of them.
            with contextlib.suppress(DataError):
                compared = best_of(table.weights, losses, kinds=kinds, fit=fit, progress=progress)
                kind = compared[0].kind
        model = fit(kind, table.weights, losses)
    return Regressed(
        kind=kind,
        model=calibrated(model, compared[0]) if compared else model,
        compared=compared,
    )


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
    """Simulates the optimum of a regression of finished runs; trains nothing.

    It takes the runs as they are: `check_runs` refuses those that are too few or conflict. With
    `adaptive`, the details hold the mixtures to train next.

    Args:
        table: The runs.
        target: The column of losses that is to fall.
        prior: Shares ``(K,)`` in the table's order: the natural mixture.
        config: The simulation.
        found: The target's regression.
        caps: Largest weights ``(K,)`` in the table's order, None without limits.
        progress: Is called as each kernel's optima are found, and for each mixture that is
            proposed.

    Raises:
        DataError: When the caps leave no mixture.
    """
    model, draws, kl = found.model, config.regmix_draws, config.regmix_kl
    optimum = simulated_optimum(
        model, prior, draws=draws, best=BEST, caps=caps, kl=kl, progress=progress
    )
    named = Mixture(names=table.domains, weights=tuple((prior / prior.sum()).tolist()))
    count = len(table.runs)
    mixture, details = proposed(model, optimum, named, prior, runs=count, caps=caps, kl=kl)
    if caps is not None:
        free = simulated_optimum(
            model, prior, draws=draws, best=BEST, kl=kl, posterior=False
        ).weights
        mixture = dataclasses.replace(mixture, free_weights=tuple((free / free.sum()).tolist()))
    mixture, distance = with_distance(mixture, table.runs, table.weights)
    told: dict[str, Any] = {
        "runs": count,
        "target": target,
        "regression": found.kind,
        "regressions": {one.kind: one.row() for one in found.compared},
        "distance": distance,
    }
    if config.adaptive and isinstance(model, GaussianProcess):
        ahead = propose(
            *(model, table.weights, prior, config.adaptive), caps=caps, progress=progress
        )
        details["adaptive"] = ahead.details()
    return Fit(mixture=mixture, details={**told, **details})


def check_runs(table: RunsTable, target: str, fewer_than_domains: bool) -> None:
    """Refuses runs that a regression cannot be fitted to in earnest.

    Raises:
        DataError: When they are fewer than the domains, unless that is asked for, copies of a run
            have conflicting losses, or the losses are all equal or too large to be squared.
    """
    table.check_losses(target)
    count = len(table.runs)
    if not fewer_than_domains and few_runs(count, len(table.domains)):
        raise DataError(
            f"Expected at least as many runs as domains ({len(table.domains)}), found {count}; "
            "--few_runs fits them anyway"
        )
    table.check_copies(target)


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
