"""What a model and its guide say, as ArviZ reads it, in one call.

ArviZ 0.23 reads an `InferenceData`, ArviZ 1 an xarray `DataTree`. Both have the same groups, and
are made here, and nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pyro import poutine
from pyro.infer import Predictive
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from bydore_pyro.core.importance import corrected_draws
from bydore_pyro.core.isolation import isolated
from bydore_pyro.core.model import QuadraticFactor
from bydore_pyro.errors import require

if TYPE_CHECKING:
    import arviz
    import xarray

__all__ = ["as_inference_data", "to_inference_data"]

Program = Callable[..., Any]  # a model or a guide
Sites = dict[str, Tensor]  # draws by sample site
Shapes = dict[str, torch.Size]  # of one draw, by sample site


def to_inference_data(
    model: Program,
    posterior: Program | Mapping[str, Tensor],
    *args: Any,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    num_draws: int = 1000,
    seed: int = 0,
) -> arviz.InferenceData | xarray.DataTree:
    """Returns what a model and its posterior say, as ArviZ reads it.

    The groups are:

    - `posterior`: draws of the latent sites. Those of a guide are corrected by importance weights
      where the model has no plates and the weights are reliable.
    - `prior`: draws of the same sites.
    - `posterior_predictive`, `prior_predictive` and `observed_data`: of the observed sites.
    - `constant_data`: the tensors and numbers among `args`, by the model's names for them, such as
      the evidence of `mixture_model`.

    The attributes of `posterior` are `corrected` (0 or 1) and, of a guide without plates, `khat`,
    `effective_draws` and `width` of `GuideFit`. There is no group `log_likelihood`, because
    leave-one-out needs many independent observations, and a quadratic evidence is one.

    Args:
        model: A Pyro model.
        posterior: A guide of all its latent sites, or draws by site ``(chains, draws, ...)``, such
            as `MCMC.get_samples(group_by_chain=True)`.
        args: What the model, and the guide, are called with.
        coords: Labels by dimension: ``{"part": ["web", "code"]}``.
        dims: Names of the last dimensions by site or argument: ``{"shares": ["part"]}``. A plate
            gives its own dimension its name.
        num_draws: Draws of a guide, and of the prior; at least 1.
        seed: Of all draws. The caller's random numbers and Pyro's store are left alone.

    Raises:
        DataError: When ArviZ is not installed.
        ValueError: When `num_draws` is below 1; when the posterior lacks a site of the model; when
            the model takes a subsample of a plate; what `corrected_draws` refuses.
    """
    if num_draws < 1:
        raise ValueError(f"Expected num_draws >= 1, actual {num_draws}")
    with torch.no_grad(), isolated(seed, keep=True):
        trace = poutine.trace(model).get_trace(*args)
        _require_whole_plates(trace)
        latent, observed = _shapes(trace, _latent(trace)), _shapes(trace, _observed(trace))
        at_once = False  # whether all draws can be of one run, as those that are weighed are
        if isinstance(posterior, Mapping):
            drawn, attributes = _checked(posterior, latent), {"corrected": 0.0}
        elif any(site_is_subsample(site) for site in trace.nodes.values()):
            found = Predictive(posterior, num_samples=num_draws)(*args)
            drawn, attributes = _shaped(found, latent, (1, num_draws)), {"corrected": 0.0}
        else:
            at_once = True
            drawn, attributes = _corrected(model, posterior, args, num_draws, seed)
        if missing := [name for name in latent if name not in drawn]:
            raise ValueError(f"Expected a posterior of all latent sites, actual none of {missing}")
        free, both = poutine.uncondition(model), {**latent, **observed}
        how: dict[str, Any] = {"return_sites": [*both], "parallel": at_once}
        found = Predictive(free, num_samples=num_draws, **how)(*args)
        prior, predicted = _shaped(found, both, (1, num_draws)), {}
        if observed:
            chains = next(iter(drawn.values())).shape[:2]
            flat = {name: value.flatten(0, 1) for name, value in drawn.items()}
            predicted = _shaped(Predictive(free, flat, **how)(*args), observed, chains)
    constant = _numbers(inspect.signature(model).bind(*args).arguments)
    groups = {
        "posterior": drawn,
        "prior": {name: prior[name] for name in latent},
        "posterior_predictive": predicted,
        "prior_predictive": {name: prior[name] for name in observed},
        "observed_data": {name: trace.nodes[name]["value"] for name in observed},
        "constant_data": constant,
    }
    shapes = {name: value.shape for name, value in constant.items()} | both
    named = {n: _dimensions(n, shape, trace, dims or {}) for n, shape in shapes.items()}
    return as_inference_data(groups, coords=coords, dims=named, attributes=attributes)


def as_inference_data(
    groups: Mapping[str, Mapping[str, Any]],
    *,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    attributes: Mapping[str, float] | None = None,
) -> arviz.InferenceData | xarray.DataTree:
    """Returns groups of values as the installed ArviZ reads them; empty groups are left out.

    Args:
        groups: Values by group and variable: ``(chains, draws, ...)``, in groups of data ``(...)``.
        coords: Labels by dimension.
        dims: Names of all dimensions but chain and draw, by variable.
        attributes: Of the group `posterior`.

    Raises:
        DataError: When ArviZ is not installed.
    """
    library = require("arviz", "cli")
    arrays = {
        group: {name: _array(value) for name, value in values.items()}
        for group, values in groups.items()
        if values
    }
    named = {
        "coords": {name: list(labels) for name, labels in (coords or {}).items()},
        "dims": {name: list(own) for name, own in (dims or {}).items()},
    }
    if library.__version__.startswith("0."):
        data = library.from_dict(**arrays, **named, posterior_attrs=dict(attributes or {}))
    else:
        data = library.from_dict(arrays, **named, attrs={"posterior": dict(attributes or {})})
    found: arviz.InferenceData | xarray.DataTree = data
    return found


def _latent(trace: poutine.Trace) -> list[str]:
    return [n for n in trace.stochastic_nodes if not site_is_subsample(trace.nodes[n])]


def _observed(trace: poutine.Trace) -> list[str]:
    """Returns the sites of data: a factor is none."""
    return [
        name
        for name in trace.observation_nodes
        if not isinstance(trace.nodes[name]["fn"], QuadraticFactor)
        and trace.nodes[name]["value"].numel()
        and not trace.nodes[name]["infer"].get("_deterministic")
    ]


def _shapes(trace: poutine.Trace, names: list[str]) -> Shapes:
    return {name: trace.nodes[name]["value"].shape for name in names}


def _checked(draws: Mapping[str, Tensor], latent: Shapes) -> Sites:
    """Returns draws ``(chains, draws, ...)`` of the latent sites; others have another shape."""
    drawn = {name: draws[name] for name in latent if name in draws}
    for name, value in drawn.items():
        if value.shape[2:] != latent[name]:
            expected = ", ".join(map(str, ("chains", "draws", *latent[name])))
            raise ValueError(
                f"Expected draws of {name!r} of shape ({expected}), actual {tuple(value.shape)}"
            )
    return drawn


def _shaped(found: Sites, shapes: Shapes, draws: Sequence[int]) -> Sites:
    """Returns what `Predictive` found, without the dimensions that it adds for plates."""
    return {n: found[n].reshape(*draws, *shape) for n, shape in shapes.items() if n in found}


def _corrected(
    model: Program, guide: Program, args: tuple[Any, ...], num_draws: int, seed: int
) -> tuple[Sites, dict[str, float]]:
    """Returns draws of a guide ``(1, D, ...)``, corrected where they can be, and attributes."""
    found = corrected_draws(model, guide, *args, num_draws=num_draws, seed=seed)
    attributes = {"corrected": float(found.corrected), "khat": found.fit.khat}
    attributes["effective_draws"] = found.fit.effective_draws
    if found.fit.width is not None:
        attributes["width"] = found.fit.width
    return {name: value[None] for name, value in found.sites.items()}, attributes


def _require_whole_plates(trace: poutine.Trace) -> None:
    """Refuses a subsample, which is another one in every draw."""
    for site in trace.nodes.values():
        for frame in site.get("cond_indep_stack", ()):
            if frame.size != frame.full_size:
                raise ValueError(
                    f"Expected a model of the whole plate {frame.name!r}, actual a subsample of "
                    f"{frame.size} of {frame.full_size}"
                )


def _dimensions(
    name: str, shape: Sequence[int], trace: poutine.Trace, dims: Mapping[str, Sequence[str]]
) -> list[str]:
    """Returns the names of a value's dimensions: the last by `dims`, those of plates by these.

    Raises:
        ValueError: When `dims` has more.
    """
    named = [f"{name}_dim_{place}" for place in range(len(shape))]
    site = trace.nodes.get(name, {})
    for frame in site.get("cond_indep_stack", ()):
        place = len(shape) - site["fn"].event_dim + frame.dim if frame.vectorized else -1
        if place >= 0:
            named[place] = frame.name
    last = dims.get(name, ())
    if len(last) > len(named):
        raise ValueError(f"Expected {len(named)} dims of {name!r} at most, actual {list(last)}")
    return [*named[: len(named) - len(last)], *last]


def _numbers(arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the arguments that are tensors, arrays or numbers."""
    arrays = {
        n: _array(x)
        for n, x in arguments.items()
        if isinstance(x, Tensor | np.ndarray | float | int)
    }
    return {name: array for name, array in arrays.items() if array.dtype.kind in "biuf"}


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
