"""Draws of many Gaussian posteriors at once, and whether intervals and ranks fit the truth.

The model of `bydore_pyro.core.guide.mixture_model` in ``u = s w``, of ``K`` domains::

    log p(u) = h . u - 1/2 u' Lambda u - 1/2 log(s)^2 - K log(s),    s = sum_k u_k,  u >= 0

Letters as in the package, and ``N`` posteriors, ``D`` draws, ``C`` chains.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

CHAINS, WARMUP, THIN = 8, 1000, 20
SIMULATIONS = 2000  # of uniform ranks, for the bands


def exact_draws(
    linear: Tensor, precision: Tensor, start: Tensor, draws: int = 250, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Draws from posteriors by slices of lines: along an axis, from a domain to another, or any.

    On a line the Gaussian's slice has a closed form, and the bounds ``u >= 0`` cut it; what the
    prior adds is then accepted or not.

    Args:
        linear: ``h (N, K)``.
        precision: ``Lambda (N, K, K)``.
        start: Where the chains begin, near: ``u (N, K)``.
        draws: Of each chain.
        seed: Of all draws.

    Returns:
        Weights ``(N, C * draws, K)`` and scales ``(N, C * draws)``; chain after chain.

    References:
        Neal (2003), Slice sampling, Annals of Statistics 31; Smith (1984), Efficient Monte Carlo
        procedures for generating points uniformly distributed over bounded regions (hit-and-run).
    """
    generator = torch.Generator().manual_seed(seed)
    count, size = linear.shape
    shape = (count, CHAINS)

    def uniform(*last: int) -> Tensor:
        return torch.rand(*shape, *last, generator=generator, dtype=torch.float64)

    jitter = 1e-9 * precision.diagonal(dim1=1, dim2=2).mean(1)
    root = torch.linalg.cholesky(precision + jitter[:, None, None] * torch.eye(size))
    spread = torch.linalg.inv(root)  # spread' z has the covariance of the Gaussian
    noise = torch._sample_dirichlet(torch.ones(*shape, size).double(), generator)
    u = 0.9 * start.clamp(min=0)[:, None] + 0.1 * noise
    rows = torch.arange(count)[:, None], torch.arange(CHAINS)[None]
    kept = []
    for step in range(WARMUP + draws * THIN):
        if step % 3 == 0:
            z = torch.randn(*shape, size, generator=generator, dtype=torch.float64)
            direction = z @ spread
        else:
            direction = torch.zeros_like(u)
            first = torch.randint(size, shape, generator=generator)
            direction[(*rows, first)] = 1.0
            if step % 3 == 2:
                other = torch.randint(1, size, shape, generator=generator)
                direction[(*rows, (first + other) % size)] = -1.0
        bent = direction @ precision  # (N, C, K)
        curvature = (bent * direction).sum(-1).clamp(min=1e-300)
        slope = (direction * linear[:, None]).sum(-1) - (bent * u).sum(-1)
        peak = slope / curvature
        half = (peak.square() - 2 * uniform().log() / curvature).sqrt()
        ratio = -u / direction
        low = torch.where(direction > 0, ratio, -math.inf).amax(-1)
        high = torch.where(direction < 0, ratio, math.inf).amin(-1)
        low, high = torch.maximum(low, peak - half), torch.minimum(high, peak + half)
        proposal = (u + (low + (high - low) * uniform())[..., None] * direction).clamp(min=0)
        gain = _log_prior(proposal) - _log_prior(u)
        u = torch.where((uniform().log() < gain)[..., None], proposal, u)
        if step >= WARMUP and (step - WARMUP) % THIN == THIN - 1:
            kept.append(u)
    drawn = torch.stack(kept, 2).flatten(1, 2)  # (N, C * draws, K)
    scale = drawn.sum(-1)
    return drawn / scale[..., None], scale


def _log_prior(u: Tensor) -> Tensor:
    """The prior of ``u (..., K)``: uniform weights, and ``LogNormal(0, 1)`` for the scale."""
    log_scale = u.sum(-1).log()
    return -log_scale.square() / 2 - u.shape[-1] * log_scale


def split_r_hat(weights: Tensor) -> Tensor:
    """Returns split R-hat ``(N, K)`` of draws ``(N, C * draws, K)``, chain after chain.

    References:
        Gelman et al. (2013), Bayesian Data Analysis, 3rd edition, section 11.4.
    """
    count, total, size = weights.shape
    length = total // (2 * CHAINS)
    halves = weights[:, : 2 * CHAINS * length].reshape(count, 2 * CHAINS, length, size)
    within = halves.var(2).mean(1)
    between = halves.mean(2).var(1)
    return (((length - 1) / length * within + between) / within.clamp(min=1e-300)).sqrt()


def intervals(
    weights: Tensor, probability: float, *, to_bounds: bool = True
) -> tuple[Tensor, Tensor]:
    """Returns highest-density intervals of draws ``(N, D, K)`` in [0, 1]: ends ``(N, K)``.

    As `bydore_pyro.analysis.mixture_of` takes them: ArviZ's, and from 0 or to 1 where they begin or
    end with the outermost draw. Without `to_bounds`, ArviZ's: of draws that can be 0 or 1.
    """
    ordered = weights.sort(1).values
    inside = math.floor(probability * weights.shape[1])
    widths = ordered[:, inside:] - ordered[:, : weights.shape[1] - inside]
    narrowest = widths.argmin(1, keepdim=True)
    low = ordered.gather(1, narrowest).squeeze(1)
    high = ordered.gather(1, narrowest + inside).squeeze(1)
    if not to_bounds:
        return low, high
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
