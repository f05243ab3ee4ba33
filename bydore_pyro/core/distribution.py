"""The distribution of mixture weights whose concentrations are learned: a Gamma-Dirichlet."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.utils import broadcast_all

from bydore_pyro.core.density import log_density
from bydore_pyro.core.sparse import SparseDirichlet

__all__ = ["GammaDirichlet"]

NO_SHAPE = torch.Size()

MODE_STEPS, MODE_STEPS_IN_TRANSFORM = 1000, 200  # at most; and of `torch.func`, exactly
# A weight below it counts as it, as a share of the smallest normal number: the gradient of its
# logarithm, times the scale of a plate, must not overflow.
ROOM_FOR_SCALES = 1e8
# From this Gamma rate the small concentration of an absent component counts as known.
KNOWN_RATE = 1e6
# The lowest log of a weight that is kept for `log_prob`, so that sums of densities stay finite.
LOWEST_LOG = -1e6
# Where float64 computes with Gamma shapes and rates: above this shape a Gamma is a point to it.
RANGES = {
    "shapes": (1e-100, 1e12),
    "rates": (1e-100, 1e100),
    "means (shape / rate)": (0.0, 1e12),  # of the concentrations
}
# The lowest log concentration: `log(u) / concentration` must stay finite in float64.
MINIMAL_LOG_CONCENTRATION = -690.0
# exp(-NEGLIGIBLE) is below the resolution of float64: where the moments' integrals are cut off.
NEGLIGIBLE = 40.0
# Of the moments' nodes in log t. The integrands are analytic for |Im log t| < pi / 2, so the error
# is about exp(-pi^2 / SPACING): 7e-18.
SPACING = 0.25
# Nodes inside of a transform of torch.func, where no value can say how many are needed: enough for
# `SPACING` where log max(b) + log sum(a / b) is below 80.
NODES_IN_TRANSFORM = 640


class GammaDirichlet(TorchDistribution):
    """Dirichlet weights whose concentrations are Gamma variables with shape ``a`` and rate ``b``.

    The argument `concentration` is the Gamma's shape, as in `torch.distributions.Gamma`. It is not
    the concentration of the Dirichlet, which is a random variable here::

        beta_k ~ Gamma(a_k, b_k),    w | beta ~ Dirichlet(beta),    k = 1, ..., K

    The support is the simplex, ``event_shape = (K,)`` and ``batch_shape`` that of the parameters
    broadcast, without their last dimension. The density has no closed form::

        q(w) = prod_k 1 / w_k * int e^-t / t prod_k h_k(t w_k) dt
        h_k(u) = E[u ** beta / Gamma(beta)],    beta ~ Gamma(a_k, b_k)

    The moments are exact integrals over one dimension, ``t > 0``::

        E[w_k]     = int a_k / (b_k + t) P(t) dt,        P(t) = prod_j (b_j / (b_j + t)) ** a_j
        E[w_k w_l] = int (1 - e^-t) a_k a_l / ((b_k + t)(b_l + t)) P(t) dt              (k != l)
        E[w_k^2]   = int (1 - e^-t) (a_k (a_k + 1) / (b_k + t)^2 + a_k / (b_k + t)) P(t) dt

    All are evaluated by the trapezoid rule in float64, and differentiable in ``a`` and ``b``; the
    density's nested pair of integrals is in `bydore_pyro.core.density`.

    Accuracy in float64, for shapes and rates from 0.05 to 1e4 and K up to 1,000: moments within
    1e-9; `log_prob` within 1e-6 where its size is below 1e6 (above, a rounding of 1e-12 of its
    size), also near faces of the simplex. Rates above 1e9 cost accuracy: at 1e10 the density is off
    by up to 1e-3 nats. Parameters in float32 are computed with in float64; the result is then
    rounded.

    Shapes below 1 put much of the mass so near to faces that weights underflow. `rsample` returns
    1e8 times the smallest normal number for them. The logarithm of what it drew last is kept, so
    that `log_prob` of this very tensor is exact, in float32 too. The prior of a model sees the
    weight alone: for shapes below about 2 in float32 stock objectives of Pyro are therefore biased.
    Prefer float64 there; the moments, `rsample_log` and `estimate_kl` have no bias in either. From
    a rate of 1e6 the concentration is known, as that of a component that `FeatureNetwork` marks as
    absent. Its underflown weight counts as `rsample` returns it, so that it cancels in stock
    objectives if the prior has the same concentration.

    There is no closed form of the entropy and of divergences: `estimate_entropy` and `estimate_kl`
    are means over draws. `torch.distributions.kl_divergence` raises `NotImplementedError`, so
    that `TraceMeanField_ELBO` samples this site.

    Args:
        concentration: Gamma shapes ``a > 0``, broadcastable to ``batch_shape + (K,)``.
        rate: Gamma rates ``b > 0``, broadcastable to ``batch_shape + (K,)``.
        validate_args: Whether to check the arguments; torch's default when None.

    Raises:
        ValueError: When a parameter has no domain dimension, fewer than two domains, or is not
            positive; when arguments are validated and a shape is not in [1e-100, 1e12], a rate not
            in [1e-100, 1e100] or a mean ``a / b`` above 1e12, where float64 would err or overflow.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1),
        "rate": constraints.independent(constraints.positive, 1),
    }
    support = constraints.simplex
    has_rsample = True
    # The last weights of `rsample`, their version, which counts changes in place, and their logs.
    _drawn: tuple[Tensor, int, Tensor] | None = None

    def __init__(
        self, concentration: Tensor, rate: Tensor, validate_args: bool | None = None
    ) -> None:
        concentration, rate = broadcast_all(concentration, rate)
        dtype = torch.promote_types(concentration.dtype, rate.dtype)
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        self.concentration, self.rate = concentration.to(dtype), rate.to(dtype)
        shape = self.concentration.shape
        if len(shape) < 1 or shape[-1] < 2:
            raise ValueError(
                f"Expected parameters of shape (..., K) with K >= 2, actual {tuple(shape)}"
            )
        # torch's constraints cannot look at an empty batch, in which there is nothing to check.
        # Nor can anything look at values inside of a transform of torch.func.
        checks = validate_args if self.concentration.numel() and not _in_transform() else False
        super().__init__(shape[:-1], shape[-1:], validate_args=checks)
        if self._validate_args:
            checked = (self.concentration, self.rate, self.concentration / self.rate)
            for (what, (low, high)), values in zip(RANGES.items(), checked, strict=True):
                if bool((wrong := ~((values >= low) & (values <= high))).any()):
                    raise ValueError(
                        f"Expected Gamma {what} in [{low:g}, {high:g}], "
                        f"actual {float(values[wrong][0].detach()):g}"
                    )

    def expand(
        self, batch_shape: torch.Size, _instance: GammaDirichlet | None = None
    ) -> GammaDirichlet:
        """Returns the distribution broadcast to `batch_shape`."""
        new = self._get_checked_instance(GammaDirichlet, _instance)
        batch_shape = torch.Size(batch_shape)  # Pyro gives lists
        new.concentration = self.concentration.expand(batch_shape + self.event_shape)
        new.rate = self.rate.expand(batch_shape + self.event_shape)
        super(GammaDirichlet, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what was drawn: a tensor with a history cannot be copied."""
        return {**self.__dict__, "_drawn": None}

    def rsample_log(
        self, sample_shape: torch.Size = NO_SHAPE, smallest_beta: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Draws ``(log w, log beta)``, both ``sample_shape + batch_shape + (K,)``, in float64.

        Sparse posteriors have concentrations far below 1, whose Gamma samples underflow, so both
        levels are drawn in log space. Gradients are pathwise in both parameters.

        Args:
            sample_shape: Shape of the draws.
            smallest_beta: Drawn concentrations below it count as it.
        """
        shape = self._extended_shape(sample_shape)
        log_a, log_b = self.concentration.double().log(), self.rate.double().log()
        log_beta = _log_gamma_sample(log_a.expand(shape)) - log_b
        lowest = math.log(smallest_beta) if smallest_beta else MINIMAL_LOG_CONCENTRATION
        log_beta = log_beta.clamp(min=lowest)
        return _log_gamma_sample(log_beta).log_softmax(-1), log_beta

    def rsample(self, sample_shape: torch.Size = NO_SHAPE) -> Tensor:
        """Draws weights ``sample_shape + batch_shape + (K,)`` with gradients to both parameters.

        A weight that underflows is 1e8 times the smallest normal number of the dtype instead.
        """
        log_w, _ = self.rsample_log(sample_shape)
        dtype = self.concentration.dtype
        w = log_w.exp().to(dtype).clamp(min=_smallest(dtype))
        if not (_in_transform() or w.is_inference()):
            self._drawn = w, w._version, log_w.clamp(min=LOWEST_LOG)
        return w

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density with respect to the first ``K - 1`` weights, nats.

        Differentiable twice in the value and in both parameters, also by `torch.func`, inside of
        which the value is not validated.

        Args:
            value: Weights in the simplex's interior, broadcastable to
                ``sample_shape + batch_shape + (K,)``. One below 1e8 times the smallest normal
                number of the dtype counts as it, unless `rsample` has returned this tensor last.

        Raises:
            ValueError: When arguments are validated and the value is not on the simplex, or a
                weight is exactly 0.
        """
        if self._validate_args and not _in_transform():
            self._validate_sample(value)
            if bool((value == 0).any()):
                raise ValueError(
                    "Expected weights > 0, actual 0, where the density is infinite: leave the "
                    "component out, or give it a small weight"
                )
        dtype = torch.promote_types(value.dtype, self.concentration.dtype)
        log_w = value.double().clamp(min=_smallest(dtype)).log()
        drawn, version, exact = self._drawn or (None, 0, log_w)
        if drawn is value and version == value._version:
            # Gradients go through the value, but where it has underflowed.
            through = log_w + (exact - log_w).detach()
            # A prior sees the value alone, which has no gradient there. Its power of an absent
            # component's weight cancels the density's only if both are of the same value. If not,
            # each absent component pulls all concentrations down, and widens the posterior.
            exact = torch.where(self.rate < KNOWN_RATE, exact, log_w)
            log_w = torch.where(value > _smallest(dtype), through, exact)
        precise = dtype == torch.float64
        return log_density(log_w, self.concentration, self.rate, precise=precise).to(dtype)

    @property
    def mean(self) -> Tensor:
        """Exact ``E[w]``, shape ``batch_shape + (K,)``."""
        a, b, t, weight = _nodes(self.concentration, self.rate)
        return (weight * a / (b + t)).sum(-2).to(self.concentration.dtype)

    @property
    def mode(self) -> Tensor:
        """The weights of largest density over the log-ratios ``log w_k / w_K``, ``(..., K)``.

        Over the weights the density is infinite at every face. Of a Dirichlet it is the mean. It is
        found by expectation maximisation, ``w <- E[beta | w] / sum E[beta | w]``; no gradient.
        """
        a, b = self.concentration.detach().double(), self.rate.detach().double()
        w = (a / b) / (a / b).sum(-1, keepdim=True)
        slope = torch.func.grad(lambda log_w: log_density(log_w, a, b).sum())
        in_transform = _in_transform()
        for _ in range(MODE_STEPS_IN_TRANSFORM if in_transform else MODE_STEPS):
            beta = slope(w.log()) + 1
            before, w = w, beta / beta.sum(-1, keepdim=True)
            if not in_transform and torch.allclose(w, before, rtol=0, atol=1e-8):
                break
        return w.to(self.concentration.dtype)

    def estimate_entropy(self, num_samples: int = 1000) -> Tensor:
        """Estimates ``-E[log q(w)]``, nats, ``batch_shape``, by the mean over draws.

        The entropy is minus infinity unless all ``a_k > 1``; the draws' variance is finite where
        all ``a_k > 2``. There the standard error is about ``(K / (2 num_samples)) ** 0.5``: 0.05
        nats by default where K = 4, 0.2 where K = 100. Below, no standard error is to be believed.
        Its gradient is that of `estimate_kl`.
        """
        flat = torch.distributions.Dirichlet(torch.ones_like(self.concentration))
        return -self.estimate_kl(flat, num_samples) - math.lgamma(self.event_shape[0])

    @property
    def variance(self) -> Tensor:
        """Exact ``Var[w]``, shape ``batch_shape + (K,)``, >= 0."""
        a, b, t, weight = _nodes(self.concentration, self.rate)
        density = a / (b + t)  # (..., N, K)
        second = (-torch.expm1(-t)) * (density.square() + density / (b + t) + density)
        mean = (weight * density).sum(-2)
        variance = ((weight * second).sum(-2) - mean.square()).clamp(min=0)
        return variance.to(self.concentration.dtype)

    @property
    def covariance_matrix(self) -> Tensor:
        """Exact ``Cov[w]``, shape ``batch_shape + (K, K)``; its rows sum to zero."""
        a, b, t, weight = _nodes(self.concentration, self.rate)
        density = a / (b + t)  # (..., N, K)
        mean = (weight * density).sum(-2)
        weight = -torch.expm1(-t) * weight
        second = density.mT @ (weight * density)
        square = (weight * (density.square() + density / (b + t) + density)).sum(-2)
        second = second.diagonal_scatter(square, dim1=-2, dim2=-1)
        covariance = second - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        return covariance.to(self.concentration.dtype)

    def estimate_kl(
        self,
        prior: torch.distributions.Dirichlet | SparseDirichlet | GammaDirichlet,
        num_samples: int = 1,
        smallest_beta: float = 0.0,
    ) -> Tensor:
        """Estimates ``KL(self || prior)``, nats, ``batch_shape``, by the mean over draws.

        The mean of ``log q(w) - log p(w)`` over pathwise draws, with the exact density; value and
        gradient are unbiased. The gradient goes through the draws alone: what the parameters add to
        it inside of ``log q`` has mean zero, and would only bring noise.

        Against a Dirichlet the divergence is finite only where all ``a_k > 1``: ``log q`` grows as
        ``-log w_k``, whose mean is that of ``1 / beta_k``. The variance of the estimate is finite
        where all ``a_k > 2``. A `smallest_beta` above 0 keeps the estimate finite for every shape,
        but too low, so that it is no longer a divergence. Each domain of small weight lowers it by
        about the part of ``E[1 / beta_k]`` from draws with ``beta_k`` below that.

        Args:
            prior: Broadcastable to ``batch_shape``.
            num_samples: Draws for the estimate, at least 1.
            smallest_beta: Drawn concentrations below it count as it.

        Returns:
            The estimate, in the dtype of the parameters; below 0 by chance near the prior.

        References:
            Roeder, Wu, Duvenaud (2017), Sticking the Landing, arXiv 1703.09194: the gradient.

        Raises:
            ValueError: When `num_samples` is below 1.
        """
        if num_samples < 1:
            raise ValueError(f"Expected num_samples >= 1, actual {num_samples}")
        log_w, _ = self.rsample_log(torch.Size((num_samples,)), smallest_beta)
        precise = self.concentration.dtype == torch.float64
        if isinstance(prior, SparseDirichlet):
            log_p = prior.log_prob_of_log(log_w)
        elif isinstance(prior, GammaDirichlet):
            log_p = log_density(log_w, prior.concentration, prior.rate, precise=precise)
        else:
            alpha = prior.concentration.double().expand(log_w.shape[1:])
            log_p = torch.lgamma(alpha.sum(-1)) - torch.lgamma(alpha).sum(-1)
            log_p = log_p + ((alpha - 1) * log_w).sum(-1)
        a, b = self.concentration.detach(), self.rate.detach()
        log_q = log_density(log_w, a, b, precise=precise)
        return (log_q - log_p).mean(0).to(self.concentration.dtype)


def _smallest(dtype: torch.dtype) -> float:
    """Returns the smallest weight of a dtype, > 0, no unit."""
    return torch.finfo(dtype).tiny * ROOM_FOR_SCALES


def _in_transform() -> bool:
    """Whether this runs inside of a transform of `torch.func`, where values cannot be looked at."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _log_gamma_sample(log_shape: Tensor) -> Tensor:
    """Draws ``log Gamma(shape, 1)``: log Gamma(a) = log Gamma(a + 1) + log(U) / a, with gradients.

    Stated in the log of the shape, whose gradient stays finite where the shape's own overflows.
    """
    boosted = torch._standard_gamma(log_shape.exp() + 1).log()
    uniform = torch.rand_like(log_shape).clamp(min=torch.finfo(log_shape.dtype).tiny)
    return boosted + uniform.log() * (-log_shape).exp()


def _nodes(concentration: Tensor, rate: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns ``a (..., 1, K), b (..., 1, K), t (..., N, 1)`` and ``P(t) dt (..., N, 1)``."""
    a, b = concentration.double().unsqueeze(-2), rate.double().unsqueeze(-2)
    with torch.no_grad():
        # Below: sum_k a_k t / b_k is negligible. Above: P(t) <= (b_max / t) ** sum_k a_k is, or
        # else b_max / t is.
        low = -NEGLIGIBLE - (a / b).sum(-1, keepdim=True).log()
        high = b.amax(-1, keepdim=True).log()
        high = high + NEGLIGIBLE / a.sum(-1, keepdim=True).clamp(min=1.0)
        high = torch.maximum(high, low + 2 * NEGLIGIBLE)
        count = NODES_IN_TRANSFORM
        if not _in_transform():
            width = (high - low).nan_to_num(nan=1.0, posinf=1.0, neginf=1.0)  # NaN in, NaN out
            count = math.ceil((float(width.max()) if width.numel() else 1.0) / SPACING) + 1
        step = (high - low) / (count - 1)
        places = torch.arange(count, dtype=a.dtype, device=a.device).unsqueeze(-1)
        log_t = low + step * places
    log_ratio = torch.nn.functional.softplus(log_t - b.log())  # log((b + t) / b), (..., N, K)
    log_p = -(a * log_ratio).sum(-1, keepdim=True)
    # Past exp(700) the factor t cancels in t / (b + t): only a / (b + t) P(t) dt remains.
    t = log_t.clamp(max=700.0).exp()
    weight = (log_p + log_t.clamp(max=700.0)).exp() * step
    # Where P(t) has not fallen to nothing yet, the integrands fall by exp(-sum a) per unit of
    # log t from here on: the nodes that would follow are a geometric series.
    series = 1 + 1 / torch.expm1((a.sum(-1, keepdim=True) * step).clamp(max=700.0))
    return a, b, t, torch.where(places == count - 1, weight * series, weight)
