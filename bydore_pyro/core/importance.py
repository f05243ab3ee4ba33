"""Importance weights of a guide's draws: whether to believe the draws, and their correction."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.infer.importance import vectorized_importance_weights
from pyro.poutine.util import prune_subsample_sites
from torch import Tensor
from torch.distributions import biject_to, constraints

from bydore_pyro.core.inference import isolated
from bydore_pyro.utils import smooth_log_weights

__all__ = ["CorrectedDraws", "GuideFit", "corrected_draws", "guide_fit"]

RELIABLE = 0.7  # k-hat above which importance weights are not to be believed
MOST_DRIFT = 0.1
# Draws that are weighed. With many domains fewer, because the density costs time for every domain
# (2,000 domains: 0.07 s a draw on one core).
MOST_WEIGHED, MOST_FOR_THE_FIT, FEWEST_WEIGHED = 8000, 1000, 200
MOST_NUMBERS = 8000 * 33  # of all these draws: those of 8,000 of 32 domains and a scale
JUMP_EVERY = 10  # moves: one as long as the difference itself, which can go from peak to peak

Sites = dict[str, Tensor]  # values by sample site, ``(num_draws, ...)``


@dataclass(frozen=True)
class GuideFit:
    """How well a guide's draws stand in for draws of the model's posterior.

    Attributes:
        khat: Shape of the importance weights' tail; below 0.7 the guide covers the posterior.
            Infinite where so few draws carry all the weight that there is no tail to fit, 0 where
            all weights are equal: the guide is the posterior.
        effective_draws: Kish's effective sample size of the smoothed weights.
        draws: Draws that were weighed.
    """

    khat: float
    effective_draws: float
    draws: int


def guide_fit(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    *args: Any,
    num_samples: int | None = None,
    max_plate_nesting: int = 0,
    seed: int = 0,
) -> GuideFit:
    """Weighs draws of a guide by the model they approximate: Pareto-smoothed importance sampling.

    Args:
        model: A Pyro model of one posterior.
        guide: Its guide; called, like the model, with `args`.
        num_samples: Draws, at least 100; by default 1,000, fewer with more than 264 domains and 200
            with very many.
        max_plate_nesting: Depth of the model's nested plates.
        seed: Of the draws.

    Raises:
        ValueError: When `num_samples` is below 100: the tail's shape could not be told.

    References:
        Yao et al. (2018), Yes, but Did It Work?: Evaluating Variational Inference, arXiv
        1802.02538; Vehtari et al., Pareto Smoothed Importance Sampling, arXiv 1507.02646.
    """
    if num_samples is not None and num_samples < 100:
        raise ValueError(f"Expected num_samples >= 100, actual {num_samples}")
    if num_samples is None:
        with torch.no_grad(), isolated(seed, keep=True):
            num_samples = _affordable(guide, args, MOST_FOR_THE_FIT)
    with torch.no_grad(), isolated(seed, keep=True):
        log_weights, _, _ = vectorized_importance_weights(
            model, guide, *args, num_samples=num_samples, max_plate_nesting=max_plate_nesting
        )
    return _smoothed(log_weights)[1]


@dataclass(frozen=True)
class CorrectedDraws:
    """Draws of a model's posterior, or of its guide.

    Attributes:
        sites: Draws by sample site, ``(num_draws, ...)``, in an order of no meaning.
        fit: How well the guide's draws stood in for the posterior's, before the correction.
        corrected: Whether these are the posterior's. If not, they are the guide's own; or, with
            moves, on their way from the guide to the posterior.
        acceptance: Share of the moves that were accepted; NaN without moves.
        drift: Largest change of a standard deviation over the second half of the moves, relative,
            in the logs of the weights; up to 0.05 by chance with 4,000 draws. NaN without moves.
    """

    sites: Sites
    fit: GuideFit
    corrected: bool
    acceptance: float = math.nan
    drift: float = math.nan


def corrected_draws(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    *args: Any,
    num_samples: int | None = None,
    num_draws: int = 4000,
    moves: int = 0,
    seed: int = 0,
) -> CorrectedDraws:
    """Draws from a model's posterior by Pareto-smoothed importance sampling from its guide.

    The guide's draws are weighed, the weights smoothed, and `num_draws` of them taken by systematic
    resampling, in random order. With a k-hat of 0.7 or more the weights are not to be believed: the
    guide's own draws are returned.

    Resampling repeats the draws of large weight. `moves` part them again: steps of differential
    evolution that leave the posterior as it is, in log weights for a simplex. They also take the
    draws on to the posterior from where doubtful weights put them, and so correct a guide whose
    k-hat is higher, given enough of them: several hundred for a dozen domains. Then the draws count
    as corrected where their `drift` is below 0.1.

    Args:
        model: A Pyro model of one posterior, without plates, whose sites can be drawn at once.
        guide: Its guide, for all of its sites; called, like the model, with `args`.
        num_samples: Draws of the guide that are weighed, at least 100; by default 8,000, fewer with
            more than 32 domains and 200 with very many.
        num_draws: Draws that are returned.
        moves: Steps of differential evolution for each draw.
        seed: Of all draws.

    Raises:
        ValueError: When `num_samples`, `num_draws` or `moves` is out of range.

    References:
        Vehtari et al., Pareto Smoothed Importance Sampling, arXiv 1507.02646; ter Braak (2006), A
        Markov Chain Monte Carlo version of the genetic algorithm Differential Evolution; halves
        that move in turns as in Foreman-Mackey et al., emcee, arXiv 1202.3665.
    """
    if num_samples is not None and num_samples < 100:
        raise ValueError(f"Expected num_samples >= 100, actual {num_samples}")
    if num_draws < 1:
        raise ValueError(f"Expected num_draws >= 1, actual {num_draws}")
    if moves < 0 or (moves and num_draws < 8):
        raise ValueError(f"Expected moves >= 0 of 8 draws, actual {moves} of {num_draws}")
    with torch.no_grad(), isolated(seed, keep=True):
        if num_samples is None:
            num_samples = _affordable(guide, args, MOST_WEIGHED)
        log_weights, model_trace, guide_trace = vectorized_importance_weights(
            model, guide, *args, num_samples=num_samples, max_plate_nesting=0
        )
        nodes = {name: guide_trace.nodes[name] for name in guide_trace.stochastic_nodes}
        nodes = {name: node for name, node in nodes.items() if name in model_trace.nodes}
        drawn = {name: node["value"].detach() for name, node in nodes.items()}
        smoothed, fit = _smoothed(log_weights)
        reliable = fit.khat < RELIABLE
        if reliable or moves:
            chosen = _systematic(smoothed, num_draws)
        else:
            if num_samples < num_draws:  # to draw costs little beside weighing
                drawn = _drawn(guide, args, num_draws, drawn)
            chosen = torch.randperm(max(num_samples, num_draws))[:num_draws]
        sites = {name: value[chosen.to(value.device)] for name, value in drawn.items()}
        if not moves:
            return CorrectedDraws(sites, fit, reliable)
        supports = {name: node["fn"].support for name, node in nodes.items()}
        sites, acceptance, drift = _moved(model, args, sites, supports, moves)
        return CorrectedDraws(sites, fit, reliable or drift < MOST_DRIFT, acceptance, drift)


def _affordable(guide: Callable[..., Any], args: tuple[Any, ...], most: int) -> int:
    """Returns `most`, or as many draws as have `MOST_NUMBERS` numbers."""
    trace = poutine.trace(guide).get_trace(*args)
    size = sum(trace.nodes[name]["value"].numel() for name in trace.stochastic_nodes)
    return max(FEWEST_WEIGHED, min(most, MOST_NUMBERS // max(1, size)))


def _drawn(
    guide: Callable[..., Any], args: tuple[Any, ...], count: int, names: Collection[str]
) -> Sites:
    """Returns `count` draws of the guide by the sites that are named."""
    with pyro.plate("_draws", count, dim=-1):
        trace = poutine.trace(guide).get_trace(*args)
    return {name: trace.nodes[name]["value"].detach() for name in names}


def _smoothed(log_weights: Tensor) -> tuple[np.ndarray, GuideFit]:
    """Returns log weights, smoothed and summing to 1, and what they say about the guide."""
    values = log_weights.double().cpu().numpy()
    if np.ptp(values) < 1e-9:  # no tail to smooth
        even = np.full(len(values), -math.log(len(values)))
        return even, GuideFit(0.0, float(len(values)), len(values))
    smoothed, khat = smooth_log_weights(values)
    effective = 1 / np.exp(2 * smoothed).sum()  # the smoothed weights sum to 1
    return smoothed, GuideFit(khat, float(effective), len(values))


def _systematic(log_weights: np.ndarray, count: int) -> Tensor:
    """Returns `count` indices, each as often as its weight says to within one, in random order."""
    ends = torch.from_numpy(np.exp(log_weights)).cumsum(0)
    points = (torch.arange(count, dtype=ends.dtype) + torch.rand((), dtype=ends.dtype)) / count
    indices = torch.searchsorted(ends / ends[-1], points).clamp(max=len(ends) - 1)
    return indices[torch.randperm(count)]


def _moved(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    sites: Sites,
    supports: dict[str, Any],
    moves: int,
) -> tuple[Sites, float, float]:
    """Moves draws by differential evolution, each half by differences of the other's draws.

    Returns the draws, the share of the moves that were accepted, and the draws' drift.

    A simplex is moved in the logs of its weights: proposals differ from those in log ratios to any
    one weight by a constant alone, which normalising takes away.
    """
    simplex = type(constraints.simplex)
    transforms = {n: None if isinstance(s, simplex) else biject_to(s) for n, s in supports.items()}

    def unconstrained(name: str) -> Tensor:
        transform, value = transforms[name], sites[name].double()
        return value.log() if transform is None else transform.inv(value)

    def constrained(x: Sites) -> tuple[Sites, Tensor]:
        """Returns the values and the model's log density in the unconstrained space."""
        values: Sites = {}
        volume = torch.zeros(len(next(iter(x.values()))), dtype=torch.float64)
        for name, position in x.items():
            transform = transforms[name]
            if transform is None:
                tiny = torch.finfo(sites[name].dtype).tiny
                values[name], jacobian = position.exp().clamp(min=tiny), position
            else:
                values[name] = transform(position)
                jacobian = transform.log_abs_det_jacobian(position, values[name])
            volume = volume.to(position.device) + jacobian.reshape(len(volume), -1).sum(-1)
        values = {name: value.to(sites[name].dtype) for name, value in values.items()}
        return values, _log_joint(model, args, values) + volume

    x = {name: unconstrained(name) for name in sites}
    count = len(next(iter(x.values())))
    dimensions = sum(v[0].numel() - (transforms[n] is None) for n, v in x.items())
    halves = [torch.arange(count // 2), torch.arange(count // 2, count)]
    values, height = constrained(x)
    simplexes = {name for name, transform in transforms.items() if transform is None}
    accepted, halfway = 0.0, _deviations(x, simplexes)
    for move in range(moves):
        if move == moves // 2:
            halfway = _deviations(x, simplexes)
        long = move % JUMP_EVERY == JUMP_EVERY - 1
        step = 1.0 if long else 2.38 / math.sqrt(2 * dimensions)
        for half, others in (halves, halves[::-1]):
            proposal = _proposal(x, simplexes, half, others, step)
            proposed, proposed_height = constrained(proposal)
            odds = (proposed_height - height[half]).nan_to_num(nan=-math.inf, posinf=-math.inf)
            taken = torch.rand_like(odds).log() < odds
            moving = half[taken.cpu()]
            for name in x:
                x[name][moving] = proposal[name][taken]
                values[name][moving] = proposed[name][taken]
            height[moving] = proposed_height[taken]
            accepted += float(taken.sum())
    drift = float((_deviations(x, simplexes) / halfway - 1).abs().max())
    return values, accepted / (moves * count), drift


def _proposal(x: Sites, simplexes: set[str], half: Tensor, others: Tensor, step: float) -> Sites:
    """Proposes where a half of the draws moves: by `step` differences of two of the others."""
    left = torch.randint(len(others), (len(half),))
    right = (left + torch.randint(1, len(others), (len(half),))) % len(others)
    proposal = {}
    for name, position in x.items():
        difference = position[others[left]] - position[others[right]]
        noise = 1e-4 * torch.randn_like(difference)
        proposal[name] = position[half] + step * difference + noise
        if name in simplexes:
            proposal[name] = proposal[name].log_softmax(-1)
    return proposal


def _deviations(x: Sites, simplexes: set[str]) -> Tensor:
    """Returns standard deviations over the draws, of a simplex those of its centred logs."""
    centred = (v - v.mean(-1, keepdim=True) if n in simplexes else v for n, v in x.items())
    return torch.cat([v.reshape(len(v), -1).std(0).cpu() for v in centred])


def _log_joint(model: Callable[..., Any], args: tuple[Any, ...], values: Sites) -> Tensor:
    """Returns the model's log density at values ``(N, ...)`` of its sites, ``(N,)``, in float64."""
    count = len(next(iter(values.values())))

    def together() -> None:
        with pyro.plate("_draws", count, dim=-1):
            model(*args)

    trace = prune_subsample_sites(poutine.trace(poutine.condition(together, values)).get_trace())
    trace.compute_log_prob()
    parts = [node["log_prob"] for node in trace.nodes.values() if "log_prob" in node]
    return torch.stack([p.double().reshape(count, -1).sum(-1) for p in parts]).sum(0)
