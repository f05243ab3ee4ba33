"""Two ways to fit a guide: by SVI until it has settled, or to draws of the posterior.

SVI minimises ``KL(q || p)``, so that the guide is too narrow where weights are tied or sparse, and
importance weights have heavy tails. Maximum likelihood on draws of the posterior minimises
``KL(p || q)`` instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro.infer import SVI
from torch import Tensor
from torch.distributions import Dirichlet, LogNormal, kl_divergence

from bydore_pyro import terminal
from bydore_pyro.command_line import Checked, option
from bydore_pyro.core.density import log_density
from bydore_pyro.core.elbo import HypergradientELBO
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.isolation import isolated
from bydore_pyro.core.model import expected_evidence, mixture_model, require_precision
from bydore_pyro.core.sparse import CONCENTRATIONS, SparseDirichlet

__all__ = ["Inference", "InferenceConfig", "fit_to_draws", "has_settled", "infer"]

FREE = ("domain_bias", "log_total", "log_mean", "log_rate", "scale_loc", "scale_log_deviation")
FREE_RATE, NETWORK_RATE = 0.1, 3e-3  # step sizes of the parameters of each domain, and of others
DECAYS, DECAY = 2, 0.3  # how often step sizes are made smaller, and by which factor
DIRICHLET_STEPS, DIRICHLET_RATES = 200, (0.15, 0.01)  # of the start, and its step sizes
START_DRAWS = 64  # of the KL, where two starts are compared
DRAWS_TIMES_DOMAINS = 512
FIT_STEPS, FIT_BATCH = 200, 64  # of a guide, to draws
FIT_RATE, LAST_RATE = 0.05, 0.1  # the first step size, and the last as a share of it
FIT_SHAPE = 2.0  # of the Gammas, before the first step
SMALLEST_WEIGHT, SMALLEST_CONCENTRATION = 1e-300, 1e-3


@dataclass(frozen=True, kw_only=True)
class InferenceConfig(Checked):
    """When `infer` stops, and its draws.

    SVI goes on at one step size until the loss has settled by `has_settled`, then at a smaller one;
    when the loss has settled at the last it stops.
    """

    steps: int = option(1500, "Maximum number of steps.", least=1)
    window: int = option(50, "In steps.", least=2)
    tolerance: float = option(0.1, "In nats.", above=0)
    draws: int = option(8, "Draws for the KL per step; fewer with more than 64 domains.", least=1)
    seed: int = option(0)


@dataclass(frozen=True)
class Inference:
    """What `infer` did."""

    settled: bool  # whether the loss settled at the last step size before the steps ran out
    steps: int  # that were taken
    losses: tuple[float, ...]  # at each step, nats; noisy


def infer(
    guide: MixtureGuide,
    signals: Tensor,
    linear: Tensor,
    precision: Tensor,
    *,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
    config: InferenceConfig | None = None,
) -> Inference:
    """Fits a guide to `mixture_model` by SVI with `HypergradientELBO`, until the loss has settled.

    It begins where the loss is less: at the guide as it is (fitted to earlier evidence, say), or at
    the Dirichlet of the least loss, whose moments and divergence have closed forms.

    The caller's random numbers and Pyro parameter store are left alone. The optimiser is a new one,
    so that the result depends on the guide, the evidence and the seed alone. Prefer float64: near
    its maximum the evidence is a difference of numbers thousands of times as large. Where the
    parameters end as NaN or infinity, the guide is as it was.

    Args:
        guide: With a scale, and a network that has a method `start_at`, as `FreeConcentrations`
            does; its parameters are changed.
        signals: ``(K,)``, nats per token.
        linear: First order of the evidence ``(K,)``, nats.
        precision: Second order ``(K, K)``; see `mixture_model`.
        concentrations: Of the prior; see `mixture_model`.
        config: Steps, and when to stop.

    Raises:
        ValueError: When the guide has no scale, or its network no `start_at`; when the evidence is
            not finite; when the precision is 0, or not symmetric and positive semi-definite.
    """
    config = config or InferenceConfig()
    guide.scale_posterior()  # refuses a guide without a scale
    if not hasattr(guide.network, "start_at"):
        network = type(guide.network).__name__
        raise ValueError(f"Expected a network with a method start_at, actual {network}")
    _check_evidence(linear, precision)
    arguments: tuple[Any, ...] = (signals, linear, 1.0, precision, concentrations)
    draws = max(1, min(config.draws, DRAWS_TIMES_DOMAINS // linear.shape[-1]))

    def rates(name: str) -> dict[str, Any]:
        free = name.rpartition(".")[2] in FREE
        return {"lr": FREE_RATE if free else NETWORK_RATE, "betas": (0.9, 0.99)}

    before = {name: value.clone() for name, value in guide.state_dict().items()}
    try:
        with isolated(config.seed):
            _start(guide, arguments, before)
            optimizer = pyro.optim.ClippedAdam(rates)
            svi = SVI(mixture_model, guide, optimizer, HypergradientELBO(num_samples=draws))
            losses: list[float] = []
            settled = False
            for _ in range(DECAYS + 1):
                settled = _step_until_settled(svi, arguments, config, losses)
                if not settled:
                    break
                for one in optimizer.optim_objs.values():
                    for group in one.param_groups:
                        group["lr"] *= DECAY
    finally:
        if not all(value.isfinite().all() for value in guide.parameters()):
            guide.load_state_dict(before)
    return Inference(settled, len(losses), tuple(losses))


def fit_to_draws(guide: MixtureGuide, weights: Tensor, scale: Tensor, *, seed: int = 0) -> None:
    """Fits a guide to draws of a posterior by maximum likelihood.

    It begins at the Dirichlet that has the mean of the draws and, in sum, their variance. The
    caller's random numbers and Pyro parameter store are left alone.

    Args:
        guide: With a scale; its network has a method `start_at` and ignores the signals, as
            `FreeConcentrations` does.
        weights: ``(D, K)``, each draw on the simplex.
        scale: ``(D,)``, > 0.
        seed: Of the order of the draws.

    Raises:
        ValueError: When the guide has no scale.

    References:
        Naesseth, Lindsten, Blei (2020), Markovian Score Climbing: Variational Inference with
        KL(p||q), arXiv 2003.10374.
    """
    guide.scale_posterior()  # refuses a guide without a scale
    start_at: Any = guide.network.start_at
    log_w, mean = weights.clamp(min=SMALLEST_WEIGHT).log(), weights.mean(0)
    total = (mean * (1 - mean)).sum() / weights.var(0).sum().clamp(min=1e-12) - 1
    alpha = (mean * total).clamp(min=SMALLEST_CONCENTRATION)
    shape = torch.full_like(alpha, FIT_SHAPE)
    start_at(shape, shape / alpha)
    logs = scale.log()
    with torch.no_grad():
        guide.scale_loc.copy_(logs.mean())
        guide.scale_log_deviation.copy_(logs.std().clamp(min=1e-6).log())
    with isolated(seed):
        adam = torch.optim.Adam(guide.parameters(), FIT_RATE, betas=(0.9, 0.99))
        fall = torch.optim.lr_scheduler.LinearLR(adam, 1.0, LAST_RATE, FIT_STEPS)
        for _ in range(FIT_STEPS):
            chosen = torch.randint(len(log_w), (FIT_BATCH,))
            q = guide.posterior()
            loss = -log_density(log_w[chosen], q.concentration, q.rate).mean()
            loss = loss - guide.scale_posterior().log_prob(scale[chosen]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            fall.step()


def has_settled(losses: list[float], window: int, tolerance: float) -> bool:
    """Tells whether the mean loss of the last `window` steps is about that of the window before.

    It is when it fell by less than `tolerance`, or by less than twice the standard error of the
    difference. A loss that is not finite has not settled.

    Args:
        losses: So far, at one step size; at least two windows, or it has not settled.
        window: Steps.
        tolerance: In the unit of the losses.
    """
    if len(losses) < 2 * window:
        return False
    recent = torch.tensor(losses[-2 * window :], dtype=torch.float64).reshape(2, window)
    if not recent.isfinite().all():
        return False
    fall = float(recent[0].mean() - recent[1].mean())
    error = math.sqrt(float(recent.var(1).sum()) / window)
    return fall < max(tolerance, 2 * error)


def _step_until_settled(
    svi: SVI, arguments: tuple[Any, ...], config: InferenceConfig, losses: list[float]
) -> bool:
    """Steps at one step size and adds to `losses`; returns whether they have settled."""
    begun = len(losses)
    while len(losses) < config.steps:
        losses.append(svi.step(*arguments))
        terminal.stop_if_asked()
        if not math.isfinite(losses[-1]):
            return False
        here = losses[begun:]
        if len(here) % config.window == 0 and has_settled(here, config.window, config.tolerance):
            return True
    return False


def _check_evidence(linear: Tensor, precision: Tensor) -> None:
    """Raises what `infer` does."""
    if not all(x.isfinite().all() for x in (linear, precision)):
        raise ValueError("Expected finite evidence, found NaN or infinity")
    require_precision(precision, linear)
    if not precision.any():
        raise ValueError("Expected a precision that is not 0")


def _start(guide: MixtureGuide, arguments: tuple[Any, ...], before: Mapping[str, Tensor]) -> None:
    """Sets the guide to the Dirichlet of the least loss where that is better than before."""
    _, linear, _, precision, concentrations = arguments
    start_at: Any = guide.network.start_at
    elbo = HypergradientELBO(num_samples=START_DRAWS)
    loss_before = elbo.loss(mixture_model, guide, *arguments)
    alpha, loc, log_deviation = _dirichlet_fit(linear, precision, concentrations)
    shape = torch.full_like(alpha, 20.0)  # sharp enough that draws stay near the start
    start_at(shape, shape / alpha)
    with torch.no_grad():
        guide.scale_loc.copy_(loc)
        guide.scale_log_deviation.copy_(log_deviation)
    if not elbo.loss(mixture_model, guide, *arguments) < loss_before:
        guide.load_state_dict(before)


def _dirichlet_fit(
    linear: Tensor, precision: Tensor, concentrations: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the Dirichlet's concentrations ``(K,)`` and the scale's two parameters, in float64.

    All is in closed form but for the divergence, for which an upper bound stands:
    ``- log sum_j pi_j exp(-KL(q || p_j))``; plain Adam suffices.

    References:
        Hershey and Olsen (2007), Approximating the Kullback Leibler divergence between Gaussian
        mixture models, ICASSP, equation 20: the bound.
    """
    linear, precision = linear.detach().double(), precision.detach().double()
    log_alpha = torch.zeros_like(linear, requires_grad=True)
    loc, log_deviation = (linear.new_tensor(x, requires_grad=True) for x in (0.0, math.log(0.1)))
    prior = SparseDirichlet.like(linear, concentrations)
    scale_prior = LogNormal(torch.zeros_like(loc), torch.ones_like(loc))
    first, last = DIRICHLET_RATES
    adam = torch.optim.Adam([log_alpha, loc, log_deviation], first)
    decay = torch.optim.lr_scheduler.ExponentialLR(adam, (last / first) ** (1 / DIRICHLET_STEPS))
    for _ in range(DIRICHLET_STEPS):
        q, scale = Dirichlet(log_alpha.exp()), LogNormal(loc, log_deviation.exp())
        # The divergence first: gradients add up in this order, to the last bit.
        each = kl_divergence(q, prior.component_distribution)
        loss = -(prior.mixture_distribution.logits - each).logsumexp(-1)
        loss = loss - expected_evidence(q, linear, precision, scale)
        loss = loss + kl_divergence(scale, scale_prior)
        adam.zero_grad()
        loss.backward()
        adam.step()
        decay.step()
    return log_alpha.detach().exp(), loc.detach(), log_deviation.detach()
