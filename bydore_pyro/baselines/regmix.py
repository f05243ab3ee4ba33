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
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from bydore_pyro.arviz_import import hdi, inference_data
from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.proxy_runs import PlannedRun, train_runs
from bydore_pyro.baselines.regression import Kind, fit_regression
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.baselines.simulated_optimum import (
    BEST,
    SimulatedOptimum,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture
from bydore_pyro.weights_files import mixture_from

__all__ = [
    "RegMixConfig",
    "fit_regmix",
    "fit_runs",
    "prior_of",
    "with_intervals",
]


@dataclass(frozen=True, kw_only=True)
class RegMixConfig:
    """RegMix's settings; its authors train 512 proxies and regress with LightGBM."""

    regmix_proxies: int = field(default=24, metadata={"help": "Proxies on random mixtures."})
    regmix_regression: Kind = field(
        default="gaussian_process",
        metadata={
            "help": "From weights to losses; LightGBM needs 40 proxies, only the Gaussian process "
            "gives intervals."
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
    mixture = problem.mixture(optimum.weights)
    details = {
        "steps_of_each_proxy": steps,
        "proxies": len(runs),
        "simulated_optimum": dict(zip(problem.names, optimum.weights.tolist(), strict=True)),
        "predicted_loss_of_it": optimum.loss,
    }
    return Fit(mixture=with_intervals(mixture, optimum), details=details)


def with_intervals(mixture: Mixture, optimum: SimulatedOptimum) -> Mixture:
    """Returns the posterior of the optimum: its mean, standard deviation and HDI.

    The mean over the regression's posterior, not the optimum of its mean, which with few runs may
    lie outside. Without uncertainty the mixture stays as it is.
    """
    draws = optimum.weights_draws
    if draws is None:
        return mixture
    names = list(mixture.names)
    posterior = inference_data({"w": draws[None]}, {"w": ["domain"]}, {"domain": names})
    ends = hdi(posterior, "w", optimum.probability).values  # (K, 2)
    mean = draws.mean(0)
    return dataclasses.replace(
        mixture,
        weights=tuple((mean / mean.sum()).tolist()),
        standard_deviation=tuple(draws.std(0).tolist()),
        hdi=tuple((low, high) for low, high in ends.tolist()),
        hdi_probability=optimum.probability,
    )


def fit_runs(table: RunsTable, target: str, prior: np.ndarray, config: RegMixConfig) -> Fit:
    """Regresses the losses of finished runs and simulates the optimum; trains nothing.

    Args:
        table: The runs.
        target: The column of losses that is to fall.
        prior: Shares ``(K,)`` in the table's order.
        config: The regression.

    Raises:
        DataError: When there is no such target, or the runs are too few for the regression.
    """
    model = fit_regression(config.regmix_regression, table.weights, table.losses_of(target))
    optimum = simulated_optimum(model, prior, draws=config.regmix_draws, best=BEST)
    shares = optimum.weights / optimum.weights.sum()
    mixture = Mixture(names=table.domains, weights=tuple(shares.tolist()))
    details = {
        "runs": len(table.runs),
        "target": target,
        "simulated_optimum": dict(zip(table.domains, optimum.weights.tolist(), strict=True)),
        "predicted_loss_of_it": optimum.loss,
    }
    if optimum.loss_interval is not None:
        details["its_interval"] = optimum.loss_interval.tolist()
    return Fit(mixture=with_intervals(mixture, optimum), details=details)


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
