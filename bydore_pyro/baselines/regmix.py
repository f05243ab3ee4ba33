"""RegMix: small proxies on random mixtures, a regression of their losses, a simulated optimum.

Three steps: `sample_mixtures` gives the mixtures to train proxies on, `fit_regression` maps weights
to a target's loss, and `simulated_optimum` averages those of many random mixtures whose predicted
loss is least. The authors regress with a linear model and with LightGBM. The Gaussian process is
ours: it knows how sure it is, and with `adaptive` which mixture to train next.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from bydore_pyro.baselines.gaussian_process import (
    GaussianProcess,
    NextMixtures,
    fit_gaussian_process,
    propose,
)
from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.proposal import proposed
from bydore_pyro.baselines.proxy_runs import train_mixtures
from bydore_pyro.baselines.regression import fit_regression
from bydore_pyro.baselines.simulated import (
    BEST,
    TrustRegion,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.utils import option, require_fields

__all__ = ["BATCH", "Choice", "RegMixConfig", "adaptive_runs", "fit_regmix", "next_mixtures"]

Choice = Literal["auto", "linear", "lightgbm", "log_linear", "gaussian_process"]
BATCH = 4  # mixtures that are trained before the process is fitted again
STARTS = 512  # mixtures among which the search for the next one begins


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
    prior, measure = problem.token_shares, partial(_target_losses, problem, steps)
    drawn = sample_mixtures(prior, config.regmix_proxies, problem.seed)
    details: dict[str, Any] = {"steps_of_each_proxy": steps}
    if config.adaptive:
        most = problem.most
        caps = None if most is None else np.array([most[name] for name in problem.names])
        drawn, losses, ahead = adaptive_runs(
            measure, drawn, prior, config.adaptive, seed=problem.seed, caps=caps
        )
        trained = len(losses) - config.regmix_proxies
        done = "stopped after" if trained < config.adaptive else "trained all"
        told = f"--adaptive {done} {trained} of {config.adaptive} runs: {ahead.told()}"
        details["adaptive"] = {**ahead.details(), "runs": trained, "told": told}
    else:
        losses = measure(drawn)
    kind = "gaussian_process" if config.choice == "auto" else config.choice
    model, kl, region = (
        fit_regression(kind, drawn, losses),
        config.regmix_kl,
        TrustRegion(drawn, [f"proxy {number + 1}" for number in range(len(drawn))]),
    )
    optimum = simulated_optimum(model, prior, region, draws=config.regmix_draws, kl=kl)
    mixture, more = proposed(model, optimum, problem.mixture(prior), prior, region, kl=kl)
    return Fit(mixture=mixture, details={**details, "proxies": len(losses), **more})


def _target_losses(problem: Problem, steps: int, mixtures: np.ndarray) -> np.ndarray:
    """Trains a proxy on each mixture ``(n, K)``; returns their losses on the target ``(n,)``."""
    runs = train_mixtures(problem, mixtures, steps, "regmix: proxies")
    return np.array([run.target_loss(problem.target) for run in runs])


def next_mixtures(
    model: GaussianProcess,
    measured: np.ndarray,
    prior: np.ndarray,
    count: int,
    *,
    seed: int = 0,
    caps: np.ndarray | None = None,
    progress: Callable[[], object] = int,
) -> NextMixtures:
    """Returns the mixtures to train next; seed and number of runs decide where the search begins.

    Args:
        model: Fitted to the runs.
        measured: Their mixtures ``(N, K)``.
        prior: Shares of tokens ``(K,)``, not negative.
        count: How many, >= 1.
        seed: Of the search.
        caps: Largest weights ``(K,)``, none if not given.
        progress: Is called after each.
    """
    best = measured[np.argsort(model.predict(measured), kind="stable")[:8]]
    best = best / best.sum(1, keepdims=True)
    starts = np.concatenate([best, sample_mixtures(prior, STARTS, seed + len(measured))])
    return propose(model, measured, starts, count, caps=caps, seed=seed, progress=progress)


def adaptive_runs(
    measure: Callable[[np.ndarray], np.ndarray],
    design: np.ndarray,
    prior: np.ndarray,
    most: int,
    *,
    seed: int = 0,
    caps: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, NextMixtures]:
    """Measures a first design, then the mixtures of largest expected improvement, 4 at a time.

    It ends after so many runs, or when a run is expected to gain less than its noise. Losses and
    seed decide every mixture, so that a search that was broken off proposes the same ones again.

    Args:
        measure: Trains on mixtures ``(n, K)`` and returns their losses ``(n,)``.
        design: The first mixtures ``(N, K)``.
        prior: Shares of tokens ``(K,)``, on the simplex.
        most: Most runs after the first design, >= 0.
        seed: Of the search.
        caps: Largest weights ``(K,)`` of what is proposed, none if not given.

    Returns:
        All mixtures, all losses, and what would be trained next.
    """
    weights, losses = design, measure(design)
    while True:
        left = most - (len(weights) - len(design))
        model, count = fit_gaussian_process(weights, losses), min(BATCH, max(left, 1))
        ahead = next_mixtures(model, weights, prior, count, seed=seed, caps=caps)
        if not left or not ahead.worthwhile:
            return weights, losses, ahead
        weights = np.concatenate([weights, ahead.weights])
        losses = np.append(losses, measure(ahead.weights))
