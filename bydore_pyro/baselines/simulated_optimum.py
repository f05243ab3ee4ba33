"""Random mixtures, and the optimum of a regression over very many of them (RegMix).

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bydore_pyro.baselines.log_linear import relative_entropy
from bydore_pyro.baselines.regression import PosteriorRegression, Regression
from bydore_pyro.mixture import within_caps
from bydore_pyro.utils import DataError

__all__ = ["BEST", "LEAST", "SimulatedOptimum", "sample_mixtures", "simulated_optimum"]

BEST = 128  # simulated mixtures that are averaged
# How the authors draw the mixtures of their proxies.
TEMPERATURE = 0.5  # exponent of the prior: below 1 small domains are drawn more often
STRENGTHS = np.geomspace(0.1, 5.0, 15)  # total concentrations of the Dirichlet distributions
MOST = 15.0  # no weight is above so many times its prior
LEAST = 2e-4  # smaller weights are set to 0
# Of 100,000 simulated mixtures so many are drawn jointly; see `simulated_optimum`.
CONTENDERS, POSTERIOR_DRAWS = 4000, 400
OF_A_KERNEL = 2000  # contenders of each of several kernels, which are made anew for each


def sample_mixtures(
    prior: np.ndarray, count: int, seed: int | np.random.Generator, most: float = MOST
) -> np.ndarray:
    """Draws the mixtures that the proxies are trained on.

        w ~ Dirichlet(c p),   p_k = sqrt(prior_k) / sum_j sqrt(prior_j),

    with a total concentration c chosen anew for each draw. Weights under `LEAST` become 0, the
    others are normalised, and draws with a weight above `most` times its prior are rejected.

    Args:
        prior: Shares of tokens ``(K,)``, not negative. A share of 0 is a weight of 0 in every
            mixture.
        count: Number of mixtures ``N``, >= 1.
        seed: A seed, or a generator, which is used up.
        most: The multiple of the prior, > 1.

    Returns:
        Weights ``(N, K)``, each row on the simplex.

    Raises:
        DataError: When fewer than one draw in 1,000 keeps within the limit.
    """
    prior = prior / prior.sum()
    rng = np.random.default_rng(seed)
    has = prior > 0
    tempered = prior[has] ** TEMPERATURE
    tempered /= tempered.sum()
    limit, block = most * prior, max(count, 1000)
    kept, tried = np.empty((0, len(prior))), 0
    while len(kept) < count:
        if tried > 10_000 + 1000 * count:
            raise DataError(
                f"Expected mixtures with no weight above {most:g} times its prior, found "
                f"{len(kept)} among {tried} draws"
            )
        chosen = rng.choice(len(STRENGTHS), size=block)
        drawn = np.zeros((block, len(prior)))
        for number, strength in enumerate(STRENGTHS):
            rows = np.flatnonzero(chosen == number)
            drawn[np.ix_(rows, has)] = rng.dirichlet(strength * tempered, size=len(rows))
        drawn[drawn < LEAST] = 0
        drawn /= drawn.sum(1, keepdims=True)
        kept = np.concatenate([kept, drawn[(drawn <= limit).all(1)]])
        tried += block
    return kept[:count]


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedOptimum:
    """The mixture that a regression finds best, and how sure it is of it.

    Args:
        weights: Mean of the best simulated mixtures ``(K,)``, on the simplex.
        loss: Predicted for these weights, in the unit of the runs' losses.
        single: The one simulated mixture ``(K,)`` whose predicted loss is least.
        weights_draws: Optimum of each posterior draw ``(draws, K)``, None without uncertainty.
    """

    weights: np.ndarray
    loss: float
    single: np.ndarray
    weights_draws: np.ndarray | None = None


def simulated_optimum(
    model: Regression,
    prior: np.ndarray,
    *,
    draws: int = 100_000,
    best: int = BEST,
    seed: int = 42,
    caps: np.ndarray | None = None,
    kl: float = 0.0,
    posterior: bool = True,
    progress: Callable[[], object] = int,
) -> SimulatedOptimum:
    """Returns the mean of those simulated mixtures whose predicted loss is least.

    The mixtures are drawn from Dirichlet(prior), as the authors do, with NumPy's generator of their
    seed.

    A Gaussian process also tells how sure the weights are: by 400 functions drawn from the
    posterior, as many from each of its kernels, each with an optimum of its own, the mean of its
    own best mixtures. Such draws need the
    covariance of all mixtures, 80 GB for 100,000, so they are made for the contenders only: the
    4,000 mixtures with the least mean - 2 standard deviations; 2,000 for each of several kernels.
    On the runs that RegMix published, functions of the most likely kernel drawn on all 100,000 (by
    random Fourier features, conditioned on the runs) had 98 % of their best 128 among 4,000
    contenders, and the ends of their intervals were within 0.01. A kernel that knows little, as
    with few runs, has good mixtures elsewhere too, which are not drawn.

    Args:
        model: What predicts losses.
        prior: Shares of tokens ``(K,)``, not negative. A share of 0 is a weight of 0.
        draws: Simulated mixtures.
        best: How many of them are averaged; with a Gaussian process at most 4,000.
        seed: Of the mixtures and of the posterior's draws.
        caps: Largest weights ``(K,)``, into which each simulated mixture is brought (see
            `within_caps`); none if not given.
        kl: What a nat of relative entropy to the prior costs, in losses; it is added to every
            prediction before the best are chosen.
        posterior: Whether functions are drawn from a Gaussian process's posterior.
        progress: Is called as each kernel's functions are drawn.

    Raises:
        DataError: When the caps leave no mixture.
    """
    prior = prior / prior.sum()
    mixtures = np.zeros((draws, len(prior)))
    # The stream of the authors' np.random.seed(42); the newer generators give other mixtures.
    legacy = np.random.RandomState(seed)
    mixtures[:, prior > 0] = legacy.dirichlet(prior[prior > 0], size=draws)
    if caps is not None:
        if caps.sum() < 1:
            raise DataError(f"Expected caps that add up to 1 or more, found {caps.sum():.3f}")
        mixtures = within_caps(mixtures, caps)
    cost = kl * relative_entropy(mixtures, prior) if kl else np.zeros(draws)  # (S,)
    optima = None
    if isinstance(model, PosteriorRegression) and posterior:
        predicted, optima = _own_best(model, mixtures, cost, best, seed, progress)
    else:
        predicted = model.predict(mixtures)  # (S,)
    order = np.argsort(predicted + cost, kind="stable")[:best]
    weights = mixtures[order].mean(0)
    return SimulatedOptimum(
        weights=weights,
        loss=float(model.predict(weights[None])[0]),
        single=mixtures[order[0]],
        weights_draws=optima,
    )


def _own_best(
    model: PosteriorRegression,
    mixtures: np.ndarray,
    cost: np.ndarray,
    best: int,
    seed: int,
    progress: Callable[[], object],
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mixtures' expected losses, and each drawn function's optimum ``(draws, K)``."""
    means, optima = [], []
    most = CONTENDERS if len(model.members) == 1 else min(CONTENDERS, max(best, OF_A_KERNEL))
    shares = np.diff(np.linspace(0, POSTERIOR_DRAWS, len(model.members) + 1).astype(int))
    members: tuple[PosteriorRegression, ...] = model.members
    for place, (member, share) in enumerate(zip(members, shares, strict=True)):
        mean, deviation = member.moments(mixtures)
        chosen = np.argsort(mean + cost - 2 * deviation, kind="stable")[:most]
        contenders = mixtures[chosen]
        losses = member.sample(contenders, int(share), seed + place) + cost[chosen]  # (share, S)
        own = np.argsort(losses, axis=1, kind="stable")[:, :best]
        means.append(mean)
        optima.append(contenders[own].mean(1))
        progress()
    return np.mean(means, axis=0), np.concatenate(optima)
