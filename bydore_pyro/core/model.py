"""The model: a prior that does not know how sparse the weights are, and the evidence.

The evidence is Gaussian in ``u = s w`` with the precision ``Lambda``, or linear where that is 0. So
the moments of a posterior give its expectation and the exact gradient, without a sample's noise::

    E[h . u - 1/2 u' Lambda u] = E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma))

``mu`` and ``Sigma`` are the mean and the covariance of the weights ``w``.
"""

from __future__ import annotations

from typing import Any

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, LogNormal, MixtureSameFamily
from torch import Tensor
from torch.distributions import Distribution, constraints

__all__ = ["CONCENTRATIONS", "UNCOVERED", "SparseDirichlet", "expected_evidence", "mixture_model"]

WEIGHTS, SCALE = "weights", "scale"  # names of the sample sites that model and guide share
CONCENTRATIONS = (0.1, 0.2, 0.4, 0.8, 1.6)
UNCOVERED = CONCENTRATIONS[2:]  # of a target that is not made of the domains


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
        """Returns the log density at ``log w (..., K)``, nats, float64, however small ``w`` is."""
        alpha: Any = self.component_distribution.concentration.double()  # (J, K)
        norm = torch.lgamma(alpha.sum(-1)) - torch.lgamma(alpha).sum(-1)
        share = self.mixture_distribution.logits.double()
        return (share + norm + log_weights @ (alpha - 1).T).logsumexp(-1)


def mixture_model(
    signals: Tensor,
    linear: Tensor,
    kl_weight: float = 1.0,
    precision: Tensor | None = None,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
) -> Tensor:
    """The Pyro model: a prior on the simplex and the evidence of the validation set.

    First order, without `precision`, as in the paper::

        w ~ Dirichlet(1_K),    factor  g . w / lam  ~  log p(D_val | theta(w)) / T

    Second order, a Gaussian evidence in ``u = s w`` whose scale ``s`` is free: by how much of a
    mixture of the domains the validation set is explained, 1 where it is one. Its prior is weak,
    and that of the weights does not know how sparse these are::

        w ~ SparseDirichlet,    s ~ LogNormal(0, 1),
        factor  (h . s w - 1/2 (s w)' Lambda (s w)) / lam

    It runs under Pyro's own inference too: SVI, NUTS, importance sampling, `Predictive`.

    Args:
        signals: Domain losses ``(K,)``, nats per token; the model takes them only to share the
            guide's signature.
        linear: The evidence's first order ``(K,)``, positive where a domain helps: ``g``, the fall
            of the validation loss per unit of weight, nats per token; or ``h``, nats, with a
            `precision`.
        kl_weight: The temperature ``lam > 0``, in the unit of `linear`: the weight of the KL term
            when the objective is stated in that unit. 1 for an evidence in nats.
        precision: ``Lambda (K, K)``, symmetric and positive semi-definite, in the unit of `linear`.
        concentrations: Of the prior beside a `precision`; see `SparseDirichlet`.

    Returns:
        The weights ``(K,)``, at the sample site "weights"; the scale, where there is one, is at the
        site "scale".

    Raises:
        ValueError: When `precision` is not ``(K, K)``.
    """
    prior = Dirichlet(torch.ones_like(linear))
    if precision is not None:
        prior = SparseDirichlet.like(linear, concentrations)
    weights = pyro.sample(WEIGHTS, prior)
    if precision is None:
        pyro.factor("validation", (linear * weights).sum(-1) / kl_weight)
        return weights
    if precision.shape != 2 * linear.shape[-1:]:
        expected = 2 * tuple(linear.shape[-1:])
        raise ValueError(f"Expected precision {expected}, actual {tuple(precision.shape)}")
    scale = pyro.sample(SCALE, LogNormal(linear.new_zeros(()), linear.new_ones(())))
    u = scale.unsqueeze(-1) * weights  # (..., K)
    evidence = (linear * u).sum(-1) - ((u @ precision) * u).sum(-1) / 2
    pyro.factor("validation", evidence / kl_weight)
    return weights


def expected_evidence(
    weights: Distribution,
    linear: Tensor,
    precision: Tensor | None = None,
    scale: Distribution | None = None,
) -> Tensor:
    """Returns ``E[h . u - 1/2 u' Lambda u]``, ``u = s w``, ``batch_shape``; higher is better.

    Its unit is that of `linear`. It is exact.

    Args:
        weights: Distribution of ``w``: with a `precision`, a Dirichlet or one that has its
            `covariance_matrix`.
        linear: ``h (K,)``.
        precision: ``Lambda (K, K)``, symmetric; 0 when None.
        scale: Distribution of ``s``, independent of ``w``, with a mean and a variance; 1 when None.

    Raises:
        ValueError: When there is a precision, but no covariance in closed form.
    """
    mean = weights.mean
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
    if isinstance(q, torch.distributions.Dirichlet):
        mean = q.mean
        outer = mean.unsqueeze(-1) * mean.unsqueeze(-2)
        total = q.concentration.sum(-1)[..., None, None]
        return (torch.diag_embed(mean) - outer) / (total + 1)
    if not hasattr(q, "covariance_matrix"):
        raise ValueError(f"Expected a guide with covariance_matrix, actual {type(q).__name__}")
    return q.covariance_matrix
