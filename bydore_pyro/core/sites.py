"""The sample sites that guide and model share: the weights and, where they use it, a scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro.poutine as poutine
from pyro.distributions import Unit
from torch.distributions import Distribution, constraints

from bydore_pyro.core.guide import SCALE

__all__ = ["paired_sites"]

Program = Callable[..., Any]  # a model or a guide
Pair = tuple[Distribution, Distribution]  # the guide's distribution of a site, and the model's


def paired_sites(
    model: Program, guide: Program, *args: Any, **kwargs: Any
) -> tuple[Pair, Pair | None]:
    """Runs the guide, then the model on its sample; returns the weights' pair and the scale's.

    Args:
        model: Has the sites of the guide, under the same names.
        guide: Has one site on the simplex, the weights, or tells their name by its `site`. Its site
            "scale", where it has one, is the scale.
        args: What both are called with, as `kwargs`.

    Returns:
        The guide's distribution of the weights and the model's; the same of the scale, None where
        neither has one.

    Raises:
        ValueError: When there is not one simplex, the scale is in one of both alone, or the model
            has observed data, which the ELBO would pass over.
    """
    guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
    replayed = poutine.replay(model, trace=guide_trace)
    model_trace = poutine.trace(replayed).get_trace(*args, **kwargs)

    def pair(site: str) -> Pair:
        return guide_trace.nodes[site]["fn"], model_trace.nodes[site]["fn"]

    scaled = SCALE in guide_trace.nodes
    if scaled != (SCALE in model_trace.nodes):
        raise ValueError(
            f"Expected a scale in model and guide or in neither, "
            f"actual in the {'guide' if scaled else 'model'} alone"
        )
    observed = model_trace.observation_nodes
    if data := [n for n in observed if not isinstance(model_trace.nodes[n]["fn"], Unit)]:
        raise ValueError(
            f"Expected a model whose evidence is a pyro.factor, actual observed site {data[0]!r}; "
            "pyro.infer.Trace_ELBO takes such models"
        )
    return pair(_simplex_site(guide, guide_trace)), pair(SCALE) if scaled else None


def _simplex_site(guide: Program, trace: poutine.Trace) -> str:
    """Returns the name of the guide's site of the weights: its own `site`, or its one simplex."""
    named = getattr(guide, "site", None)
    if isinstance(named, str) and named in trace.nodes:
        return named
    simplex = type(constraints.simplex)
    sites = [n for n in trace.stochastic_nodes if isinstance(trace.nodes[n]["fn"].support, simplex)]
    if len(sites) != 1:
        raise ValueError(f"Expected one sample site on the simplex, actual {sites}")
    return sites[0]
