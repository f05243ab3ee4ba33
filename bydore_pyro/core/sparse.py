"""A prior of mixture weights that does not know how many domains have a share."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import Categorical, Dirichlet, MixtureSameFamily
from torch import Tensor
from torch.distributions import constraints

__all__ = ["CONCENTRATIONS", "WITHOUT_SPARSEST", "SparseDirichlet"]

CONCENTRATIONS = (0.1, 0.2, 0.4, 0.8, 1.6)
WITHOUT_SPARSEST = CONCENTRATIONS[2:]  # of a target that is not made of the domains


class SparseDirichlet(MixtureSameFamily):
    """A mixture of symmetric Dirichlets of several concentrations, equally likely ones::

        alpha ~ Uniform{0.1, 0.2, 0.4, 0.8, 1.6},    w | alpha ~ Dirichlet(alpha, ..., alpha)

    Under ``Dirichlet(1)`` every domain has a share: a posterior of many domains then gives some
    weight to each that the evidence does not exclude. This prior lets the evidence say how many
    domains have one. With a concentration that is a variable of its own, variational inference
    collapses onto the faces of the simplex; from 0.1 upwards the mixture does not.

    It is Pyro's `MixtureSameFamily`, with the simplex as its support, which `biject_to` and so NUTS
    know.
    """

    support = constraints.simplex

    @classmethod
    def like(
        cls, weights: Tensor, concentrations: tuple[float, ...] = CONCENTRATIONS
    ) -> SparseDirichlet:
        """Returns the prior of weights ``(..., K)``, of their dtype and device, no batch shape."""
        alpha = weights.new_tensor(concentrations)[:, None].expand(-1, weights.shape[-1])
        return cls(Categorical(torch.ones_like(alpha[:, 0])), Dirichlet(alpha))

    def log_prob_of_log(self, log_weights: Tensor) -> Tensor:
        """Returns the log density at ``log w``, nats, float64, however small ``w`` is.

        Args:
            log_weights: Logs of weights, ``sample_shape + batch_shape + (K,)``.

        Returns:
            ``sample_shape + batch_shape``.
        """
        alpha: Any = self.component_distribution.concentration.double()  # batch_shape + (J, K)
        norm = torch.lgamma(alpha.sum(-1)) - torch.lgamma(alpha).sum(-1)  # batch_shape + (J,)
        share = self.mixture_distribution.logits.double()
        powers = (log_weights.unsqueeze(-2) @ (alpha - 1).mT).squeeze(-2)  # (..., J)
        return (share + norm + powers).logsumexp(-1)
