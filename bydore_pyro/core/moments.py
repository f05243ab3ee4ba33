"""The moments of the Gamma-Dirichlet compound: exact one-dimensional integrals.

For ``beta_k ~ Gamma(a_k, b_k)`` and ``w | beta ~ Dirichlet(beta)``, over ``t > 0``::

    E[w_k]     = int a_k / (b_k + t) P(t) dt,        P(t) = prod_j (b_j / (b_j + t)) ** a_j
    E[w_k w_l] = int (1 - e^-t) a_k a_l / ((b_k + t)(b_l + t)) P(t) dt              (k != l)
    E[w_k^2]   = int (1 - e^-t) (a_k (a_k + 1) / (b_k + t)^2 + a_k / (b_k + t)) P(t) dt

All are evaluated by the trapezoid rule in ``log t``, in float64, and differentiable in ``a`` and
``b``. `GammaDirichlet` states the accuracy.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from bydore_pyro.core.density import batch_first

__all__ = ["exact_covariance", "exact_mean", "exact_variance"]

# exp(-NEGLIGIBLE) is below the resolution of float64: where the integrals over log t are cut off.
NEGLIGIBLE = 40.0
# Spacing of the trapezoid nodes in log t. The integrands are analytic for |Im log t| < pi / 2, so
# the error is about exp(-pi^2 / SPACING): 7e-18.
SPACING = 0.25


def exact_mean(concentration: Tensor, rate: Tensor) -> Tensor:
    """Returns ``E[w]`` for shapes and rates ``(..., K)``; ``(..., K)``, in float64."""
    a, b, t, weight = _nodes(concentration, rate)
    return (weight * a / (b + t)).sum(-2)


def exact_variance(concentration: Tensor, rate: Tensor) -> Tensor:
    """Returns ``Var[w]`` for shapes and rates ``(..., K)``; ``(..., K)``, in float64, >= 0."""
    a, b, t, weight = _nodes(concentration, rate)
    density = a / (b + t)  # (..., N, K)
    second = (-torch.expm1(-t)) * (density.square() + density / (b + t) + density)
    second_moment = (weight * second).sum(-2)
    mean = (weight * density).sum(-2)
    return (second_moment - mean.square()).clamp(min=0)


def exact_covariance(concentration: Tensor, rate: Tensor) -> Tensor:
    """Returns ``Cov[w]`` for shapes and rates ``(..., K)``; ``(..., K, K)``, in float64."""
    a, b, t, weight = _nodes(concentration, rate)
    density = a / (b + t)  # (..., N, K)
    mean = (weight * density).sum(-2)
    weight = -torch.expm1(-t) * weight
    second = density.mT @ (weight * density)
    square = (weight * (density.square() + density / (b + t) + density)).sum(-2)
    second = second.diagonal_scatter(square, dim1=-2, dim2=-1)
    return second - mean.unsqueeze(-1) * mean.unsqueeze(-2)


def _nodes(concentration: Tensor, rate: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns ``a (..., 1, K), b (..., 1, K), t (..., N, 1)`` and ``P(t) dt (..., N, 1)``."""
    a = concentration.double().unsqueeze(-2)
    b = rate.double().unsqueeze(-2)
    log_t, step = _LogNodes.apply(a.detach(), b.detach())
    count = log_t.shape[-2]
    log_ratio = torch.nn.functional.softplus(log_t - b.log())  # log((b + t) / b), (..., N, K)
    log_p = -(a * log_ratio).sum(-1, keepdim=True)
    # Past exp(700) the factor t cancels in t / (b + t): only a / (b + t) P(t) dt remains.
    t = log_t.clamp(max=700.0).exp()
    weight = (log_p + log_t.clamp(max=700.0)).exp() * step
    # Where P(t) has not fallen to nothing yet, the integrands fall by exp(-sum a) per unit of
    # log t from here on: the nodes that would follow are a geometric series.
    series = 1 + 1 / torch.expm1((a.sum(-1, keepdim=True) * step).clamp(max=700.0))
    last = torch.arange(count, device=a.device).unsqueeze(-1) == count - 1
    return a, b, t, torch.where(last, weight * series, weight)


class _LogNodes(torch.autograd.Function):
    """The trapezoid nodes ``log t (..., N, 1)`` of the moments and their spacing ``(..., 1, 1)``.

    Of shapes and rates ``(..., 1, K)``, to which they are constants. A function of its own because
    N depends on their values, which `torch.func.vmap` hides everywhere else.
    """

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        # Below: sum_k a_k t / b_k is negligible. Above: P(t) <= (b_max / t) ** sum_k a_k is, or
        # else b_max / t is.
        low = -NEGLIGIBLE - (a / b).sum(-1, keepdim=True).log()
        total = a.sum(-1, keepdim=True)
        high = b.amax(-1, keepdim=True).log() + NEGLIGIBLE / total.clamp(min=1.0)
        high = torch.maximum(high, low + 2 * NEGLIGIBLE)
        width = (high - low).nan_to_num(nan=1.0, posinf=1.0, neginf=1.0)  # NaN in, NaN out
        widest = float(width.max()) if width.numel() else 1.0
        count = math.ceil(widest / SPACING) + 1
        step = (high - low) / (count - 1)
        places = torch.arange(count, dtype=a.dtype, device=a.device).unsqueeze(-1)
        return low + step * places, step

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *parameters: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return _LogNodes.apply(*batch_first(info.batch_size, in_dims, parameters)), (0, 0)
