"""A guide's posterior, its prior and its predictions for ArviZ, in one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from pyro import poutine
from pyro.infer import Predictive
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from bydore_pyro.core.importance import corrected_draws
from bydore_pyro.core.inference import isolated
from bydore_pyro.core.model import QuadraticFactor
from bydore_pyro.errors import require

if TYPE_CHECKING:
    import arviz

__all__ = ["to_inference_data"]

Program = Callable[..., Any]  # a model or a guide


def to_inference_data(
    model: Program,
    guide: Program,
    *args: Any,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    num_draws: int = 1000,
    seed: int = 0,
) -> arviz.InferenceData:
    """Returns what a guide and its model say, as ArviZ reads it.

    The groups are `posterior` (draws of the guide; in a model without plates they are corrected by
    importance weights, where these are reliable), `prior`, `posterior_predictive` and
    `observed_data` (of observed sites), and `constant_data` (the tensors among `args`, by the names
    that the model gives them). The attributes of `posterior` are `corrected` (0 or 1), and in a
    model without plates `khat`, `effective_draws` and `width` of `GuideFit`. No group
    `log_likelihood` is made: leave-one-out needs independent observations, and a quadratic evidence
    is one.

    Args:
        model: A Pyro model.
        guide: Its guide, for all of its latent sites.
        args: What both are called with.
        coords: Labels by dimension, as ArviZ takes them: ``{"part": ["web", "code"]}``.
        dims: Dimensions by site, likewise: ``{"shares": ["part"]}``.
        num_draws: Of each group, at least 1.
        seed: Of all draws. The caller's random numbers and Pyro's store are left alone.

    Raises:
        DataError: When ArviZ is not installed.
        ValueError: When `num_draws` is below 1; what `corrected_draws` refuses.
    """
    library = require("arviz", "cli")
    if num_draws < 1:
        raise ValueError(f"Expected num_draws >= 1, actual {num_draws}")
    with torch.no_grad(), isolated(seed, keep=True):
        trace = poutine.trace(model).get_trace(*args)
        plates = any(site_is_subsample(site) for site in trace.nodes.values())
        latent = [n for n in trace.stochastic_nodes if not site_is_subsample(trace.nodes[n])]
        observed = [
            name
            for name in trace.observation_nodes
            if not isinstance(trace.nodes[name]["fn"], QuadraticFactor)
            and trace.nodes[name]["value"].numel()
        ]
        attributes: dict[str, float] = {"corrected": 0}
        if plates:
            drawn = Predictive(guide, num_samples=num_draws, return_sites=latent)(*args)
        else:
            found = corrected_draws(model, guide, *args, num_draws=num_draws, seed=seed)
            drawn, fit = found.sites, found.fit
            attributes = {"corrected": int(found.corrected), "width": fit.width or 1.0}
            attributes |= {"khat": fit.khat, "effective_draws": fit.effective_draws}
        prior = Predictive(model, num_samples=num_draws, return_sites=latent)(*args)
        predicted = {}
        if observed:
            free = poutine.uncondition(model)
            predicted = Predictive(free, posterior_samples=drawn, return_sites=observed)(*args)
    given = inspect.signature(model).bind(*args).arguments
    constant = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    data = library.from_dict(
        posterior=_with_chain(drawn),
        prior=_with_chain(prior),
        posterior_predictive=_with_chain(predicted) if observed else None,
        observed_data={name: _array(trace.nodes[name]["value"]) for name in observed} or None,
        constant_data={name: _array(value) for name, value in constant.items()} or None,
        coords={name: list(labels) for name, labels in (coords or {}).items()},
        dims={name: list(own) for name, own in (dims or {}).items()},
        posterior_attrs=attributes,
    )
    found_data: arviz.InferenceData = data
    return found_data


def _with_chain(sites: Mapping[str, Tensor]) -> dict[str, Any]:
    """Returns arrays ``(1, D, ...)`` by site."""
    return {name: _array(value)[None] for name, value in sites.items()}


def _array(value: Tensor) -> Any:
    return value.detach().cpu().numpy()
