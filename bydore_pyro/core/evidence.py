"""The expectation of the validation evidence under a posterior of the weights, in closed form.

The evidence is Gaussian in ``u = s w`` with the precision ``Lambda``, or linear where it is 0. So
the moments of the posterior give its expectation and the exact gradient, without a sample's noise::

    E[h . u - 1/2 u' Lambda u] = E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma))

``mu`` and ``Sigma`` are the mean and the covariance of the weights ``w``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Dirichlet, Distribution

__all__ = ["expected_evidence"]


def expected_evidence(
    weights: Distribution,
    linear: Tensor,
    precision: Tensor | None = None,
    scale: Distribution | None = None,
    mean: Tensor | None = None,
) -> Tensor:
    """Returns ``E[h . u - 1/2 u' Lambda u]``, ``u = s w``, ``batch_shape``; higher is better.

    Its unit is that of `linear`. It is exact.

    Args:
        weights: Distribution of ``w``: with a `precision`, a Dirichlet or one that has its
            `covariance_matrix`.
        linear: ``h (K,)``.
        precision: ``Lambda (K, K)``, symmetric; 0 when None.
        scale: Distribution of ``s``, independent of ``w``, with a mean and a variance; 1 when None.
        mean: What to take for ``E[w] (K,)``; the exact one when None.

    Raises:
        ValueError: When there is a precision, but no covariance in closed form.
    """
    mean = weights.mean if mean is None else mean
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
