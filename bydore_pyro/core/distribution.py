"""The Gamma-Dirichlet compound: a distribution over mixture weights with learned concentrations."""

from __future__ import annotations

import math

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Tensor
from torch.distributions import Dirichlet, constraints, kl_divergence
from torch.distributions.utils import broadcast_all

from bydore_pyro.core.density import log_density
from bydore_pyro.core.model import SparseDirichlet
from bydore_pyro.core.moments import exact_covariance, exact_mean, exact_variance

__all__ = ["GammaDirichlet"]

NO_SHAPE = torch.Size()

# Where float64 computes with Gamma shapes and rates: above this shape a Gamma is a point to it.
SHAPES = (1e-100, 1e12)
RATES = (1e-100, 1e100)
MEANS = (0.0, 1e12)  # of the concentrations, shape / rate

# The lowest log concentration: `log(u) / concentration` must stay finite in float64.
MINIMAL_LOG_CONCENTRATION = -690.0


class GammaDirichlet(TorchDistribution):
    """Dirichlet weights whose concentrations are independent Gamma variables::

        beta_k ~ Gamma(a_k, b_k),    w | beta ~ Dirichlet(beta),    k = 1, ..., K

    with ``a`` the shape (``concentration``) and ``b`` the rate. The support is the simplex,
    ``event_shape = (K,)`` and ``batch_shape`` that of the parameters broadcast, without their last
    dimension. The density has no closed form::

        q(w) = prod_k 1 / w_k * int e^-t / t prod_k h_k(t w_k) dt
        h_k(u) = E[u ** beta / Gamma(beta)],    beta ~ Gamma(a_k, b_k)

    The moments are exact integrals too, over one dimension (`bydore_pyro.core.moments`). All are
    evaluated by the trapezoid rule in float64, and differentiable in ``a`` and ``b`` (the density's
    nested pair in `bydore_pyro.core.density`).

    Accuracy in float64, for shapes and rates from 0.05 to 1e4 and K up to 1,000: moments within
    1e-9; `log_prob` within 1e-6 where its size is below 1e6 (above, a rounding of 1e-12 of its
    size), also near faces of the simplex. Parameters in float32 are computed with in float64; the
    result is then rounded. `torch.func` transforms density and moments. With fewer nodes of the
    density than by default it errs, at K = 17, by about 7e-5 (24 and 30 nodes), 5e-3 (16 and 16),
    1.4 (8 and 8).

    Shapes below 1 put much of the mass so near to faces that weights underflow: `rsample` returns
    the smallest normal number for them, and `log_prob` takes smaller weights for it. Stock
    objectives of Pyro are then biased (in float32 from shapes of about 2 downwards: prefer
    float64); the moments, `rsample_log` and the divergences are not.

    Args:
        concentration: Gamma shapes ``a > 0``, broadcastable to ``batch_shape + (K,)``.
        rate: Gamma rates ``b > 0``, broadcastable to ``batch_shape + (K,)``.
        num_nodes: Nodes of the density's inner and outer integral, at least 8 each. By default 36,
            and as many as the widest window of the outer one needs.
        validate_args: Whether to check the arguments; torch's default when None.

    Raises:
        ValueError: When a parameter has no domain dimension, fewer than two domains, or is not
            positive; when arguments are validated and a shape is not in [1e-100, 1e12], a rate not
            in [1e-100, 1e100] or a mean ``a / b`` above 1e12, where float64 would err or overflow;
            when `num_nodes` is not a pair of integers of at least 8.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3 (the compound) and
        section 2.4 (`mean_ratio`).
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1),
        "rate": constraints.independent(constraints.positive, 1),
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        concentration: Tensor,
        rate: Tensor,
        *,
        num_nodes: tuple[int, int] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.num_nodes = _checked_nodes(num_nodes)
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
        checks = validate_args if self.concentration.numel() else False
        super().__init__(shape[:-1], shape[-1:], validate_args=checks)
        if self._validate_args:
            _check_range("shapes", self.concentration, *SHAPES)
            _check_range("rates", self.rate, *RATES)
            _check_range("means (shape / rate)", self.concentration / self.rate, *MEANS)

    def expand(
        self, batch_shape: torch.Size, _instance: GammaDirichlet | None = None
    ) -> GammaDirichlet:
        """Returns the distribution broadcast to `batch_shape`."""
        new = self._get_checked_instance(GammaDirichlet, _instance)
        batch_shape = torch.Size(batch_shape)  # Pyro gives lists
        shape = batch_shape + self.event_shape
        new.concentration = self.concentration.expand(shape)
        new.rate = self.rate.expand(shape)
        new.num_nodes = self.num_nodes
        super(GammaDirichlet, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @staticmethod
    def infer_shapes(concentration: torch.Size, rate: torch.Size) -> tuple[torch.Size, torch.Size]:
        """Returns `batch_shape` and `event_shape` for parameters of the given shapes."""
        shape = torch.broadcast_shapes(concentration, rate)
        return shape[:-1], shape[-1:]

    # --- sampling -------------------------------------------------------------------------------

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
        log_beta = log_beta.clamp(min=_lowest(smallest_beta))
        return _log_gamma_sample(log_beta).log_softmax(-1), log_beta

    def rsample(self, sample_shape: torch.Size = NO_SHAPE) -> Tensor:
        """Draws weights ``sample_shape + batch_shape + (K,)`` with gradients to both parameters.

        A weight that underflows is the smallest normal number of the dtype instead.
        """
        log_w, _ = self.rsample_log(sample_shape)
        dtype = self.concentration.dtype
        return log_w.exp().to(dtype).clamp(min=torch.finfo(dtype).tiny)

    # --- density --------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density with respect to the first ``K - 1`` weights, nats.

        Differentiable once in the value and in both parameters.

        Args:
            value: Weights in the simplex's interior, broadcastable to
                ``sample_shape + batch_shape + (K,)``. One below the smallest normal number of the
                dtype counts as it.

        Raises:
            ValueError: When arguments are validated and the value is not on the simplex.
        """
        if self._validate_args:
            self._validate_sample(value)
        dtype = torch.promote_types(value.dtype, self.concentration.dtype)
        log_w = value.double().clamp(min=torch.finfo(dtype).tiny).log()
        return log_density(log_w, self.concentration, self.rate, *self.num_nodes).to(dtype)

    # --- moments --------------------------------------------------------------------------------

    @property
    def mean(self) -> Tensor:
        """Exact ``E[w]``, shape ``batch_shape + (K,)``."""
        return exact_mean(self.concentration, self.rate).to(self.concentration.dtype)

    @property
    def mean_ratio(self) -> Tensor:
        """The paper's ``(a_k / b_k) / sum_j a_j / b_j``; exact only where all rates are equal."""
        ratio = self.concentration / self.rate
        return ratio / ratio.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        """Exact ``Var[w]``, shape ``batch_shape + (K,)``."""
        return exact_variance(self.concentration, self.rate).to(self.concentration.dtype)

    @property
    def covariance_matrix(self) -> Tensor:
        """Exact ``Cov[w]``, shape ``batch_shape + (K, K)``; its rows sum to zero."""
        return exact_covariance(self.concentration, self.rate).to(self.concentration.dtype)

    # --- divergence -----------------------------------------------------------------------------

    def kl_to_dirichlet(
        self, alpha: Tensor, num_samples: int = 1, smallest_beta: float = 0.0
    ) -> Tensor:
        """Estimates ``KL(self || Dirichlet(alpha))``, nats, ``batch_shape``.

        The mean of ``log q(w) - log p(w)`` over pathwise draws, with the exact density; value and
        gradient are unbiased. The gradient goes through the draws alone: what the parameters add to
        it inside of ``log q`` has mean zero, and would only bring noise.

        The divergence is finite only where all ``a_k > 1``: ``log q`` grows as ``-log w_k``, whose
        mean is that of ``1 / beta_k``. A `smallest_beta` above 0 keeps the estimate finite for
        every shape; it is then too low, by about ``E[1 / beta_k; beta_k < smallest_beta]`` in every
        k where ``w_k`` is rare, and is a divergence no more.

        On the planted mixture of `docs/lab-notebook.md` this divergence served the search better
        than the bound: nearer weights, the same spread and jitter.

        Args:
            alpha: Concentrations of the prior, broadcastable to ``batch_shape + (K,)``.
            num_samples: Draws for the estimate, at least 1.
            smallest_beta: Drawn concentrations below it count as it.

        Returns:
            The estimate, in the dtype of the parameters; below 0 by chance near the prior.

        Raises:
            ValueError: When `num_samples` or `alpha` is not positive.

        References:
            Roeder, Wu, Duvenaud (2017), Sticking the Landing, arXiv 1703.09194: the gradient.
        """
        log_w, _ = self.rsample_log(_samples(num_samples), smallest_beta)
        prior = _prior(alpha, log_w.shape[1:]).concentration
        log_p = torch.lgamma(prior.sum(-1)) - torch.lgamma(prior).sum(-1)
        return self._divergence(log_w, log_p + ((prior - 1) * log_w).sum(-1))

    def kl_to_sparse_dirichlet(
        self, prior: SparseDirichlet, num_samples: int = 1, smallest_beta: float = 0.0
    ) -> Tensor:
        """Estimates ``KL(self || prior)``, nats, ``batch_shape``, as `kl_to_dirichlet` does.

        Raises:
            ValueError: When `num_samples` is not positive.
        """
        log_w, _ = self.rsample_log(_samples(num_samples), smallest_beta)
        return self._divergence(log_w, prior.log_prob_of_log(log_w))

    def _divergence(self, log_w: Tensor, log_p: Tensor) -> Tensor:
        """Returns the mean of ``log q(w) - log p(w)`` over the first dimension."""
        a, b = self.concentration.detach(), self.rate.detach()
        log_q = log_density(log_w, a, b, *self.num_nodes)
        return (log_q - log_p).mean(0).to(self.concentration.dtype)

    def kl_bound_to_dirichlet(
        self, alpha: Tensor, num_samples: int = 1, smallest_beta: float = 0.0
    ) -> Tensor:
        """Estimates an upper bound on ``KL(self || Dirichlet(alpha))``, nats, ``batch_shape``.

        By convexity of the divergence ``KL(q || p) <= E_beta[KL(Dirichlet(beta) || p)]``; the inner
        divergence has a closed form and the mean over `num_samples` pathwise draws of ``beta`` is
        unbiased for the bound. It is smallest when the Gammas are points, so minimising it removes
        the hierarchy. The inner divergence grows as ``1 / beta_k``, whose mean is infinite for
        ``a_k <= 1``. With a `smallest_beta` above 0 the estimate is finite, and need be no bound.

        Args:
            alpha: Concentrations of the prior, broadcastable to ``batch_shape + (K,)``.
            num_samples: Draws of ``beta`` for the estimate, at least 1.
            smallest_beta: Drawn concentrations below it count as it.

        Returns:
            The estimate, in the dtype of the parameters; >= 0 but for rounding.

        Raises:
            ValueError: When `num_samples` or `alpha` is not positive.
        """
        shape = self._extended_shape(_samples(num_samples))
        log_beta = _log_gamma_sample(self.concentration.double().log().expand(shape))
        beta = (log_beta - self.rate.double().log()).clamp(min=_lowest(smallest_beta)).exp()
        inner = kl_divergence(Dirichlet(beta, validate_args=False), _prior(alpha, shape))
        return inner.mean(0).to(self.concentration.dtype)


