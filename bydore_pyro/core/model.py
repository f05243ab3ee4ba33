"""The model: a prior on the simplex and the evidence; and the sites that it shares with a guide.

The evidence is Gaussian in ``u = s w`` with the precision ``Lambda``, or linear where that is 0. So
the moments of a posterior give its expectation and the exact gradient, without a sample's noise::

    E[h . u - 1/2 u' Lambda u] = E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma))

``mu`` and ``Sigma`` are the mean and the covariance of the weights ``w``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.distributions import Dirichlet, LogNormal, Unit
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.utils.weak import WeakIdKeyDictionary

from bydore_pyro.core.sparse import CONCENTRATIONS, SparseDirichlet

__all__ = ["expected_evidence", "mixture_model", "paired_sites", "require_precision"]

WEIGHTS, SCALE = "weights", "scale"  # names of the sample sites that model and guide share
EVIDENCE = "validation"  # name of the factor, for which the ELBO has the exact expectation

ROUNDING = 1e-6  # of a precision, as a share of its largest eigenvalue
_CHECKED: Any = WeakIdKeyDictionary()  # precisions that were looked at: their versions

Program = Callable[..., Any]  # a model or a guide
Pair = tuple[Distribution, Distribution]  # the guide's distribution of a site, and the model's


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
        ValueError: When `linear` has fewer than two domains, or not the guide's number; when
            `precision` is not ``(K, K)``, symmetric and positive semi-definite.
    """
    if linear.shape[-1:] < (2,):
        raise ValueError(f"Expected linear (K,) with K >= 2, actual {tuple(linear.shape)}")
    prior = Dirichlet(torch.ones_like(linear))
    if precision is not None:
        prior = SparseDirichlet.like(linear, concentrations)
    weights = pyro.sample(WEIGHTS, prior)
    if weights.shape[-1:] != linear.shape[-1:]:  # the guide's
        expected = tuple(weights.shape[-1:])
        raise ValueError(f"Expected linear {expected}, actual {tuple(linear.shape)}")
    if precision is None:
        pyro.factor(EVIDENCE, (linear * weights).sum(-1) / kl_weight)
        return weights
    require_precision(precision, linear)
    scale = pyro.sample(SCALE, LogNormal(linear.new_zeros(()), linear.new_ones(())))
    u = scale.unsqueeze(-1) * weights  # (..., K)
    evidence = (linear * u).sum(-1) - ((u @ precision) * u).sum(-1) / 2
    pyro.factor(EVIDENCE, evidence / kl_weight)
    return weights


def require_precision(precision: Tensor, linear: Tensor) -> None:
    """Refuses a precision that is none; one tensor is looked at once.

    Args:
        precision: Expected ``(K, K)``.
        linear: ``(..., K)``.

    Raises:
        ValueError: When it is not ``(K, K)``, symmetric and positive semi-definite, up to rounding.
    """
    expected = 2 * tuple(linear.shape[-1:])
    if precision.shape != expected:
        raise ValueError(f"Expected precision {expected}, actual {tuple(precision.shape)}")
    # A version counts changes in place. What torch.jit traces has no value to look at.
    if _CHECKED.get(precision) == precision._version or torch.jit.is_tracing():
        return
    with torch.no_grad():
        values = torch.linalg.eigvalsh(precision.double())
        asymmetry = (precision - precision.mT).abs().max()
    if not (max(-values[0], asymmetry) <= ROUNDING * values[-1].abs()):
        raise ValueError(
            "Expected a precision that is symmetric and positive semi-definite, actual "
            f"eigenvalues from {values[0]:g} to {values[-1]:g}, asymmetry {asymmetry:g}"
        )
    _CHECKED[precision] = precision._version


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


def paired_sites(
    model: Program, guide: Program, *args: Any, **kwargs: Any
) -> tuple[Pair, Pair | None]:
    """Runs the guide, then the model on its sample; returns the weights' pair and the scale's.

    Args:
        model: Has the sites of the guide, under the same names.
        guide: Has one site on the simplex, the weights, or names it by its `site`. Its site
            "scale", where it has one, is the scale.
        args: What both are called with, as `kwargs`.

    Returns:
        The guide's distribution of the weights and the model's; the same of the scale, None where
        neither has one.

    Raises:
        ValueError: When there is not one simplex, or the model lacks a site of both or has others,
            which the ELBO would pass over: latent ones, data, factors.
    """
    guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
    replayed = poutine.replay(model, trace=guide_trace)
    model_trace = poutine.trace(replayed).get_trace(*args, **kwargs)

    def pair(site: str) -> Pair:
        return guide_trace.nodes[site]["fn"], model_trace.nodes[site]["fn"]

    expected = [_simplex_site(guide, guide_trace), *([SCALE] if SCALE in guide_trace.nodes else [])]
    latent = _latent_sites(model_trace)
    if sorted(latent) != sorted(expected):
        scale = " (MixtureGuide's scale=True goes with a precision)"
        advice = scale if SCALE in {*latent} ^ {*expected} else ""
        raise ValueError(
            f"Expected a model with the latent sites {expected}, actual {latent}{advice}"
        )
    for name in model_trace.observation_nodes:
        if name != EVIDENCE or not isinstance(model_trace.nodes[name]["fn"], Unit):
            raise ValueError(
                f"Expected a model whose evidence is the pyro.factor {EVIDENCE!r}, "
                f"actual site {name!r}; pyro.infer.Trace_ELBO takes such models"
            )
    return pair(expected[0]), pair(SCALE) if SCALE in expected else None


def _latent_sites(trace: poutine.Trace) -> list[str]:
    """Returns the names of the sample sites that are neither observed nor a plate."""
    return [n for n in trace.stochastic_nodes if not site_is_subsample(trace.nodes[n])]


def _simplex_site(guide: Program, trace: poutine.Trace) -> str:
    """Returns the name of the guide's site of the weights: its own `site`, or its one simplex."""
    named = getattr(guide, "site", None)
    if isinstance(named, str) and named in trace.nodes:
        return named
    simplex = type(constraints.simplex)
    sites = [n for n in _latent_sites(trace) if isinstance(trace.nodes[n]["fn"].support, simplex)]
    if len(sites) != 1:
        raise ValueError(f"Expected one sample site on the simplex, actual {sites}")
    return sites[0]
