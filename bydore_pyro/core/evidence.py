"""The expectation of the validation evidence under a posterior of the weights, in closed form.

The evidence is Gaussian in ``u = s w`` with the precision ``Lambda``, or linear where it is 0. So
the moments of the posterior give its expectation and the exact gradient, without a sample's noise::

    E[h . u - 1/2 u' Lambda u] = E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma))

``mu`` and ``Sigma`` are the mean and the covariance of the weights ``w``.

Where text is read again the evidence is one in effective shares, ``u = v(w)``. Its expectation is
exact for ``v`` made linear at ``mu``. Draws of ``w`` carry the rest, which is 0 for every draw that
reads no text again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Dirichlet, Distribution

__all__ = ["expected_evidence"]

Effective = Callable[[Tensor], Tensor]  # weights to effective shares, each by its own weight alone


def expected_evidence(
    weights: Distribution,
    linear: Tensor,
    precision: Tensor | None = None,
    scale: Distribution | None = None,
    effective: Effective | None = None,
    num_samples: int = 16,
    mean: Tensor | None = None,
) -> Tensor:
    """Returns ``E[h . u - 1/2 u' Lambda u]``, ``u = s w``, ``batch_shape``; higher is better.

    Its unit is that of `linear`. It is exact; with `effective`, ``u = v(w)``, up to draws of what
    ``v`` is not linear in.

    Args:
        weights: Distribution of ``w``: with a `precision`, a Dirichlet or one that has its
            `covariance_matrix`; with `effective`, with pathwise draws.
        linear: ``h (K,)``.
        precision: ``Lambda (K, K)``, symmetric; 0 when None.
        scale: Distribution of ``s``, independent of ``w``, with a mean and a variance; 1 when None.
        effective: ``v``, each share a smooth function of its own weight alone.
        num_samples: Draws with `effective`.
        mean: What to take for ``E[w] (K,)``, without `effective`; the exact one when None.

    Raises:
        ValueError: When there is a precision, but no covariance in closed form; when a scale stands
            beside `effective`.
    """
    if effective is None:
        mean = weights.mean if mean is None else mean
        return _expectation(mean, weights, scale, linear, precision)
    if scale is not None:
        raise ValueError("Expected no scale with effective shares, found one")
    return _effective_expectation(weights, linear, precision, effective, num_samples)


def _expectation(
    mean: Tensor,
    weights: Distribution,
    scale: Distribution | None,
    linear: Tensor,
    precision: Tensor | None,
) -> Tensor:
    evidence = (linear * mean).sum(-1)
    if scale is not None:
        evidence = scale.mean * evidence
    if precision is None:
        return evidence
    precision = precision.detach()
    square = ((mean @ precision) * mean).sum(-1) + (precision * _covariance(weights)).sum((-2, -1))
    if scale is not None:
        square = (scale.variance + scale.mean.square()) * square
    return evidence - square / 2


def _effective_expectation(
    weights: Distribution,
    linear: Tensor,
    precision: Tensor | None,
    effective: Effective,
    num_samples: int,
) -> Tensor:
    """``E[evidence(v(w))]``: exact for ``v`` made linear at the mean; draws carry what is left."""
    precision = torch.zeros_like(linear).diag_embed() if precision is None else precision.detach()

    def evidence(shares: Tensor) -> Tensor:
        return (linear * shares).sum(-1) - ((shares @ precision) * shares).sum(-1) / 2

    mean = weights.mean
    with torch.enable_grad():
        at = mean.detach().requires_grad_()
        shares = effective(at)
        (slope,) = torch.autograd.grad(shares.sum(), at)
    rest = shares.detach() - slope * mean.detach()  # v is about slope w + rest; there w itself
    spread = slope.unsqueeze(-1) * slope.unsqueeze(-2) * precision * _covariance(weights)
    exact = evidence(slope * mean + rest) - spread.sum((-2, -1)) / 2
    drawn = weights.rsample(torch.Size((num_samples,)))
    return exact + (evidence(effective(drawn)) - evidence(slope * drawn + rest)).mean(0)


def _covariance(q: Distribution) -> Tensor:
    """Returns ``Cov[w]``, ``(..., K, K)``."""
    if isinstance(q, Dirichlet):
        mean = q.mean
        outer = mean.unsqueeze(-1) * mean.unsqueeze(-2)
        total = q.concentration.sum(-1)[..., None, None]
        return (torch.diag_embed(mean) - outer) / (total + 1)
    if not hasattr(q, "covariance_matrix"):
        raise ValueError(f"Expected a guide with covariance_matrix, actual {type(q).__name__}")
    return q.covariance_matrix
