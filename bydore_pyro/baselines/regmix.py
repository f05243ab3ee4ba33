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

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

import numpy as np

from bydore_pyro.baselines.adaptive import adaptive_runs, propose
from bydore_pyro.baselines.gaussian_process import GaussianProcess
from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.proposal import few_runs, proposed
from bydore_pyro.baselines.proxy_runs import PlannedRun, train_runs
from bydore_pyro.baselines.regression import Kind, Regression, fit_regression
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.baselines.simulated_optimum import (
    BEST,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.utils import DataError

__all__ = [
    "RegMixConfig",
    "fit_regmix",
    "fit_runs",
    "prior_of",
]


@dataclass(frozen=True, kw_only=True)
class RegMixConfig:
    """RegMix's settings; its authors train 512 proxies and regress with LightGBM."""

    regmix_proxies: int = field(default=24, metadata={"help": "Proxies on random mixtures."})
    adaptive: int = field(
        default=0,
        metadata={
            "help": "RegMix's further mixtures, those of largest expected improvement: at most so "
            "many are trained, or with --runs written for your own trainer."
        },
    )
    regmix_regression: Kind = field(
        default="gaussian_process",
        metadata={
            "help": "Regression from weights to losses. LightGBM needs 40 proxies; only the "
            "Gaussian process gives intervals."
        },
    )
    regmix_draws: int = field(
        default=100_000, metadata={"help": f"Simulated mixtures; the best {BEST} are averaged."}
    )

    def __post_init__(self) -> None:
        for name, least in (("regmix_proxies", 2), ("regmix_draws", BEST), ("adaptive", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"Expected {name} >= {least}, actual {getattr(self, name)}")
        if self.regmix_regression not in get_args(Kind):
            raise ValueError(
                f"Expected regmix_regression one of {get_args(Kind)}, actual "
                f"{self.regmix_regression!r}"
            )
        if self.adaptive and self.regmix_regression != "gaussian_process":
            raise ValueError(
                "Expected --regmix_regression gaussian_process with --adaptive, found "
                f"'{self.regmix_regression}'"
            )


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
    model: Regression
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
        losses = _target_losses(problem, steps, drawn)
        model, count = fit_regression(config.regmix_regression, drawn, losses), len(losses)
    optimum = simulated_optimum(model, prior, draws=config.regmix_draws, best=BEST)
    mixture, more = proposed(model, optimum, problem.mixture(prior), prior, runs=count)
    return Fit(mixture=mixture, details={**details, "proxies": count, **more})


def _target_losses(problem: Problem, steps: int, mixtures: np.ndarray) -> np.ndarray:
    """Trains a proxy on each mixture ``(n, K)``; returns their losses on the target ``(n,)``."""
    planned = [
        PlannedRun(
            weights={n: w for n, w in zip(problem.names, row.tolist(), strict=True) if w > 0},
            steps=steps,
            seed=problem.seed,
        )
        for row in mixtures
    ]
    runs = train_runs(problem, planned, "regmix: proxies")
    return np.array([run.target_loss(problem.target) for run in runs])


def fit_runs(
    table: RunsTable,
    target: str,
    prior: np.ndarray,
    config: RegMixConfig,
    *,
    fewer_than_domains: bool = False,
    caps: np.ndarray | None = None,
    progress: Callable[[], object] = int,
) -> Fit:
    """Regresses the losses of finished runs and simulates the optimum; trains nothing.

    With `adaptive`, the details hold the mixtures to train next.

    Args:
        table: The runs.
        target: The column of losses that is to fall.
        prior: Shares ``(K,)`` in the table's order.
        config: The regression.
        fewer_than_domains: Whether fewer runs than domains are taken, with a note in the mixture.
        caps: Largest weights ``(K,)`` in the table's order, None without limits.
        progress: Is called after the regression, as each kernel's optima are found, and for each
            mixture that is proposed.

    Raises:
        DataError: When there is no such target, the runs are too few for the regression, or for
            the domains, copies of a run have conflicting losses, or the caps leave no mixture.
    """
    losses, count = table.losses_of(target), len(table.runs)
    if not fewer_than_domains and few_runs(count, len(table.domains)):
        raise DataError(
            f"Expected at least as many runs as domains ({len(table.domains)}), found {count}; "
            "--few_runs fits them all the same"
        )
    table.check_copies(target)
    model = fit_regression(config.regmix_regression, table.weights, losses)
    progress()
    optimum = simulated_optimum(
        model, prior, draws=config.regmix_draws, best=BEST, caps=caps, progress=progress
    )
    named = Mixture(names=table.domains, weights=tuple((prior / prior.sum()).tolist()))
    mixture, details = proposed(model, optimum, named, prior, runs=count, caps=caps)
    if caps is not None:
        free = simulated_optimum(
            model, prior, draws=config.regmix_draws, best=BEST, posterior=False
        ).weights
        mixture = dataclasses.replace(mixture, free_weights=tuple((free / free.sum()).tolist()))
    if config.adaptive and isinstance(model, GaussianProcess):
        ahead = propose(
            *(model, table.weights, prior, config.adaptive), caps=caps, progress=progress
        )
        details["adaptive"] = ahead.details()
    return Fit(mixture=mixture, details={"runs": count, "target": target, **details})


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
        raise DataError(f"Expected the domains of the runs in {source}, found '{other[0]}' in "
                        f"{where} only")  # fmt: skip
    if other:
        mean = table.weights.mean(0)
        return mean / mean.sum(), "the mean of the runs' mixtures, which are not of the Pile"
    return np.array([shares[n] for n in table.domains]), source or "the Pile's token shares"
