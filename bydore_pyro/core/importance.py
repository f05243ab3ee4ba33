"""Importance weights of a guide's draws: whether to believe the draws, and their correction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.infer.importance import vectorized_importance_weights
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from bydore_pyro import files
from bydore_pyro.core.isolation import isolated
from bydore_pyro.errors import require

__all__ = ["CorrectedDraws", "GuideFit", "corrected_draws", "guide_fit"]

RELIABLE = 0.7  # k-hat above which importance weights are not to be believed
TOO_WIDE = 1.1  # width of a guide above which it has not converged
# Draws that are weighed. With many domains fewer, because the density costs time for every domain
# (2,000 domains: 0.07 s a draw on one core).
MOST_WEIGHED, MOST_FOR_THE_FIT, FEWEST_WEIGHED = 8000, 1000, 200
MOST_NUMBERS = 8000 * 33  # of all these draws: those of 8,000 of 32 domains and a scale

Sites = dict[str, Tensor]  # values by sample site, ``(num_draws, ...)``
Program = Callable[..., Any]  # a model or a guide


@dataclass(frozen=True)
class GuideFit:
    """How well a guide's draws stand in for draws of the model's posterior.

    Attributes:
        khat: Shape of the importance weights' tail; below 0.7 the guide covers the posterior.
            Infinite where so few draws carry all the weight that there is no tail to fit, 0 where
            all weights are equal: the guide is the posterior.
        effective_draws: Kish's effective sample size of the smoothed weights.
        draws: Draws that were weighed.
        width: Standard deviation of the guide's draws over that of the weighed ones, the geometric
            mean over all sites' components; 1 where the guide is the posterior, None of a record
            without it. Above `TOO_WIDE` the guide has not converged, which a k-hat cannot see.
    """

    khat: files.Number
    effective_draws: files.Number
    draws: int
    width: files.Number | None = None

    @property
    def warning(self) -> str:
        """What is wrong with the guide, in words; "" where nothing is."""
        if self.khat >= RELIABLE:
            return f"The guide misses a part of the posterior: k-hat {self.khat:.2f}"
        if self.width is not None and self.width > TOO_WIDE:
            return f"The guide is too wide: {self.width:.2f} times the posterior's deviation"
        return ""


@dataclass(frozen=True)
class CorrectedDraws:
    """Draws of a model's posterior, or of its guide."""

    sites: Sites  # in an order of no meaning
    fit: GuideFit  # before the correction
    corrected: bool  # whether these are the posterior's; if not, they are the guide's own


def guide_fit(
    model: Program, guide: Program, *args: Any, num_samples: int | None = None, seed: int = 0
) -> GuideFit:
    """Weighs draws of a guide by the model they approximate: Pareto-smoothed importance sampling.

    Args:
        model: A Pyro model of one posterior, without plates, whose sites can be drawn at once.
        guide: Its guide; called, like the model, with `args`.
        num_samples: Draws, at least 100; by default 1,000, fewer with more than 264 domains and 200
            with very many.
        seed: Of the draws.

    Raises:
        ValueError: When `num_samples` is below 100 (the tail's shape would be unknown), or there
            is a plate, or a latent site that the other lacks.

    References:
        Yao et al. (2018), Yes, but Did It Work?: Evaluating Variational Inference, arXiv
        1802.02538; Vehtari et al., Pareto Smoothed Importance Sampling, arXiv 1507.02646.
    """
    with torch.no_grad(), isolated(seed, keep=True):
        return _weighed(model, guide, args, num_samples, MOST_FOR_THE_FIT)[2]


def corrected_draws(
    model: Program,
    guide: Program,
    *args: Any,
    num_samples: int | None = None,
    num_draws: int = 4000,
    seed: int = 0,
) -> CorrectedDraws:
    """Draws from a model's posterior by Pareto-smoothed importance sampling from its guide.

    The guide's draws are weighed, the weights smoothed, and `num_draws` of them drawn by their
    weights. With a k-hat of 0.7 or more the weights are not to be believed: the guide's own draws
    are returned.

    Args:
        model: As for `guide_fit`.
        guide: Its guide, for all of its sites.
        num_samples: Draws of the guide that are weighed, at least 100; by default 8,000, fewer with
            more than 32 domains and 200 with very many.
        num_draws: Draws that are returned.
        seed: Of all draws.

    Raises:
        ValueError: When `num_samples` or `num_draws` is out of range; what `guide_fit` refuses.

    References:
        Vehtari et al., Pareto Smoothed Importance Sampling, arXiv 1507.02646.
    """
    if num_draws < 1:
        raise ValueError(f"Expected num_draws >= 1, actual {num_draws}")
    with torch.no_grad(), isolated(seed, keep=True):
        drawn, smoothed, fit = _weighed(model, guide, args, num_samples, MOST_WEIGHED)
        reliable = fit.khat < RELIABLE
        if reliable:
            weights = torch.from_numpy(np.exp(smoothed))
            chosen = torch.multinomial(weights, num_draws, replacement=True)
            sites = {name: value[chosen.to(value.device)] for name, value in drawn.items()}
        else:
            with pyro.plate("_draws", num_draws, dim=-1):
                trace = poutine.trace(guide).get_trace(*args)
            sites = {name: trace.nodes[name]["value"].detach() for name in drawn}
    return CorrectedDraws(sites, fit, reliable)


