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
from typing import get_args

import numpy as np

from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.proposal import few_runs, proposed
from bydore_pyro.baselines.proxy_runs import PlannedRun, train_runs
from bydore_pyro.baselines.regression import Kind, fit_regression
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
        for name, least in (("regmix_proxies", 2), ("regmix_draws", BEST)):
            if getattr(self, name) < least:
                raise ValueError(f"Expected {name} >= {least}, actual {getattr(self, name)}")
        if self.regmix_regression not in get_args(Kind):
            raise ValueError(
                f"Expected regmix_regression one of {get_args(Kind)}, actual "
                f"{self.regmix_regression!r}"
            )


def fit_regmix(problem: Problem, config: RegMixConfig) -> Fit:
    """Trains proxies on random mixtures, regresses their target losses, simulates the optimum.

    The prior is the text's own token shares.

    Raises:
        DataError: When the budget does not reach, or the proxies are too few for the regression.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("regmix", config.regmix_proxies)
    prior = problem.token_shares
    drawn = sample_mixtures(prior, config.regmix_proxies, problem.seed)
    runs = train_runs(
        problem,
        [
            PlannedRun(
                weights={n: w for n, w in zip(problem.names, row.tolist(), strict=True) if w > 0},
                steps=steps,
                seed=problem.seed,
            )
            for row in drawn
        ],
        "regmix: proxies",
    )
    losses = np.array([run.target_loss(problem.target) for run in runs])
    model = fit_regression(config.regmix_regression, drawn, losses)
    optimum = simulated_optimum(model, prior, draws=config.regmix_draws, best=BEST)
    mixture, details = proposed(model, optimum, problem.mixture(prior), prior, runs=len(runs))
    return Fit(
        mixture=mixture,
        details={"steps_of_each_proxy": steps, "proxies": len(runs), **details},
    )


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

    Args:
        table: The runs.
        target: The column of losses that is to fall.
        prior: Shares ``(K,)`` in the table's order.
        config: The regression.
        fewer_than_domains: Whether fewer runs than domains are taken, with a note in the mixture.
        caps: Largest weights ``(K,)`` in the table's order, None without limits.
        progress: Is called after the regression, and as each kernel's optima are found.

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
