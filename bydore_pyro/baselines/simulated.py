"""Random mixtures, and the best of very many of them near the runs of a regression (RegMix).

No regression knows what lies far from every run, and the best of its guesses lies there. So a
proposal lies in a trust region: off its nearest run it has no larger share of tokens than 94 % of
the runs have off theirs.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from bydore_pyro.baselines.gaussian_process import GaussianProcess
from bydore_pyro.baselines.regression import AnyRegression
from bydore_pyro.mixture import HDI_PROBABILITY, within_caps
from bydore_pyro.utils import DataError

__all__ = ["BEST", "SimulatedOptimum", "TrustRegion", "relative_entropy", "sample_mixtures",
           "simulated_optimum"]  # fmt: skip

BEST = 128  # simulated mixtures that are averaged
# How the authors draw the mixtures of their proxies.
TEMPERATURE = 0.5  # exponent of the prior: below 1 small domains are drawn more often
STRENGTHS = np.geomspace(0.1, 5.0, 15)  # total concentrations of the Dirichlet distributions
MOST = 15.0  # no weight is above so many times its prior
LEAST = 2e-4  # smaller weights are set to 0
CONTENDERS, POSTERIOR_DRAWS = 4000, 400  # mixtures on which functions are drawn; the functions
CHUNK = 10_000  # mixtures whose distances are held at once


def sample_mixtures(prior: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draws the mixtures that the proxies are trained on.

        w ~ Dirichlet(c p),   p_k = sqrt(prior_k) / sum_j sqrt(prior_j),

    with a total concentration c chosen anew for each draw. Weights under `LEAST` become 0, the
    others are normalised, and draws with a weight above `MOST` times its prior are rejected.

    Args:
        prior: Shares of tokens ``(K,)``, not negative. A share of 0 is a weight of 0 in every
            mixture.
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


class TrustRegion:
    """The mixtures whose nearest run has not more tokens elsewhere than is usual among the runs.

    Distances are total variations, the share of tokens that lies elsewhere.

    Args:
        runs: Weights ``(N, K)``.
        names: Of the runs.
    """

    def __init__(self, runs: np.ndarray, names: Sequence[str] = ()) -> None:
        self.runs, self.names = runs, names
        distinct = np.unique(runs, axis=0)
        among = cdist(distinct, distinct, "cityblock") / 2
        np.fill_diagonal(among, np.inf)
        self.among = among.min(1) if len(distinct) > 1 else np.zeros(1)  # to the nearest other
        self.reach = float(np.quantile(self.among, HDI_PROBABILITY))

    def nearest(self, mixtures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the place of the run nearest to each mixture ``(S, K)``, and its distance."""
        found = [
            (gaps.argmin(1), gaps.min(1) / 2)
            for gaps in (
                cdist(mixtures[start : start + CHUNK], self.runs, "cityblock")
                for start in range(0, len(mixtures), CHUNK)
            )
        ]
        places, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return places, distances

    def far(self, mixture: np.ndarray) -> bool:
        """Whether a mixture ``(K,)`` lies outside."""
        return bool(self.nearest(mixture[None])[1][0] > self.reach * (1 + 1e-6) + 1e-9)

    def moved_in(self, mixtures: np.ndarray) -> np.ndarray:
        """Returns mixtures ``(S, K)``, those outside moved straight towards their nearest runs."""
        places, distances = self.nearest(mixtures)
        outside = distances > self.reach
        moved, step = mixtures.copy(), self.reach / np.maximum(distances, 1e-300)
        runs = self.runs[places[outside]]
        moved[outside] = runs + step[outside, None] * (mixtures[outside] - runs)
        return moved

    def described(self, mixture: np.ndarray) -> dict[str, Any]:
        """Returns how far a mixture ``(K,)`` lies from the runs, as plain values with words."""
        places, distances = self.nearest(mixture[None])
        nearest, typical = float(distances[0]), float(np.median(self.among))
        name, far = self.names[places[0]], self.far(mixture)
        words = (
            f"The nearest run ({name}) has {100 * nearest:.0f} % of its tokens elsewhere; the runs "
            f"among themselves have {100 * typical:.0f} % (median), and 94 % of them at most "
            f"{100 * self.reach:.0f} %"
        )
        if far:
            words += (
                ": nothing like this mixture was run, so what is predicted of it was never checked."
            )
        elif nearest > 0.99 * self.reach:
            words += ": the proposal was held there, beyond it nothing like it was run."
        else:
            words += ": mixtures like this one were run."
        return {
            "nearest_run": name,
            "total_variation": nearest,
            "median_among_runs": typical,
            "reach": self.reach,
            "far": far,
            "held": not far and nearest > 0.99 * self.reach,
            "words": words,
        }


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
    model: AnyRegression,
    prior: np.ndarray,
    region: TrustRegion | None = None,
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
    seed; those outside of the trust region are moved to its edge. A Gaussian process also tells how
    sure the weights are: by 400 functions drawn from the posterior, each with an optimum of its
    own among the 4,000 mixtures with the least mean - 2 standard deviations.

    Args:
        model: What predicts losses.
        prior: Shares of tokens ``(K,)``, not negative. A share of 0 is a weight of 0.
        region: Where mixtures may lie; everywhere, as with the authors, if not given.
        draws: Simulated mixtures.
        best: How many of them are averaged.
        seed: Of the mixtures and of the posterior's draws.
        caps: Largest weights ``(K,)``, which count more than the region; none if not given.
        kl: What a nat of relative entropy to the prior costs, in losses; it is added to every
            prediction before the best are chosen.
        posterior: Whether functions are drawn from a Gaussian process's posterior.
        progress: Is called when they are.

    Raises:
        DataError: When the caps leave no mixture.
    """
    prior = prior / prior.sum()
    mixtures = np.zeros((draws, len(prior)))
    # The stream of the authors' np.random.seed(42); the newer generators give other mixtures.
    legacy = np.random.RandomState(seed)
    mixtures[:, prior > 0] = legacy.dirichlet(prior[prior > 0], size=draws)
    mixtures = _allowed(mixtures, region, caps)
    cost = kl * relative_entropy(mixtures, prior) if kl else np.zeros(len(mixtures))  # (S,)
    predicted = model.predict(mixtures) + cost
    order = np.argsort(predicted, kind="stable")[:best]
    weights = _allowed(mixtures[order].mean(0)[None], region, caps)[0]
    optima = None
    if isinstance(model, GaussianProcess) and posterior:
        mean, deviation = model.moments(mixtures)
        chosen = np.argsort(mean + cost - 2 * deviation, kind="stable")[:CONTENDERS]
        losses = model.sample(mixtures[chosen], POSTERIOR_DRAWS, seed) + cost[chosen]
        own = np.argsort(losses, axis=1, kind="stable")[:, :best]
        optima = mixtures[chosen][own].mean(1)
        progress()
    return SimulatedOptimum(
        weights=weights,
        loss=float(model.predict(weights[None])[0]),
        single=mixtures[order[0]],
        weights_draws=optima,
    )


def _allowed(
    mixtures: np.ndarray, region: TrustRegion | None, caps: np.ndarray | None
) -> np.ndarray:
    """Returns mixtures ``(S, K)`` brought into the caps and the region, some of them left out."""
    if caps is not None:
        if caps.sum() < 1:
            raise DataError(f"Expected caps that add up to 1 or more, found {caps.sum():.3f}")
        mixtures = within_caps(mixtures, caps)
    moved = mixtures if region is None else region.moved_in(mixtures)
    if caps is None:
        return moved
    kept = moved[(moved <= caps + 1e-9).all(1)]
    return kept if len(kept) else mixtures


def relative_entropy(weights: np.ndarray, natural: np.ndarray) -> np.ndarray:
    """Returns ``KL(w || natural) = sum_k w_k log(w_k / natural_k)`` of mixtures ``(S, K)``, nats.

    It is infinite where a mixture has a domain that the natural one lacks.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = weights * (np.log(weights) - np.log(natural))
    return np.where(weights > 0, terms, 0.0).sum(1)
