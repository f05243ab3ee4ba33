"""The guide fitted to exact draws: the forward divergence, which covers what SVI leaves out.

SVI minimises ``KL(q || p)``, so that the guide is too narrow where weights are tied or sparse, and
importance weights have heavy tails. Maximum likelihood on draws of the posterior minimises
``KL(p || q)`` instead. Its draws come from Markov chains that begin where SVI has led the guide.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from bydore_pyro.core.density import log_density
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.inference import FREE, Inference, InferenceConfig, infer, isolated
from bydore_pyro.core.metropolis import MOST_EXACT, exact_draws, guide_draws
from bydore_pyro.core.prior import CONCENTRATIONS

__all__ = ["fit_to_draws", "infer_at_last"]

STEPS, BATCH = 150, 64
RATE, LAST_RATE = 0.05, 0.1  # the first step size, and the last as a share of it
SMALLEST = 1e-300  # weight of a draw


def infer_at_last(
    guide: MixtureGuide,
    signals: Tensor,
    linear: Tensor,
    precision: Tensor,
    *,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
    config: InferenceConfig,
) -> Inference:
    """Fits a guide by SVI, then to exact draws; with many domains by SVI with smaller steps alone.

    The arguments are those of `bydore_pyro.core.infer`, with a precision.
    """
    exactly = len(linear) <= MOST_EXACT
    steps = dataclasses.replace(config, decays=0) if exactly else config
    evidence = (signals, linear, precision)
    found = infer(guide, *evidence, concentrations=concentrations, config=steps)
    if exactly:
        fit_to_draws(guide, *evidence, concentrations=concentrations, seed=config.seed)
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

    The network's parameters that all signals share stay as they are. The caller's random numbers
    and Pyro parameter store are left alone.

    Args:
        guide: Near the posterior, as `bydore_pyro.core.infer` leaves it.
        signals: ``(K,)``, nats per token.
        linear: ``h (K,)``.
        precision: ``Lambda (K, K)``.
        concentrations: Of the prior; see `mixture_model`.
        seed: Of chains and batches.

    References:
        Naesseth, Lindsten, Blei (2020), Markovian Score Climbing: Variational Inference with
        KL(p||q), arXiv 2003.10374.
    """
    start = guide_draws(guide, signals, None, seed)
    found = exact_draws(
        linear[None], precision[None], start[None], concentrations=concentrations, seed=seed
    )
    log_w, scale = found.weights[0].clamp(min=SMALLEST).log(), found.scale[0]
    free = [p for name, p in guide.named_parameters() if name.rpartition(".")[2] in FREE]
    with isolated(seed):
        adam = torch.optim.Adam(free, RATE, betas=(0.9, 0.99))
        fall = torch.optim.lr_scheduler.LinearLR(adam, 1.0, LAST_RATE, STEPS)
        for _ in range(STEPS):
            chosen = torch.randint(len(log_w), (BATCH,))
            q = guide.posterior(signals)
            loss = -log_density(log_w[chosen], q.concentration, q.rate, *q.num_nodes).mean()
            if guide.has_scale:
                loss = loss - guide.scale_posterior().log_prob(scale[chosen]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            fall.step()