def _weighed(
    model: Program, guide: Program, args: tuple[Any, ...], count: int | None, most: int
) -> tuple[Sites, np.ndarray, GuideFit]:
    """Returns draws of a guide, their smoothed log weights that sum to 1, and what these say.

    There are `count` draws, or `most`, or as many as have `MOST_NUMBERS` numbers.
    """
    require("arviz", "cli")  # only who weighs draws waits for it, or needs it
    if count is not None and count < 100:
        raise ValueError(f"Expected num_samples >= 100, actual {count}")
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        traces = [poutine.trace(program).get_trace(*args) for program in (guide, model)]
    nodes = traces[0].nodes | traces[1].nodes
    latent = [[n for n in t.stochastic_nodes if not site_is_subsample(t.nodes[n])] for t in traces]
    if plates := [n for n, node in nodes.items() if site_is_subsample(node)]:
        raise ValueError(
            f"Expected a model and a guide without plates, actual plates {plates}: give the model "
            "of one member, or weigh all with pyro.infer.importance.vectorized_importance_weights"
        )
    if sorted(latent[0]) != sorted(latent[1]):
        raise ValueError(f"Expected a model with the guide's sites {latent[0]}, actual {latent[1]}")
    if count is None:
        trace = poutine.trace(guide).get_trace(*args)
        size = sum(trace.nodes[name]["value"].numel() for name in trace.stochastic_nodes)
        count = max(FEWEST_WEIGHED, min(most, MOST_NUMBERS // max(1, size)))
    log_weights, model_trace, guide_trace = vectorized_importance_weights(
        model, guide, *args, num_samples=count, max_plate_nesting=0
    )
    names = [name for name in guide_trace.stochastic_nodes if name in model_trace.nodes]
    drawn = {name: guide_trace.nodes[name]["value"].detach() for name in names}
    values = log_weights.double().cpu().numpy()
    if np.ptp(values) < 1e-9:  # no tail to smooth
        return drawn, np.full(count, -math.log(count)), GuideFit(0.0, float(count), count, 1.0)
    with np.errstate(over="ignore"):  # of a tail whose shape is in the hundreds
        smoothed, khat = _pareto_smoothed(values)
    effective = float(1 / np.exp(2 * smoothed).sum())
    return drawn, smoothed, GuideFit(khat, effective, count, _width(drawn, smoothed))


def _pareto_smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns smoothed log weights ``(N,)`` that sum to 1, and k-hat, by the installed ArviZ."""
    library = require("arviz", "cli")
    if library.__version__.startswith("0."):
        smoothed, khat = library.psislw(log_weights)
    else:  # it takes log likelihoods, whose inverses are the weights; NaN stands for no tail
        stats = require("arviz_stats.base", "cli").array_stats
        smoothed, khat = stats.psislw(-log_weights)
    return smoothed, math.inf if np.isnan(khat) else float(khat)


def _width(drawn: Sites, smoothed: np.ndarray) -> float:
    """Returns `GuideFit.width` of draws with log weights ``(N,)`` of sum 1."""
    values = np.concatenate(
        [x.double().cpu().numpy().reshape(len(x), -1) for x in drawn.values()], 1
    )
    weights = np.exp(smoothed)[:, None]
    weighed = (weights * (values - (weights * values).sum(0)) ** 2).sum(0)
    # A sum of squares about a weighed mean is too small by a share of the effective draws.
    weighed = weighed / max(1 - float((weights**2).sum()), 1e-12)
    some = (values.var(0) > 0) & (weighed > 0)
    logs = np.log(values[:, some].var(0) / weighed[some]) / 2
    return float(np.exp(logs.mean())) if some.any() else 1.0
