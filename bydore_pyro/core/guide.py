"""The Pyro guide over mixture weights, and the sample sites that it shares with a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.poutine as poutine
import torch
from pyro.distributions import LogNormal, Unit
from pyro.nn import PyroModule
from torch import Tensor, nn
from torch.distributions import Distribution, constraints

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.model import SCALE, WEIGHTS
from bydore_pyro.core.prior_net import PriorNetwork

__all__ = ["MixtureGuide", "paired_sites"]

INITIAL_DEVIATION = 0.1  # of the log of the scale, before a guide's first step

Program = Callable[..., Any]  # a model or a guide
Pair = tuple[Distribution, Distribution]  # the guide's distribution of a site, and the model's


class MixtureGuide(PyroModule):
    """The amortised variational posterior ``q(w | s) = GammaDirichlet(a(s), b(s))``.

    A guide for any Pyro model with a sample site on the simplex. It is called with the model's
    arguments, of which the network sees the first. For a batch of simplexes, ``(N, K)``, call it
    inside the model's plate::

        def amortised(counts):
            with pyro.plate("documents", len(counts)):
                return guide(counts)

    Its parameters stand in Pyro's store under the site's name. There the guide that is called
    replaces what another guide of the same name has left, so that each trains its own: a notebook's
    cell can be run twice. To go on from stored parameters load the guide's `state_dict`.

    Args:
        network: Maps what the guide is called with, ``(..., K)``, to Gamma shape and rate, each
            ``(..., K)`` and positive; a `PriorNetwork`, a `FreeConcentrations`, or any module of
            that signature.
        name: The sample site.
        scale: Whether it samples the site "scale" too, as evidence with a precision needs it:
            ``LogNormal(scale_loc, exp(scale_log_deviation))``, independent of the weights. Both
            parameters are free, whatever the signals; they start at 0 and log 0.1, in the dtype and
            on the device of the network.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3.
    """

    def __init__(self, network: nn.Module, name: str = WEIGHTS, *, scale: bool = False) -> None:
        super().__init__(name)
        self.network = network
        self.site = name
        self.has_scale = scale
        if scale:
            like = next(network.parameters(), torch.zeros(()))
            self.scale_loc = nn.Parameter(like.detach().new_zeros(()))
            start = like.detach().new_tensor(math.log(INITIAL_DEVIATION))
            self.scale_log_deviation = nn.Parameter(start)

    @classmethod
    def for_domains(cls, num_domains: int, *, scale: bool = False) -> MixtureGuide:
        """Builds a guide for `num_domains` domains with a default `PriorNetwork`."""
        return cls(PriorNetwork(num_domains), scale=scale)

    def posterior(self, signals: Tensor) -> GammaDirichlet:
        """Returns ``q(w | s)`` for signals ``(..., K)``."""
        return GammaDirichlet(*self.network(signals))

    def scale_posterior(self) -> LogNormal:
        """Returns the posterior of the scale.

        Raises:
            ValueError: When the guide has no scale.
        """
        if not self.has_scale:
            raise ValueError("Expected a guide with scale=True, actual scale=False")
        return LogNormal(self.scale_loc, self.scale_log_deviation.exp())

    def forward(self, signals: Tensor, *_: object, **__: object) -> Tensor:
        """Samples the weights ``(..., K)``; further arguments of the model are ignored."""
        self._own_parameters()
        weights = pyro.sample(self.site, self.posterior(signals))
        if self.has_scale:
            pyro.sample(SCALE, self.scale_posterior())
        return weights

    def _own_parameters(self) -> None:
        """Takes parameters of another guide out of Pyro's store, where this one's names are theirs.

        `pyro.param` gives back what it has under a name: SVI would train the other guide's.
        """
        own = {f"{self._pyro_name}.{name}": value for name, value in self.named_parameters()}
        store = pyro.get_param_store()
        for name, stored in list(store.named_parameters()):
            # Pyro's names of the parameters of a module that is not its own have "$$$" in them.
            if own.get(name.replace("$$$", "."), stored) is not stored:
                del store[name]


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
