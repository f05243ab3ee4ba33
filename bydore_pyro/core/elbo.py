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
with the exact density, or by an upper bound. The language model provides the evidence, which is a
constant here. So the posterior's moments give its exact gradient, without the noise of a sample.

`bydore_pyro.core.model` computes the expectation.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pyro.infer import ELBO
from torch import Tensor
from torch.distributions import Dirichlet, Distribution, kl_divergence

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.guide import Pair, Program, paired_sites
from bydore_pyro.core.model import SparseDirichlet, expected_evidence

__all__ = ["HypergradientELBO"]

SMALLEST_BETA = 1e-3  # both divergences grow as 1 / beta


class HypergradientELBO(ELBO):
    r"""Loss ``- E_q[evidence] + lam KL(q || p)`` for a model and guide over mixture weights.

    For a guide whose KL has a closed form it is the expectation of the loss of
    `pyro.infer.Trace_ELBO` for `bydore_pyro.core.mixture_model`, times `lam`. Model and guide are
    called with ``(signals, linear, kl_weight, precision, ...)``, the last ones as far as given.
    They share one sample site on the simplex, of any name; where both have a site "scale", it
    scales the weights within the evidence.

    Args:
        moment: ``"exact"`` for the exact ``E_q[w]``, ``"ratio"`` for the paper's approximation,
            which is for evidence of the first order.
        kl: The divergence of a `GammaDirichlet` guide: ``"exact"`` for
            `GammaDirichlet.kl_to_dirichlet`, ``"bound"`` for
            `GammaDirichlet.kl_bound_to_dirichlet`, both with drawn concentrations of at least 1e-3,
            so that they are finite for every shape. Other guides have their own closed form, and no
            use for `moment` and `kl`.
        num_samples: Draws for either.

    Raises:
        ValueError: When `moment`, `kl` or `num_samples` is unknown or out of range. What the loss
            refuses is told by `differentiable_loss`.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.4: the first order.
    """

    def __init__(
        self,
        moment: Literal["exact", "ratio"] = "exact",
        kl: Literal["exact", "bound"] = "exact",
        num_samples: int = 16,
    ) -> None:
        super().__init__()
        if moment not in ("exact", "ratio"):
            raise ValueError(f"Expected moment 'exact' or 'ratio', actual {moment!r}")
        if kl not in ("exact", "bound"):
            raise ValueError(f"Expected kl 'exact' or 'bound', actual {kl!r}")
        if num_samples < 1:
            raise ValueError(f"Expected num_samples >= 1, actual {num_samples}")
        self.moment = moment
        self.kl = kl
        self.num_samples = num_samples

    def differentiable_loss(
        self,
        model: Program,
        guide: Program,
        signals: Tensor,
        linear: Tensor,
        kl_weight: float = 1.0,
        precision: Tensor | None = None,
        *more: object,
    ) -> Tensor:
        """Returns the loss, a scalar in the unit of `linear`, minimised; evidence is a constant.

        Raises:
            ValueError: When `kl_weight` is not positive; with the moment "ratio" and a precision;
                of a guide without one simplex, or without a covariance in closed form though there
                is a precision; of a model whose prior of the weights is no `SparseDirichlet` and no
                Dirichlet, with a `GammaDirichlet` guide; of a model with observed data; of a guide
                and a model of which one alone has a scale.
        """
        if not kl_weight > 0:
            raise ValueError(f"Expected kl_weight > 0, actual {kl_weight}")
        if self.moment == "ratio" and precision is not None:
            raise ValueError("Expected moment 'exact' with a precision, actual 'ratio'")
        arguments = (signals, linear, kl_weight, *(() if precision is None else (precision, *more)))
        weights, scale = self._get_trace(model, guide, arguments, {})
        q, linear = weights[0], linear.detach()
        mean = q.mean_ratio if self.moment == "ratio" and hasattr(q, "mean_ratio") else None
        evidence = expected_evidence(q, linear, precision, scale and scale[0], mean)
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
        if isinstance(p, SparseDirichlet):
            if isinstance(q, GammaDirichlet) and self.kl == "exact":
                return q.kl_to_sparse_dirichlet(p, self.num_samples, SMALLEST_BETA).sum()
            drawn = q.rsample(torch.Size((self.num_samples,)))
            return (q.log_prob(drawn) - p.log_prob(drawn)).mean(0).sum()
        if not isinstance(q, GammaDirichlet):
            return kl_divergence(q, p).sum()
        if not isinstance(p, Dirichlet):
            raise ValueError(f"Expected a Dirichlet prior, actual {type(p).__name__}")
        estimate = q.kl_to_dirichlet if self.kl == "exact" else q.kl_bound_to_dirichlet
        return estimate(p.concentration, self.num_samples, SMALLEST_BETA).sum()

    def _get_trace(
        self, model: Program, guide: Program, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Pair, Pair | None]:
        """Pyro's hook; this objective needs the pairs of the sites alone, not the traces."""
        return paired_sites(model, guide, *args, **kwargs)
