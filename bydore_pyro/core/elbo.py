"""The custom ELBO: the expectation of the validation evidence is exact, not sampled.

First order, where the hypergradient ``g`` replaces the gradient of the validation evidence::

    loss(Phi) = - g . mu + lam KL(q_w || p_w)                                  (nats per token)

Second order, a Gaussian evidence in ``u = s w`` with the precision ``Lambda``::

    loss(Phi) = - (E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma)))
                + lam (KL(q_w || p_w) + KL(q_s || p_s))                         (unit of h: nats)

``mu`` and ``Sigma`` are the exact mean and covariance of ``q_w``. With ``Lambda = 0`` and ``s = 1``
the second loss equals the first. For a `GammaDirichlet` guide the KL of the weights is estimated
with the exact density, or by an upper bound. The language model provides the evidence, which is a
constant here. So the posterior's moments give its exact gradient, without the noise of a sample.

Where text is read again the evidence is one in effective shares, ``u = v(w)``. Its expectation is
exact for ``v`` made linear at ``mu``. Draws of ``w`` carry the rest, which is 0 for every draw that
reads no text again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pyro.poutine as poutine
import torch
from pyro.infer import ELBO
from torch import Tensor
from torch.distributions import Dirichlet, Distribution, constraints, kl_divergence

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.guide import SCALE

__all__ = ["HypergradientELBO", "expected_evidence"]

Program = Callable[..., Any]  # a model or a guide
Effective = Callable[[Tensor], Tensor]  # weights to effective shares, each by its own weight alone
Pair = tuple[Distribution, Distribution]  # the guide's distribution of a site, and the model's
SMALLEST_BETA = 1e-3  # both divergences grow as 1 / beta


def expected_evidence(
    weights: Distribution,
    linear: Tensor,
    precision: Tensor | None = None,
    scale: Distribution | None = None,
    effective: Effective | None = None,
    num_samples: int = 16,
) -> Tensor:
    """Returns ``E[h . u - 1/2 u' Lambda u]``, ``u = s w``; ``batch_shape``, unit of `linear`.

    It is exact; with `effective`, ``u = v(w)``, it is so up to draws of what ``v`` is not linear
    in.

    Args:
        weights: Distribution of ``w``: with a `precision`, a Dirichlet or one that has its
            `covariance_matrix`; with `effective`, with pathwise draws.
        linear: ``h (K,)``.
        precision: ``Lambda (K, K)``, symmetric; 0 when None.
        scale: Distribution of ``s``, independent of ``w``, with a mean and a variance; 1 when None.
        effective: ``v``, each share a smooth function of its own weight alone.
        num_samples: Draws with `effective`.

    Raises:
        ValueError: When there is a precision, but no covariance in closed form; when a scale stands
            beside `effective`.
    """
    if effective is None:
        return _expectation(weights.mean, weights, scale, linear, precision)
    if scale is not None:
        raise ValueError("Expected no scale with effective shares, found one")
    return _effective_expectation(weights, linear, precision, effective, num_samples)


class HypergradientELBO(ELBO):
    r"""Loss ``- E_q[evidence] + lam KL(q || p)`` for a model and guide over mixture weights.

    For a guide whose KL has a closed form it is the expectation of the loss of
    `pyro.infer.Trace_ELBO` for `bydore_pyro.core.mixture_model`, times `lam`. Model and guide are
    called with ``(signals, linear, kl_weight, precision, effective)``, the last three as far as
    given. They share one sample site on the simplex, of any name; where both have a site "scale",
    it scales the weights within the evidence.

    Args:
        moment: ``"exact"`` for the exact ``E_q[w]``, ``"ratio"`` for the paper's approximation,
            which is for evidence of the first order.
        kl: The divergence of a `GammaDirichlet` guide: ``"exact"`` for
            `GammaDirichlet.kl_to_dirichlet`, ``"bound"`` for
            `GammaDirichlet.kl_bound_to_dirichlet`, both with drawn concentrations of at least 1e-3,
            so that they are finite for every shape. Other guides have their own closed form, and no
            use for `moment` and `kl`.
        num_samples: Draws for either, and for effective shares.

    Raises:
        ValueError: When `moment`, `kl` or `num_samples` is unknown or out of range. When the loss
            is asked for with a `kl_weight` that is not positive; with the moment "ratio" and a
            precision or effective shares; of a guide without one simplex, or without a covariance
            in closed form though there is a precision; of a model whose prior of the weights is no
            Dirichlet, with a `GammaDirichlet` guide; of a guide and a model of which one alone has
            a scale.

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
        effective: Effective | None = None,
    ) -> Tensor:
        """Returns the loss, a scalar in the unit of `linear`, minimised; evidence is a constant."""
        if not kl_weight > 0:
            raise ValueError(f"Expected kl_weight > 0, actual {kl_weight}")
        if self.moment == "ratio" and not (precision is None and effective is None):
            raise ValueError("Expected moment 'exact' with a precision, actual 'ratio'")
        arguments = (signals, linear, kl_weight, precision, effective)
        given = 5 if effective is not None else 4 if precision is not None else 3
        weights, scale = self._get_trace(model, guide, arguments[:given], {})
        q, linear = weights[0], linear.detach()
        if effective is not None:
            evidence = expected_evidence(
                q, linear, precision, scale and scale[0], effective, self.num_samples
            )
        else:
            mean = q.mean_ratio if self.moment == "ratio" and hasattr(q, "mean_ratio") else q.mean
            evidence = _expectation(mean, q, scale and scale[0], linear, precision)
        divergence = self._divergence(*weights)
        if scale is not None:
            divergence = divergence + kl_divergence(*scale).sum()
        return -evidence.sum() + kl_weight * divergence

    def loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Returns the loss as a float, without gradients (`SVI.evaluate_loss`)."""
        with torch.no_grad():
            return self.differentiable_loss(model, guide, *args, **kwargs).item()

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Returns the loss as a float and adds its gradients to the parameters (`SVI.step`)."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        loss.backward()
        return loss.item()

    def _divergence(self, q: Distribution, p: Distribution) -> Tensor:
        if not isinstance(q, GammaDirichlet):
            return kl_divergence(q, p).sum()
        if not isinstance(p, Dirichlet):
            raise ValueError(f"Expected a Dirichlet prior, actual {type(p).__name__}")
        estimate = q.kl_to_dirichlet if self.kl == "exact" else q.kl_bound_to_dirichlet
        return estimate(p.concentration, self.num_samples, SMALLEST_BETA).sum()

    def _get_trace(
        self,
        model: Program,
        guide: Program,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Pair, Pair | None]:
        """Runs the guide, then the model on its sample; returns the weights' pair and the scale's.

        Raises:
            ValueError: When there is not one simplex, or the scale is in one of both alone.
        """
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        replayed = poutine.replay(model, trace=guide_trace)
        model_trace = poutine.trace(replayed).get_trace(*args, **kwargs)

        def pair(site: str) -> Pair:
            return guide_trace.nodes[site]["fn"], model_trace.nodes[site]["fn"]

        scaled = SCALE in guide_trace.nodes
        if scaled != (SCALE in model_trace.nodes):
            raise ValueError(
                f"Expected a scale in model and guide or in neither, "
                f"actual in the {'guide' if scaled else 'model'} alone"
            )
        return pair(_simplex_site(guide, guide_trace)), pair(SCALE) if scaled else None


def _simplex_site(guide: Program, trace: poutine.Trace) -> str:
    """Returns the name of the guide's site of the weights: its own `site`, or its one simplex."""
    named = getattr(guide, "site", None)
    if isinstance(named, str) and named in trace.nodes:
        return named
    simplex = type(constraints.simplex)
    sites = [n for n in trace.stochastic_nodes if isinstance(trace.nodes[n]["fn"].support, simplex)]
    if len(sites) != 1:
        raise ValueError(f"Expected one sample site on the simplex, actual {sites}")
    return sites[0]


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
