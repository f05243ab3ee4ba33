"""The Pyro guide over mixture weights, and the Pyro model it belongs to."""

from __future__ import annotations

import pyro
import torch
from pyro.distributions import Dirichlet
from pyro.nn import PyroModule
from torch import Tensor, nn

from bydore_pyro.distribution import GammaDirichlet
from bydore_pyro.prior_net import PriorNetwork

__all__ = ["MixtureGuide", "mixture_model"]

WEIGHTS = "weights"  # name of the sample site that model and guide share


def mixture_model(signals: Tensor, g: Tensor, kl_weight: float) -> Tensor:
    """The Pyro model: a uniform prior on the simplex and the linearised validation evidence.

    ``w ~ Dirichlet(1_K)``, factor ``log p(D_val | theta(w)) / T ~ g . w / kl_weight``, where the
    temperature `kl_weight` is the weight of the KL term when the objective is stated per token.

    Args:
        signals: Domain losses ``(K,)``, nats per token; the model takes them only to share the
            guide's signature.
        g: Fall of the validation loss per unit of weight ``(K,)``, nats per token; positive where
            training on a domain helps.
        kl_weight: ``lam > 0``, nats per token.

    Returns:
        The weights ``(K,)``.
    """
    weights = pyro.sample(WEIGHTS, Dirichlet(torch.ones_like(g)))
    pyro.factor("validation", (g * weights).sum(-1) / kl_weight)
    return weights


class MixtureGuide(PyroModule):
    """The amortised variational posterior ``q(w | s) = GammaDirichlet(a(s), b(s))``.

    A guide for any Pyro model with a sample site on the simplex. It is called with the model's
    arguments, of which the network sees the first. For a batch of simplexes, ``(N, K)``, call it
    inside the model's plate::

        def amortised(counts):
            with pyro.plate("documents", len(counts)):
                return guide(counts)

    Its parameters stand in Pyro's store under the site's name. A second guide for a site of the
    same name finds the first one's there: clear the store (`pyro.clear_param_store()`) or scope it.

    Args:
        network: Maps what the guide is called with, ``(..., K)``, to Gamma shape and rate, each
            ``(..., K)`` and positive; a `PriorNetwork`, a `FreeConcentrations`, or any module of
            that signature.
        name: The sample site.

    References:
        Yuan et al., Bayesian Domain Reweighting, Eq. "sample".
    """

    def __init__(self, network: nn.Module, name: str = WEIGHTS) -> None:
        super().__init__(name)
        self.network = network
        self.site = name

    @classmethod
    def for_domains(cls, num_domains: int) -> MixtureGuide:
        """Builds a guide for `num_domains` domains with a default `PriorNetwork`."""
        return cls(PriorNetwork(num_domains))

    def posterior(self, signals: Tensor) -> GammaDirichlet:
        """Returns ``q(w | s)`` for signals ``(..., K)``."""
        return GammaDirichlet(*self.network(signals))

    def forward(self, signals: Tensor, *_: object, **__: object) -> Tensor:
        """Samples the weights ``(..., K)``; further arguments of the model are ignored."""
        return pyro.sample(self.site, self.posterior(signals))
