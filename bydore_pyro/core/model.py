"""The model: a prior on the simplex and an evidence that is quadratic in the weights.

The evidence is Gaussian in ``u = s w`` with the precision ``Lambda``, or linear where that is 0. So
the moments of a posterior give its expectation and the exact gradient, without a sample's noise::

    E[h . u - 1/2 u' Lambda u] = E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma))

``mu`` and ``Sigma`` are the mean and the covariance of the weights ``w``.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from pyro.distributions import Dirichlet, LogNormal
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.utils.weak import WeakIdKeyDictionary

from bydore_pyro.core.sparse import CONCENTRATIONS, SparseDirichlet

__all__ = [
    "QuadraticFactor",
    "expected_evidence",
    "mixture_model",
    "quadratic_factor",
    "require_precision",
]

WEIGHTS, SCALE = "weights", "scale"  # names of the sample sites that model and guide share
EVIDENCE = "validation"  # name of the factor in `mixture_model`

ROUNDING = 1e-6  # of a precision, as a share of its largest eigenvalue
_CHECKED: Any = WeakIdKeyDictionary()  # precisions that were looked at: their versions


class QuadraticFactor(TorchDistribution):
    """A factor of a model: ``h . u - 1/2 u' Lambda u`` with ``u = s w``.

    `quadratic_factor` puts it into a model.

    Its log density is that of any `pyro.factor`. `HypergradientELBO` finds the sites whose values
    `weights` and `scale` are, and takes the exact expectation under the guide instead.

    Args:
        weights: ``w (..., K)``, the value of a sample site as it is.
        linear: ``h``, ``(K,)`` or ``batch_shape + (K,)``, nats: positive where a weight helps.
        precision: ``Lambda``, ``(K, K)``, symmetric and positive semi-definite, nats; 0 when None.
        scale: ``s``, ``batch_shape``, the value of a sample site; 1 when None.

    Raises:
        ValueError: When `linear` is not finite or of another number of weights; when `precision` is
            none (`require_precision`).
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    support = constraints.real_vector

    def __init__(
        self,
        weights: Tensor,
        linear: Tensor,
        precision: Tensor | None = None,
        scale: Tensor | None = None,
    ) -> None:
        if not isinstance(linear, Tensor) or weights.shape[-1:] != linear.shape[-1:]:
            expected, actual = tuple(weights.shape[-1:]), tuple(getattr(linear, "shape", ()))
            raise ValueError(f"Expected linear {expected}, actual {actual or linear!r}")
        if not (torch.jit.is_tracing() or bool(linear.isfinite().all())):
            raise ValueError(f"Expected a finite linear, actual {linear.tolist()}")
        if precision is not None:
            require_precision(precision, linear)
        self.weights, self.scale = weights, scale
        self.linear, self.precision = linear, precision
        self.log_factor = self._log_factor()
        super().__init__(self.log_factor.shape, torch.Size((0,)), validate_args=False)

    def _log_factor(self) -> Tensor:
        u = self.weights if self.scale is None else self.scale.unsqueeze(-1) * self.weights
        evidence = (self.linear * u).sum(-1)
        if self.precision is not None:
            evidence = evidence - ((u @ self.precision) * u).sum(-1) / 2
        return evidence

    def expand(
        self, batch_shape: torch.Size, _instance: QuadraticFactor | None = None
    ) -> QuadraticFactor:
        """Returns the factor broadcast to `batch_shape`."""
        new = self._get_checked_instance(QuadraticFactor, _instance)
        new.weights, new.scale = self.weights, self.scale
        new.linear, new.precision = self.linear, self.precision
        new.log_factor = self.log_factor.expand(torch.Size(batch_shape))
        super(QuadraticFactor, new).__init__(
            torch.Size(batch_shape), self.event_shape, validate_args=False
        )
        return new

    def sample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008
        """Returns the empty tensor that a factor is observed as."""
        return self.log_factor.new_empty(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the factor, ``batch_shape``, nats, the higher the better."""
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        return self.log_factor.expand(shape)


def quadratic_factor(
    name: str,
    weights: Tensor,
    linear: Tensor,
    precision: Tensor | None = None,
    scale: Tensor | None = None,
) -> None:
    """Adds the evidence ``h . u - 1/2 u' Lambda u``, ``u = s w``, to a Pyro model.

    As `pyro.factor`, with the expectation in closed form for `HypergradientELBO`. Plates, masks and
    scales around it act as on every site.

    Args:
        name: Of the factor.
        weights: As for `QuadraticFactor`, and the other arguments too.

    Raises:
        ValueError: See `QuadraticFactor`.
    """
    factor = QuadraticFactor(weights, linear, precision, scale)
    pyro.sample(name, factor, obs=factor.sample())


def mixture_model(
    signals: Tensor | None = None,
    linear: Tensor | None = None,
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
            `kl_weight` is not positive; when `precision` is not ``(K, K)``, symmetric and positive
            semi-definite.
    """
    if not isinstance(linear, Tensor) or linear.shape[-1:] < (2,):
        shown = tuple(linear.shape) if isinstance(linear, Tensor) else repr(linear)
        raise ValueError(
            "Expected svi.step(signals, linear, ...) with the log-evidence of the weights, a "
            "tensor linear (K,) with K >= 2, > 0 where a weight lowers the outer loss, "
            f"actual {shown}"
        )
    if shape := tuple(getattr(kl_weight, "shape", ())):
        raise ValueError(
            f"Expected a number kl_weight, before any precision, actual a tensor {shape}"
        )
    if not 0 < kl_weight < math.inf:
        raise ValueError(f"Expected kl_weight > 0, finite, actual {kl_weight}")
    prior = Dirichlet(torch.ones_like(linear))
    if precision is not None:
        prior = SparseDirichlet.like(linear, concentrations)
    weights, scale = pyro.sample(WEIGHTS, prior), None
    if precision is not None:
        require_precision(precision, linear)
        precision = precision / kl_weight if kl_weight != 1 else precision
        scale = pyro.sample(SCALE, LogNormal(linear.new_zeros(()), linear.new_ones(())))
    quadratic_factor(EVIDENCE, weights, linear / kl_weight, precision, scale)
    return weights


def require_precision(precision: Tensor, linear: Tensor) -> None:
    """Refuses a precision that is none; one tensor is looked at once.

    Args:
        precision: Expected ``(K, K)``.
        linear: ``(..., K)``.

    Raises:
        ValueError: When it is not ``(K, K)``, finite, symmetric and positive semi-definite, up to
            rounding.
    """
    expected = 2 * tuple(linear.shape[-1:])
    if precision.shape != expected:
        raise ValueError(f"Expected precision {expected}, actual {tuple(precision.shape)}")
    # A version counts changes in place. What torch.jit traces has no value to look at.
    if _CHECKED.get(precision) == precision._version or torch.jit.is_tracing():
        return
    if not bool(precision.isfinite().all()):
        raise ValueError("Expected a finite precision, actual NaN or infinity in it")
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
        ValueError: When the distribution has no mean; when there is a precision, but no covariance
            in closed form.
    """
    mean = _moment(weights, "mean")
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
    return _moment(q, "covariance_matrix")


def _moment(q: Distribution, name: str) -> Tensor:
    try:
        found: Tensor = getattr(q, name)
    except (AttributeError, NotImplementedError):
        raise ValueError(
            f"Expected a guide whose distribution of the weights has a {name} in closed form, "
            f"actual {type(q).__name__}; pyro.infer.TraceMeanField_ELBO takes any, and samples"
        ) from None
    return found
