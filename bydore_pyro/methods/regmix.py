"""RegMix: small proxies on random mixtures, a regression of their losses, a simulated optimum.

The proxies are trained here; `bydore_pyro.tables` does the same with finished ones. The authors
regress with a linear model and with LightGBM. The Gaussian process, the default on proxies, is
ours: it knows how sure it is.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro.command_line import option
from bydore_pyro.errors import DataError
from bydore_pyro.methods.fit import Fit
from bydore_pyro.tables import (
    Details,
    Kind,
    RegressionConfig,
    TrustRegion,
    fit_regression,
    proposed,
)
from bydore_pyro.trials import Problem, train_mixtures

__all__ = ["RegMixConfig", "fit_regmix", "sample_mixtures"]

# How the authors draw the mixtures of their proxies.
TEMPERATURE = 0.5  # exponent of the prior: below 1 small domains are drawn more often
STRENGTHS = np.geomspace(0.1, 5.0, 15)  # total concentrations of the Dirichlet distributions
MOST = 15.0  # no weight is above so many times its prior
LEAST = 2e-4  # smaller weights are set to 0


@dataclass(frozen=True, kw_only=True)
class RegMixConfig(RegressionConfig):
    """RegMix's settings. Its authors train 512 proxies and regress with LightGBM."""

    regmix_proxies: int = option(
        24, "Number of proxies that RegMix trains on random mixtures.", least=2
    )


def sample_mixtures(prior: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draws the mixtures that the proxies are trained on.

        w ~ Dirichlet(c p),   p_k = sqrt(prior_k) / sum_j sqrt(prior_j),

    with a total concentration c chosen anew for each draw. Weights under `LEAST` become 0, the
    others are normalised, and draws with a weight above `MOST` times its prior are rejected.

    Args:
        prior: Shares of tokens ``(K,)``, not negative; 0 is a weight of 0 in every mixture.
        count: Number of mixtures ``N``, >= 1.
        seed: Of the draws.

    Returns:
        Weights ``(N, K)``, each row on the simplex.

    Raises:
        DataError: When fewer than one draw in 1,000 keeps within the limit.
    """
    prior = prior / prior.sum()
    rng, has = np.random.default_rng(seed), prior > 0
    tempered = prior[has] ** TEMPERATURE
    tempered /= tempered.sum()
    block = max(count, 1000)
    kept, tried = np.empty((0, len(prior))), 0
    while len(kept) < count:
        if tried > 10_000 + 1000 * count:
            raise DataError(
                f"Expected mixtures with no weight above {MOST:g} times its prior, found "
                f"{len(kept)} among {tried} draws"
            )
        chosen = rng.choice(len(STRENGTHS), size=block)
        drawn = np.zeros((block, len(prior)))
        for number, strength in enumerate(STRENGTHS):
            rows = np.flatnonzero(chosen == number)
            drawn[np.ix_(rows, has)] = rng.dirichlet(strength * tempered, size=len(rows))
        drawn[drawn < LEAST] = 0
        drawn /= drawn.sum(1, keepdims=True)
        kept = np.concatenate([kept, drawn[(drawn <= MOST * prior).all(1)]])
        tried += block
    return kept[:count]


def fit_regmix(problem: Problem, config: RegMixConfig) -> Fit:
    """Trains proxies on random mixtures, regresses their target losses, simulates the optimum.

    The prior is the text's own token shares.

    Raises:
        DataError: When the budget does not reach, or the proxies are too few for the regression.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("regmix", config.regmix_proxies)
    drawn = sample_mixtures(problem.token_shares, config.regmix_proxies, problem.seed)
    runs = train_mixtures(problem, drawn, steps, "regmix: proxies")
    losses = np.array([run.target_loss(problem.target) for run in runs])
    choice = config.regmix_regression
    kind: Kind = "gaussian_process" if choice == "auto" else choice
    mixture, gain, distance = proposed(
        fit_regression(kind, drawn, losses),
        problem.mixture(problem.token_shares),
        TrustRegion(drawn, [f"proxy {number + 1}" for number in range(len(drawn))], capped=False),
        draws=config.regmix_draws,
        kl=config.regmix_kl,
    )
    details = Details(steps=steps, runs=len(drawn), gain_over_prior=gain, distance=distance)
    return Fit(mixture=mixture, details=details)
