"""Draws from the exact posterior of `mixture_model`, by Metropolis steps of many chains at once.

In ``u = s w``, which is free but for its sign, the density of ``K`` domains is::

    log p(u) = h . u - 1/2 u' Lambda u + log p(w) - 1/2 log(s)^2 - K log(s),   s = sum_k u_k

Each sweep moves every weight in its logarithm (near 0 the prior changes with that), hands from one
domain to another (domains that resemble each other share their weight), and moves all of them
together. Steps have many sizes, each drawn anew, so that nothing is tuned.

A guide is fitted to such draws. SVI minimises ``KL(q || p)``, so that the guide is too narrow where
weights are tied or sparse, and importance weights have heavy tails. Maximum likelihood on draws of
the posterior minimises ``KL(p || q)`` instead. The chains begin where SVI has led the guide.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core.density import log_density
from bydore_pyro.core.distribution import CONCENTRATIONS
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.inference import DECAYS, FREE, Inference, InferenceConfig, infer, isolated

__all__ = [
    "MOST_EXACT",
    "ExactDraws",
    "exact_draws",
    "fit_to_draws",
    "guide_draws",
    "infer_and_refine",
]

CHAINS, WARMUP, THIN = 400, 150, 10  # sweeps before the first kept draw, and between two
SMALLEST, LARGEST = -600.0, 600.0  # of log u
MOST_EXACT = 128  # domains; of 256 the chains did not stand still from a rough start
LEAST_LOG = -500.0  # of a weight where a chain begins
FIT_STEPS, FIT_BATCH = 150, 64  # of a guide, to draws
RATE, LAST_RATE = 0.05, 0.1  # the first step size, and the last as a share of it
SMALLEST_WEIGHT = 1e-300  # of a draw
DRIFTED = 5.0  # standard errors by which the chains' mean may change between first and last draw


class ExactDraws(NamedTuple):
    """Draws of N posteriors, ``D = C * draws`` of each, chain after chain."""

    weights: Tensor  # (N, D, K), float64
    scale: Tensor  # (N, D)
    settled: bool  # whether the mean of the chains stands still


def exact_draws(
    linear: Tensor,
    precision: Tensor,
    start: Tensor,
    *,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
    draws: int = 10,
    seed: int = 0,
) -> ExactDraws:
    """Draws from the posteriors of `bydore_pyro.core.mixture_model`.

    Args:
        linear: ``h (N, K)`` of N posteriors.
        precision: ``Lambda (N, K, K)``.
        start: ``u > 0`` where the chains begin, ``(N, C, K)``.
        concentrations: Of the prior of the weights; see `bydore_pyro.core.SparseDirichlet`.
        draws: Of each chain.
        seed: Of all draws.

    Raises:
        ValueError: When the shapes do not fit, or a start is not positive.

    References:
        Metropolis et al. (1953), J. Chem. Phys. 21; Andrieu et al. (2003), An introduction to MCMC
        for machine learning, Machine Learning 50, on mixtures of kernels.
    """
    count, size = linear.shape
    if precision.shape != (count, size, size) or start.shape[::2] != (count, size):
        raise ValueError(
            f"Expected precision ({count}, {size}, {size}) and starts ({count}, C, {size}), actual "
            f"{tuple(precision.shape)} and {tuple(start.shape)}"
        )
    if not bool((start > 0).all()):
        raise ValueError("Expected starts > 0, found others")
    h, bend = (x.detach().double().cpu().numpy() for x in (linear, precision))
    chains = _Chains(h, bend, start.detach().double().cpu().numpy(), concentrations, seed)
    kept = []
    for sweep in range(WARMUP + draws * THIN):
        chains.sweep()
        if sweep >= WARMUP and (sweep - WARMUP) % THIN == THIN - 1:
            kept.append(chains.log_u.copy())
    log_u = np.stack(kept, 2)  # (N, C, draws, K)
    u = np.exp(log_u - log_u.max(-1, keepdims=True))
    weights = u / u.sum(-1, keepdims=True)
    change = weights[:, :, -1] - weights[:, :, 0]
    error = np.maximum(change.std(1), 1e-12) / math.sqrt(change.shape[1])
    return ExactDraws(
        weights=torch.from_numpy(weights.reshape(count, -1, size)),
        scale=torch.from_numpy(np.exp(log_u).sum(-1).reshape(count, -1)),
        settled=draws == 1 or bool((np.abs(change.mean(1)) < DRIFTED * error).all()),
    )


def guide_draws(guide: MixtureGuide, signals: Tensor, seed: int) -> Tensor:
    """Returns a draw of ``u = s w > 0`` of a guide with a scale for each chain ``(C, K)``."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        log_w, _ = guide.posterior(signals).rsample_log(torch.Size((CHAINS,)))
        log_w = log_w + guide.scale_posterior().sample((CHAINS, 1)).log()
    return log_w.double().clamp(min=LEAST_LOG).exp()


def infer_and_refine(
    guide: MixtureGuide,
    signals: Tensor,
    linear: Tensor,
    precision: Tensor,
    *,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
    config: InferenceConfig,
) -> Inference:
    """Fits a guide as `infer` does, then to exact draws; with many domains by SVI alone."""
    exactly = len(linear) <= MOST_EXACT
    evidence = (signals, linear, precision)
    prior: Any = {"concentrations": concentrations}
    found = infer(guide, *evidence, **prior, config=config, decays=0 if exactly else DECAYS)
    if exactly:
        fit_to_draws(guide, *evidence, **prior, seed=config.seed)
    return found


def fit_to_draws(
    guide: MixtureGuide,
    signals: Tensor,
    linear: Tensor,
    precision: Tensor,
    *,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
    seed: int = 0,
) -> None:
    """Fits a guide to draws of `bydore_pyro.core.mixture_model`, by maximum likelihood.

    The guide has a scale and is near the posterior, as `bydore_pyro.core.infer` leaves it; the
    other arguments are those of `infer`. The network's parameters that all signals share stay as
    they are. The caller's random numbers and Pyro parameter store are left alone.

    References:
        Naesseth, Lindsten, Blei (2020), Markovian Score Climbing: Variational Inference with
        KL(p||q), arXiv 2003.10374.
    """
    start = guide_draws(guide, signals, seed)
    found = exact_draws(
        linear[None], precision[None], start[None], concentrations=concentrations, seed=seed
    )
    log_w, scale = found.weights[0].clamp(min=SMALLEST_WEIGHT).log(), found.scale[0]
    free = [p for name, p in guide.named_parameters() if name.rpartition(".")[2] in FREE]
    with isolated(seed):
        adam = torch.optim.Adam(free, RATE, betas=(0.9, 0.99))
        fall = torch.optim.lr_scheduler.LinearLR(adam, 1.0, LAST_RATE, FIT_STEPS)
        for _ in range(FIT_STEPS):
            chosen = torch.randint(len(log_w), (FIT_BATCH,))
            q = guide.posterior(signals)
            loss = -log_density(log_w[chosen], q.concentration, q.rate).mean()
            loss = loss - guide.scale_posterior().log_prob(scale[chosen]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            fall.step()


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
            self._hand_over(self.random.choice(size, 2, replace=False))
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
