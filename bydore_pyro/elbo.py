"""The custom ELBO: a hypergradient stands in for the gradient of the validation evidence.

    loss(Phi) = - sum_k g_k E_q[w_k] + lam KL(q || p)                          (nats per token)

For a `GammaDirichlet` guide the KL is estimated with the exact density, or by an upper bound.
`g` comes from the language model and is a constant here, so the mean of the posterior gives the
exact gradient of the first term, without the noise of a sample of `w`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pyro.poutine as poutine
import torch
from pyro.infer import ELBO
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

from bydore_pyro.distribution import GammaDirichlet
from bydore_pyro.guide import WEIGHTS

__all__ = ["HypergradientELBO"]

Program = Callable[..., Any]  # a model or a guide
SMALLEST_BETA = 1e-3  # both divergences grow as 1 / beta


class HypergradientELBO(ELBO):
    r"""Loss ``-(g . E_q[w]) + lam KL(q || p)`` for a model and guide over mixture weights.

    For a guide whose KL has a closed form it is the expectation of the loss of
    `pyro.infer.Trace_ELBO` for `bydore_pyro.guide.mixture_model`, times `lam`. Model and guide are
    called with ``(signals, g, kl_weight)``; both have one sample site, "weights".

    Args:
        moment: ``"exact"`` for the exact ``E_q[w]``, ``"ratio"`` for the paper's approximation.
        kl: The divergence of a `GammaDirichlet` guide: ``"exact"`` for
            `GammaDirichlet.kl_to_dirichlet`, ``"bound"`` for
            `GammaDirichlet.kl_bound_to_dirichlet`, both with drawn concentrations of at least 1e-3,
            so that they are finite for every shape. Other guides have their own closed form, and no
            use for `moment`, `kl` and `num_samples`.
        num_samples: Draws for either.

    Raises:
        ValueError: When `moment`, `kl` or `num_samples` is unknown or out of range; when the loss
            is asked for with a `kl_weight` that is not positive.

    References:
        Yuan et al., Bayesian Domain Reweighting, Eq. "phi_update_iter".
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
        self, model: Program, guide: Program, signals: Tensor, g: Tensor, kl_weight: float
    ) -> Tensor:
        """Returns the loss, a scalar in nats per token, minimised; `g` is taken as a constant."""
        if not kl_weight > 0:
            raise ValueError(f"Expected kl_weight > 0, actual {kl_weight}")
        q, p = self._get_trace(model, guide, (signals, g, kl_weight), {})
        mean = q.mean_ratio if self.moment == "ratio" and hasattr(q, "mean_ratio") else q.mean
        return -(g.detach() * mean).sum() + kl_weight * self._divergence(q, p)

    def loss(self, model: Program, guide: Program, *args: Any) -> float:
        """Returns the loss as a float, without gradients (`SVI.evaluate_loss`)."""
        with torch.no_grad():
            return self.differentiable_loss(model, guide, *args).item()

    def loss_and_grads(self, model: Program, guide: Program, *args: Any) -> float:
        """Returns the loss as a float and adds its gradients to the parameters (`SVI.step`)."""
        loss = self.differentiable_loss(model, guide, *args)
        loss.backward()
        return loss.item()

    def _divergence(self, q: torch.distributions.Distribution, p: Dirichlet) -> Tensor:
        if not isinstance(q, GammaDirichlet):
            return kl_divergence(q, p).sum()
        estimate = q.kl_to_dirichlet if self.kl == "exact" else q.kl_bound_to_dirichlet
        return estimate(p.concentration, self.num_samples, SMALLEST_BETA).sum()

    def _get_trace(
        self,
        model: Program,
        guide: Program,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[torch.distributions.Distribution, Dirichlet]:
        """Runs the guide, then the model on its sample; returns the weights' two distributions."""
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        replayed = poutine.replay(model, trace=guide_trace)
        model_trace = poutine.trace(replayed).get_trace(*args, **kwargs)
        return guide_trace.nodes[WEIGHTS]["fn"], model_trace.nodes[WEIGHTS]["fn"]
