"""Whether intervals and ranks fit the truth, for many posteriors at once.

Letters as in the package, and ``N`` posteriors, ``D`` draws.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

SIMULATIONS = 2000  # of uniform ranks, for the bands


def intervals(weights: Tensor, probability: float) -> tuple[Tensor, Tensor]:
    """Returns highest-density intervals of draws ``(N, D, K)`` in [0, 1]: ends ``(N, K)``.

    As `bydore_pyro.analysis.mixture_of` takes them: ArviZ's, and from 0 or to 1 where they begin or
    end with the outermost draw.
    """
    ordered = weights.sort(1).values
    inside = math.floor(probability * weights.shape[1])
    widths = ordered[:, inside:] - ordered[:, : weights.shape[1] - inside]
    narrowest = widths.argmin(1, keepdim=True)
    low = ordered.gather(1, narrowest).squeeze(1)
    high = ordered.gather(1, narrowest + inside).squeeze(1)
    low = torch.where(low <= ordered[:, 0], 0.0, low)
    return low, torch.where(high >= ordered[:, -1], 1.0, high)


def ranks(weights: Tensor, truth: Tensor) -> Tensor:
    """Returns the share of the draws ``(N, D, K)`` that lie below the truth ``(N, K)``."""
    return (weights < truth[:, None]).double().mean(1)


def joint_ranks(weights: Tensor, truth: Tensor, seed: int = 0) -> Tensor:
    """Returns the share of the draws nearer than the truth to a point from the prior, ``(N,)``.

    Uniform where the posteriors are right, all weights together.

    Args:
        weights: Draws ``(N, D, K)``.
        truth: ``(N, K)``.
        seed: Of the points.

    References:
        Lemos et al. (2023), Sampling-based accuracy testing of posterior estimators (TARP), arXiv
        2302.03026.
    """
    generator = torch.Generator().manual_seed(seed)
    point = torch._sample_dirichlet(torch.ones_like(truth), generator)
    nearer = (weights - point[:, None]).norm(dim=-1) < (truth - point).norm(dim=-1)[:, None]
    return nearer.double().mean(1)


@functools.lru_cache
def bands(count: int, probability: float = 0.95, nodes: int = 50) -> tuple[np.ndarray, ...]:
    """Returns where the share of `count` uniform ranks below each of `nodes` points may lie.

    The whole of it lies inside with this probability: pointwise binomial intervals, as wide as
    simulations ask for.

    Returns:
        Points in (0, 1), lower and upper ends, ``(nodes - 1,)`` each.

    References:
        Säilynoja, Bürkner, Vehtari (2022), Graphical test for discrete uniformity, arXiv
        2103.10522.
    """
    from scipy.stats import binom

    points = np.arange(1, nodes) / nodes
    rng = np.random.default_rng(20261122)
    drawn = np.sort(rng.random((SIMULATIONS, count)), axis=1)
    below = np.stack([np.searchsorted(row, points, side="right") for row in drawn])
    tails = np.minimum(binom.cdf(below, count, points), binom.sf(below - 1, count, points))
    tail = float(np.quantile(tails.min(1), 1 - probability))
    lower = binom.ppf(tail, count, points) / count
    upper = binom.isf(tail, count, points) / count
    return points, lower, upper


def shares_below(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the share of values ``(N,)`` up to each point."""
    return np.searchsorted(np.sort(values), points, side="right") / len(values)


def is_uniform(values: np.ndarray, probability: float = 0.95) -> bool:
    """Whether ranks ``(N,)`` lie within their bands."""
    points, lower, upper = bands(len(values), probability)
    share = shares_below(values, points)
    return bool(((lower <= share) & (share <= upper)).all())