def _lowest(smallest_beta: float) -> float:
    """Returns the lowest log concentration that a draw may have."""
    return math.log(smallest_beta) if smallest_beta else MINIMAL_LOG_CONCENTRATION


def _check_range(what: str, values: Tensor, low: float, high: float) -> None:
    valid = (values >= low) & (values <= high)
    if not torch._is_all_true(valid):  # which `torch.func.vmap` knows, as torch's own checks use it
        actual = float(values[~valid][0])
        raise ValueError(f"Expected Gamma {what} in [{low:g}, {high:g}], actual {actual:g}")


def _checked_nodes(num_nodes: tuple[int, int] | None) -> tuple[int | None, int | None]:
    if num_nodes is None:
        return (None, None)
    pair = tuple(num_nodes) if isinstance(num_nodes, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(n, int) and n >= 8 for n in pair):
        raise ValueError(f"Expected num_nodes a pair of integers >= 8, actual {num_nodes}")
    return pair


def _prior(alpha: Tensor, shape: torch.Size) -> Dirichlet:
    """Returns ``Dirichlet(alpha)`` in float64, of shape ``shape``."""
    if not (alpha > 0).all():
        raise ValueError(f"Expected alpha > 0, actual {alpha}")
    return Dirichlet(alpha.double().expand(shape), validate_args=False)


def _samples(count: int) -> torch.Size:
    if count < 1:
        raise ValueError(f"Expected num_samples >= 1, actual {count}")
    return torch.Size((count,))


def _log_gamma_sample(log_shape: Tensor) -> Tensor:
    """Draws ``log Gamma(shape, 1)``: log Gamma(a) = log Gamma(a + 1) + log(U) / a, with gradients.

    Stated in the log of the shape, whose gradient stays finite where the shape's own overflows.
    """
    boosted = torch._standard_gamma(log_shape.exp() + 1).log()
    uniform = torch.rand_like(log_shape).clamp(min=torch.finfo(log_shape.dtype).tiny)
    return boosted + uniform.log() * (-log_shape).exp()
