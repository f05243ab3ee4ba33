"""The Gamma-Dirichlet compound: a distribution over mixture weights with learned concentrations."""

from __future__ import annotations

import math

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Tensor
from torch.distributions import Dirichlet, constraints, kl_divergence
from torch.distributions.utils import broadcast_all

__all__ = ["GammaDirichlet"]

NO_SHAPE = torch.Size()

# exp(-NEGLIGIBLE) is below the resolution of float64: where the integrals over log t are cut off.
NEGLIGIBLE = 40.0
# Spacing of the trapezoid nodes in log t. The integrands are analytic for |Im log t| < pi / 2, so
# the error is about exp(-pi^2 / SPACING): 7e-18.
SPACING = 0.25
# The lowest log concentration: `log(u) / concentration` must stay finite in float64.
MINIMAL_LOG_CONCENTRATION = -690.0
SMALLEST_BETA = 1e-3  # in the divergences, which grow as 1 / beta


class GammaDirichlet(TorchDistribution):
    r"""Dirichlet weights whose concentrations are independent Gamma variables.

    .. math::
        \beta_k \sim \mathrm{Gamma}(a_k, b_k), \qquad
        w \mid \beta \sim \mathrm{Dirichlet}(\beta), \qquad k = 1, \dots, K

    with ``a`` the shape (``concentration``) and ``b`` the rate. The support is the simplex,
    ``event_shape = (K,)``. With ``P(t) = prod_j (b_j / (b_j + t)) ** a_j`` the moments are exact
    one-dimensional integrals over ``t > 0``::

        E[w_k]     = int a_k / (b_k + t) P(t) dt
        E[w_k w_l] = int (1 - e^-t) a_k a_l / ((b_k + t)(b_l + t)) P(t) dt              (k != l)
        E[w_k^2]   = int (1 - e^-t) (a_k (a_k + 1) / (b_k + t)^2 + a_k / (b_k + t)) P(t) dt

    evaluated by the trapezoid rule in ``log t``, in float64, and differentiable in ``a`` and ``b``.
    The density is not implemented: everything the search needs goes through the moments, the
    sampler and two stand-ins for the KL divergence, so `log_prob` raises `NotImplementedError`.

    Args:
        concentration: Gamma shapes ``a > 0``, broadcastable to ``batch_shape + (K,)``.
        rate: Gamma rates ``b > 0``, broadcastable to ``batch_shape + (K,)``.
        validate_args: Whether to check the arguments; torch's default when None.

    Raises:
        ValueError: When a parameter has no domain dimension, or fewer than two domains.

    References:
        Yuan et al., Bayesian Domain Reweighting, Eq. "sample" (the compound) and
        Eq. "expectation_w" (`mean_ratio`).
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1),
        "rate": constraints.independent(constraints.positive, 1),
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self, concentration: Tensor, rate: Tensor, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = self.concentration.shape
        if len(shape) < 1 or shape[-1] < 2:
            raise ValueError(
                f"Expected parameters of shape (..., K) with K >= 2, actual {tuple(shape)}"
            )
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(
        self, batch_shape: torch.Size, _instance: GammaDirichlet | None = None
    ) -> GammaDirichlet:
        """Returns the distribution broadcast to `batch_shape`."""
        new = self._get_checked_instance(GammaDirichlet, _instance)
        shape = torch.Size(batch_shape) + self.event_shape
        new.concentration = self.concentration.expand(shape)
        new.rate = self.rate.expand(shape)
        super(GammaDirichlet, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    # --- sampling -------------------------------------------------------------------------------

    def rsample_log(self, sample_shape: torch.Size = NO_SHAPE) -> tuple[Tensor, Tensor]:
        """Draws ``(log w, log beta)``, both ``sample_shape + batch_shape + (K,)``, in float64.

        Sparse posteriors have concentrations far below 1, whose Gamma samples underflow, so both
        levels are drawn in log space. Gradients are pathwise in both parameters.
        """
        shape = self._extended_shape(sample_shape)
        log_a, log_b = self.concentration.double().log(), self.rate.double().log()
        log_beta = _log_gamma_sample(log_a.expand(shape)) - log_b
        log_beta = log_beta.clamp(min=MINIMAL_LOG_CONCENTRATION)
        log_w = _log_gamma_sample(log_beta).log_softmax(-1)
        return log_w, log_beta

    def rsample(self, sample_shape: torch.Size = NO_SHAPE) -> Tensor:
        """Draws weights ``sample_shape + batch_shape + (K,)`` with gradients to both parameters."""
        log_w, _ = self.rsample_log(sample_shape)
        dtype = self.concentration.dtype
        return log_w.exp().to(dtype).clamp(min=torch.finfo(dtype).tiny)

    # --- moments --------------------------------------------------------------------------------

    @property
    def mean(self) -> Tensor:
        """Exact ``E[w]``, shape ``batch_shape + (K,)``."""
        a, b, t, weight = self._nodes()
        return (weight * a / (b + t)).sum(-2).to(self.concentration.dtype)

    @property
    def mean_ratio(self) -> Tensor:
        """The paper's ``(a_k / b_k) / sum_j a_j / b_j``; exact only where all rates are equal."""
        ratio = self.concentration / self.rate
        return ratio / ratio.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        """Exact ``Var[w]``, shape ``batch_shape + (K,)``."""
        a, b, t, weight = self._nodes()
        density = a / (b + t)  # (..., N, K)
        second = (-torch.expm1(-t)) * (density.square() + density / (b + t) + density)
        second_moment = (weight * second).sum(-2)
        mean = (weight * density).sum(-2)
        return (second_moment - mean.square()).clamp(min=0).to(self.concentration.dtype)

    def _nodes(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns ``a (..., 1, K), b (..., 1, K), t (..., N, 1)`` and ``P(t) dt (..., N, 1)``."""
        a = self.concentration.double().unsqueeze(-2)
        b = self.rate.double().unsqueeze(-2)
        with torch.no_grad():
            # Below: sum_k a_k t / b_k is negligible. Above: P(t) <= (b_max / t) ** sum_k a_k is.
            low = -NEGLIGIBLE - (a / b).sum(-1, keepdim=True).log()
            high = b.amax(-1, keepdim=True).log() + NEGLIGIBLE / a.sum(-1, keepdim=True)
            high = torch.maximum(high, low + 2 * NEGLIGIBLE)
            count = math.ceil(float((high - low).max()) / SPACING) + 1
            step = (high - low) / (count - 1)
            log_t = low + step * torch.arange(count, dtype=a.dtype, device=a.device).unsqueeze(-1)
        log_ratio = torch.nn.functional.softplus(log_t - b.log())  # log((b + t) / b), (..., N, K)
        log_p = -(a * log_ratio).sum(-1, keepdim=True)
        # Past exp(700) the factor t cancels in t / (b + t): only a / (b + t) P(t) dt remains.
        t = log_t.clamp(max=700.0).exp()
        return a, b, t, (log_p + log_t.clamp(max=700.0)).exp() * step

    # --- divergence -----------------------------------------------------------------------------

    def kl_at_mean_to_dirichlet(self, alpha: Tensor) -> Tensor:
        """Returns ``KL(Dirichlet(a / b) || Dirichlet(alpha))``, nats, ``batch_shape``.

        The divergence where the concentrations are their means: no draws, no noise, and equal to
        the divergence where the Gammas are points. It is no bound, and it leaves the spread of the
        concentrations free. Means below 1e-3 count as 1e-3.

        Args:
            alpha: Concentrations of the prior, broadcastable to ``batch_shape + (K,)``.
        """
        mean = (self.concentration.double() / self.rate.double()).clamp(min=SMALLEST_BETA)
        prior = Dirichlet(alpha.double().expand_as(mean), validate_args=False)
        divergence = kl_divergence(Dirichlet(mean, validate_args=False), prior)
        return divergence.to(self.concentration.dtype)

    def kl_bound_to_dirichlet(self, alpha: Tensor, num_samples: int = 1) -> Tensor:
        """Estimates an upper bound on ``KL(self || Dirichlet(alpha))``, nats, ``batch_shape``.

        By convexity of the divergence ``KL(q || p) <= E_beta[KL(Dirichlet(beta) || p)]``; the inner
        divergence has a closed form and the mean over `num_samples` pathwise draws of ``beta`` is
        unbiased for the bound. It is smallest when the Gammas are points, so minimising it removes
        the hierarchy. The inner divergence grows as ``1 / beta_k``, whose mean is infinite for
        ``a_k <= 1``: draws below 1e-3 count as 1e-3, which keeps value and gradient finite.

        Args:
            alpha: Concentrations of the prior, broadcastable to ``batch_shape + (K,)``.
            num_samples: Draws of ``beta`` for the estimate, at least 1.

        Raises:
            ValueError: When `num_samples` is not positive.
        """
        if num_samples < 1:
            raise ValueError(f"Expected num_samples >= 1, actual {num_samples}")
        shape = self._extended_shape(torch.Size((num_samples,)))
        log_a, log_b = self.concentration.double().log(), self.rate.double().log()
        log_beta = _log_gamma_sample(log_a.expand(shape)) - log_b
        beta = log_beta.clamp(min=math.log(SMALLEST_BETA)).exp()
        prior = Dirichlet(alpha.double().expand(shape), validate_args=False)
        divergence = kl_divergence(Dirichlet(beta, validate_args=False), prior)
        return divergence.mean(0).to(self.concentration.dtype)


def _log_gamma_sample(log_shape: Tensor) -> Tensor:
    """Draws ``log Gamma(shape, 1)``: log Gamma(a) = log Gamma(a + 1) + log(U) / a, with gradients.

    Stated in the log of the shape, whose gradient stays finite where the shape's own overflows.
    """
    boosted = torch._standard_gamma(log_shape.exp() + 1).log()
    uniform = torch.rand_like(log_shape).clamp(min=torch.finfo(log_shape.dtype).tiny)
    return boosted + uniform.log() * (-log_shape).exp()
