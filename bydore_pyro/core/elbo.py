"""The custom ELBO: the expectation of the validation evidence is exact, not sampled.

First order, where the hypergradient ``g`` replaces the gradient of the validation evidence::

    loss(Phi) = - g . mu + lam KL(q_w || p_w)                                  (nats per token)

Second order, a Gaussian evidence in ``u = s w`` with the precision ``Lambda``::

    loss(Phi) = - (E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma)))
                + lam (KL(q_w || p_w) + KL(q_s || p_s))                         (unit of h: nats)

where ``Lambda = A B^-1 A`` and ``h = A B^-1 c`` come from the inner products ``A`` of the domains'
gradients, those with the target's gradient ``c``, and their noise ``B``, all measured by
`bydore_pyro.core.matching`.

``mu`` and ``Sigma`` are the exact mean and covariance of ``q_w``. With ``Lambda = 0`` and ``s = 1``
the second loss equals the first. For a `GammaDirichlet` guide the KL of the weights is estimated
with the exact density. The language model provides the evidence, which is a constant here. So the
posterior's moments give its exact gradient, without the noise of a sample.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.infer import ELBO
from torch import Tensor
from torch.distributions import Dirichlet, Distribution, kl_divergence

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.model import (
    Pair,
    Program,
    expected_evidence,
    paired_sites,
    require_precision,
)
from bydore_pyro.core.sparse import SparseDirichlet

__all__ = ["HypergradientELBO"]

SMALLEST_BETA = 1e-3  # the divergence grows as 1 / beta


class HypergradientELBO(ELBO):
    r"""Loss ``- E_q[evidence] + lam KL(q || p)`` for a model and guide over mixture weights.

    Model and guide are called with ``(signals, linear, kl_weight, precision, ...)``, the last ones
    as far as given. They share one sample site on the simplex, of any name; where both have a site
    "scale", it scales the weights within the evidence. The model gives the priors alone: its factor
    "validation" and `poutine.scale` are not evaluated. The evidence, in the unit of `linear` and
    the higher the better, is ``g . w``, or ``h . u - 1/2 u' Lambda u`` with a `precision`. With
    `mixture_model` and a KL in closed form, the loss is `lam` times the mean of `Trace_ELBO`'s.

    With ``g`` alone, measured again at the guide's mean, the mean is the answer; the spread does
    not know how curved the outer loss is. A `precision` makes the spread the posterior's.

    Args:
        num_samples: Draws for the divergence of a `GammaDirichlet` guide (`GammaDirichlet.estimate_kl`,
            with drawn concentrations of at least 1e-3, so that it is finite for every shape).

    Raises:
        ValueError: When `num_samples` is below 1. What the loss refuses is described by
            `differentiable_loss`.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.4: the first order.
    """

    def __init__(self, num_samples: int = 16) -> None:
        super().__init__()
        if num_samples < 1:
            raise ValueError(f"Expected num_samples >= 1, actual {num_samples}")
        self.num_samples = num_samples

    def differentiable_loss(
        self,
        model: Program,
        guide: Program,
        signals: Tensor | None = None,
        linear: Tensor | None = None,
        kl_weight: float = 1.0,
        precision: Tensor | None = None,
        *more: object,
    ) -> Tensor:
        """Returns the loss, a scalar in the unit of `linear`, minimised; evidence is a constant.

        Raises:
            ValueError: When `linear` is missing, not finite or not of the weights' shape; when
                `kl_weight` is not positive; of a precision that `mixture_model` refuses; of a guide
                without one simplex, or without a covariance in closed form though there is a
                precision; of a model whose prior of the weights is no `SparseDirichlet` and no
                Dirichlet, with a `GammaDirichlet` guide; of a model with other latent sites,
                observed data or factors; of a guide and a model of which one alone has a scale.
        """
        if not isinstance(linear, Tensor) or not bool(linear.isfinite().all()):
            raise ValueError(
                "Expected svi.step(signals, linear, ...) with the log-evidence of the weights, a "
                "finite tensor linear (K,), > 0 where a weight lowers the outer loss, actual "
                f"linear {linear!r}"
            )
        if shape := tuple(getattr(kl_weight, "shape", ())):
            raise ValueError(
                f"Expected a number kl_weight, before any precision, actual a tensor {shape}"
            )
        if not 0 < kl_weight < math.inf:
            raise ValueError(f"Expected kl_weight > 0, finite, actual {kl_weight}")
        arguments = (signals, linear, kl_weight, *(() if precision is None else (precision, *more)))
        weights, scale = self._get_trace(model, guide, arguments, {})
        one, all_of_them = weights[0].event_shape, weights[0].batch_shape + weights[0].event_shape
        if linear.shape not in (one, all_of_them):
            expected = tuple(all_of_them)
            raise ValueError(f"Expected linear {expected}, actual {tuple(linear.shape)}")
        if precision is not None:
            require_precision(precision, linear)
        evidence = expected_evidence(weights[0], linear.detach(), precision, scale and scale[0])
        divergence = self._divergence(*weights)
        if scale is not None:
            divergence = divergence + kl_divergence(*scale).sum()
        return -evidence.sum() + kl_weight * divergence

    def loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Returns the loss, in the unit of `linear`, minimised (`SVI.evaluate_loss`)."""
        with torch.no_grad():
            return self.differentiable_loss(model, guide, *args, **kwargs).item()

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Returns the loss, in the unit of `linear`, minimised; adds its gradients (`SVI.step`)."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        loss.backward()
        return loss.item()

    def _divergence(self, q: Distribution, p: Distribution) -> Tensor:
        if isinstance(q, GammaDirichlet):
            if not isinstance(p, Dirichlet | SparseDirichlet):
                raise ValueError(f"Expected a Dirichlet prior, actual {type(p).__name__}")
            return q.estimate_kl(p, self.num_samples, SMALLEST_BETA).sum()
        if isinstance(p, SparseDirichlet):
            drawn = q.rsample(torch.Size((self.num_samples,)))
            return (q.log_prob(drawn) - p.log_prob(drawn)).mean(0).sum()
        return kl_divergence(q, p).sum()

    def _get_trace(
        self, model: Program, guide: Program, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Pair, Pair | None]:
        """Pyro's hook; this objective needs the pairs of the sites alone, not the traces."""
        return paired_sites(model, guide, *args, **kwargs)
