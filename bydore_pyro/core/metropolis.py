"""Draws from the exact posterior of `mixture_model`, by Metropolis steps of many chains at once.

In ``u = s w``, which is free but for its sign, the density of ``K`` domains is::

    log p(u) = h . u - 1/2 u' Lambda u + log p(w) - 1/2 log(s)^2 - K log(s),   s = sum_k u_k

Each sweep moves every weight in its logarithm (near 0 the prior changes with that), hands from one
domain to another (domains that resemble each other share their weight), and moves all of them
together. Steps have many sizes, each drawn anew, so that nothing is tuned.

The chains are four groups of a hundred. Those of a group begin at one place near the optimum. So
the groups agree only after each has forgotten where it began, and chains go on until they do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bydore_pyro import terminal
from bydore_pyro.core.quadratic import least, square_root
from bydore_pyro.core.sparse import CONCENTRATIONS

__all__ = ["CHAINS", "GROUPS", "MOST_EXACT", "ExactDraws", "exact_draws"]

GROUPS, CHAINS, THIN = 4, 400, 10  # chains in all; sweeps from one kept draw to the next
MOST_WINDOWS = 20  # of draws, one after the other; the last is kept
SETTLED = 1.02  # nested R-hat below which the groups agree
SMALLEST, LARGEST = -600.0, 600.0  # of log u
START = 1e-6  # of a weight that the optimum gives nothing, as a share of the scale
ALIKE = 3  # domains that a domain resembles most
MOST_EXACT = 128  # domains; of more the chains were not shown to settle


class ExactDraws(NamedTuple):
    """Draws of N posteriors, ``D`` of each: group after group, chain after chain."""

    weights: Tensor  # (N, D, K), float64
    scale: Tensor  # (N, D)
    rhat: float  # nested R-hat of the weights, the largest of all

    @property
    def settled(self) -> bool:
        """Whether the groups of chains agree."""
        return self.rhat < SETTLED


def exact_draws(
    linear: Tensor,
    precision: Tensor,
    *,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
    draws: int = 10,
    chains: int = CHAINS,
    seed: int = 0,
) -> ExactDraws:
    """Draws from the posteriors of `bydore_pyro.core.mixture_model`.

    Args:
        linear: ``h (N, K)`` of N posteriors.
        precision: ``Lambda (N, K, K)``.
        concentrations: Of the prior of the weights; see `bydore_pyro.core.SparseDirichlet`.
        draws: Of each chain.
        chains: A multiple of 4, at least 8.
        seed: Of all draws.

    Raises:
        ValueError: When the shapes do not fit, or the chains do not make four groups.

    References:
        Metropolis et al. (1953), J. Chem. Phys. 21; Andrieu et al. (2003), An introduction to MCMC
        for machine learning, Machine Learning 50, on mixtures of kernels; Margossian et al. (2024),
        Nested R-hat, Bayesian Analysis, arXiv 2110.13017.
    """
    count, size = linear.shape
    if precision.shape != (count, size, size):
        raise ValueError(
            f"Expected precision ({count}, {size}, {size}), actual {tuple(precision.shape)}"
        )
    if chains < 2 * GROUPS or chains % GROUPS:
        raise ValueError(f"Expected chains: {2 * GROUPS} or more, {GROUPS} groups, actual {chains}")
    linear, precision = linear.detach().double().cpu(), precision.detach().double().cpu()
    start = torch.stack(
        [_starts(h, bend, chains, seed) for h, bend in zip(linear, precision, strict=True)]
    )
    state = _Chains(linear.numpy(), precision.numpy(), start.numpy(), concentrations, seed)
    # The first window only leads away from the start.
    for number in range(MOST_WINDOWS):
        kept = []
        for _ in range(draws):
            for _ in range(THIN):
                state.sweep()
            terminal.stop_if_asked()
            kept.append(state.log_u.copy())
        log_u = np.stack(kept, 2)  # (N, C, draws, K)
        u = np.exp(log_u - log_u.max(-1, keepdims=True))
        weights = u / u.sum(-1, keepdims=True)
        rhat = nested_rhat(weights.reshape(count, GROUPS, -1, size))
        if number and rhat < SETTLED:
            break
    return ExactDraws(
        weights=torch.from_numpy(weights.reshape(count, -1, size)),
        scale=torch.from_numpy(np.exp(log_u).sum(-1).reshape(count, -1)),
        rhat=rhat,
    )


def nested_rhat(values: np.ndarray) -> float:
    """Returns ``sqrt(1 + B / W)``, the largest over N posteriors and K weights; 1 where all agree.

    ``B`` is the variance of the groups' means, ``W`` the mean variance within a group.

    Args:
        values: Draws ``(N, G, D, K)`` of G groups.
    """
    between = values.mean(2).var(1, ddof=1)
    within = values.var(2, ddof=1).mean(1)
    return float(np.sqrt(1 + between / np.maximum(within, 1e-300)).max())


def _starts(linear: Tensor, precision: Tensor, chains: int, seed: int) -> Tensor:
    """Returns where the chains begin, ``u > 0`` ``(C, K)``: each group at the optimum of evidence
    that is perturbed by its own error, ``h + N(0, Lambda)``.

    References:
        Papandreou and Yuille (2010), Gaussian sampling by local perturbations, NeurIPS 23.
    """
    roots = square_root(precision)
    shape = (GROUPS, len(linear))
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=linear.dtype)
    u = torch.stack([least(roots, linear + row @ roots[0]) for row in noise])
    u = u + START * u.sum(1, keepdim=True) + 1e-9
    return u.repeat_interleave(chains // GROUPS, 0)


class _Chains:
    """The chains' state: ``log u (N, C, K)`` and its log density in these coordinates."""

    def __init__(
        self,
        linear: np.ndarray,
        precision: np.ndarray,
        start: np.ndarray,
        concentrations: tuple[float, ...],
        seed: int,
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.linear, self.precision = linear[:, None], precision
        size = linear.shape[-1]
        alpha = np.array(concentrations)
        self.alpha = alpha
        self.norm = np.array([math.lgamma(size * a) - size * math.lgamma(a) for a in alpha])
        jitter = 1e-9 * np.trace(precision, axis1=1, axis2=2)[:, None, None] / size
        root = np.linalg.cholesky(precision + (jitter + 1e-300) * np.eye(size))
        self.spread = np.linalg.inv(root)  # z @ spread has the covariance of the Gaussian
        cosine = _cosines(precision).mean(0)
        np.fill_diagonal(cosine, -np.inf)
        self.alike = np.argsort(-cosine, 1)[:, : min(ALIKE, size - 1)]  # (K, 3)
        self.log_u = np.log(start)
        self.height = self.density(self.log_u)

    def density(self, log_u: np.ndarray) -> np.ndarray:
        """Returns the log density of ``log u``, ``(N, C)``."""
        u = np.exp(log_u)
        evidence = ((self.linear - 0.5 * (u @ self.precision)) * u).sum(-1)
        return evidence + self._prior(u.sum(-1), log_u.sum(-1))

    def _prior(self, scale: np.ndarray, logs: np.ndarray) -> np.ndarray:
        """The density but for the evidence, by the sums of ``u`` and of ``log u``, ``(N, C)``."""
        log_scale, size = np.log(scale), self.log_u.shape[-1]
        each = self.norm + (self.alpha - 1) * (logs - size * log_scale)[..., None]
        most = each.max(-1)
        prior = most + np.log(np.exp(each - most[..., None]).sum(-1))
        return prior - log_scale**2 / 2 - size * log_scale + logs

    def sweep(self) -> None:
        """Moves every weight, as many pairs, and all weights together."""
        size = self.log_u.shape[-1]
        self._u = np.exp(self.log_u)
        self._pull = self._u @ self.precision  # of a move, its evidence costs no K^2
        self._evidence = ((self.linear - 0.5 * self._pull) * self._u).sum(-1)
        for k in range(size):
            logs = self.log_u[..., [k]] + self._sizes(-1.5, 1)[..., None]
            self._take_some(np.array([k]), logs, 0.0)
            others = self.alike[k] if self.random.random() < 0.5 else np.arange(size)
            other = self.random.choice(others[others != k])
            self._hand_over(np.array([k, other]))
        self._take(self.log_u + self._sizes(-2, 0)[..., None], 0.0)
        # Along the Gaussian of the evidence.
        z, u = self.random.standard_normal(self.log_u.shape), np.exp(self.log_u)
        moved = u + self._sizes(-1.5, 0)[..., None] * (z @ self.spread)
        logs, volume = _moved(u, moved, self.log_u)
        self._take(logs, volume)

    def _sizes(self, low: float, high: float) -> np.ndarray:
        """Steps of both signs ``(N, C)``, normal, of sizes from ``10^low`` to ``10^high``."""
        shape = self.height.shape
        size = 10.0 ** self.random.uniform(low, high, shape)
        return size * self.random.standard_normal(shape)

    def _hand_over(self, places: np.ndarray) -> None:
        """Proposes to move a part of one domain's weight to another's."""
        before = self.log_u[..., places]
        pair = np.exp(before)
        step = self._sizes(-3, -0.5) * pair.sum(-1)
        self._take_some(places, *_moved(pair, pair + np.stack([step, -step], -1), before))

    def _take_some(self, places: np.ndarray, logs: np.ndarray, volume: np.ndarray | float) -> None:
        """Takes other ``log u (N, C, n)`` of n places or not, in time of K for each chain."""
        logs = np.clip(logs, SMALLEST, LARGEST)
        before, old = self.log_u[..., places], self._u[..., places]
        new = np.exp(logs)
        change = new - old
        bend = self.precision[:, places]  # (N, n, K)
        slope = self.linear[..., places] - self._pull[..., places]
        gained = (change * (slope - 0.5 * change @ bend[..., places])).sum(-1)
        evidence = self._evidence + gained
        self.log_u[..., places], self._u[..., places] = logs, new
        # Sums anew: a difference of sums would lose the small ones.
        height = evidence + self._prior(self._u.sum(-1), self.log_u.sum(-1))
        taken = self._taken(height, volume)
        self.log_u[..., places] = np.where(taken[..., None], logs, before)
        self._u[..., places] = np.where(taken[..., None], new, old)
        self._pull += (change * taken[..., None]) @ bend
        self._evidence = np.where(taken, evidence, self._evidence)

    def _take(self, proposal: np.ndarray, volume: np.ndarray | float) -> None:
        """Takes other ``log u`` of all places or not."""
        np.clip(proposal, SMALLEST, LARGEST, out=proposal)
        taken = self._taken(self.density(proposal), volume)
        self.log_u = np.where(taken[..., None], proposal, self.log_u)

    def _taken(self, height: np.ndarray, volume: np.ndarray | float) -> np.ndarray:
        """Returns which chains take a proposal: its height, and the log of its volume's change."""
        odds = height - self.height + volume
        taken: np.ndarray = np.log(self.random.random(odds.shape)) < odds
        self.height = np.where(taken, height, self.height)
        return taken


def _moved(u: np.ndarray, moved: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns ``log u`` of other ``u`` at some places, and the log of the change of volume.

    Proposals that are symmetric in ``u`` are not in ``log u``: the density there has the factor
    ``prod_k u_k``, which these have to give back. One with a weight below 0 is never taken.
    """
    allowed = np.all(moved > 0, axis=-1)
    logs = np.log(np.where(allowed[..., None], moved, u))
    return logs, np.where(allowed, -(logs - before).sum(-1), -np.inf)


def _cosines(precision: np.ndarray) -> np.ndarray:
    """Returns how alike domains are to the evidence ``(N, K, K)``, in [-1, 1]."""
    length = np.sqrt(np.diagonal(precision, axis1=1, axis2=2)).clip(min=1e-300)
    return precision / length[:, :, None] / length[:, None, :]
