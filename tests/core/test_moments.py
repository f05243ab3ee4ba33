"""The moments against another quadrature, and at the ends of their range."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from bydore_pyro.core.moments import exact_covariance, exact_mean, exact_variance


@pytest.mark.parametrize("domains", [2, 17, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_moments_agree_with_another_quadrature(domains: int, seed: int) -> None:
    """SciPy's adaptive quadrature, for shapes and rates from 0.05 to 1e4."""
    generator = torch.Generator().manual_seed(seed)
    spread = torch.rand(2, domains, generator=generator, dtype=torch.float64)
    a, b = 0.05 * (1e4 / 0.05) ** spread
    means, covariances = exact_mean(a, b), exact_covariance(a, b)
    torch.testing.assert_close(covariances.diagonal(), exact_variance(a, b))

    def integrate(factor: Callable[[Tensor], Tensor]) -> float:
        def integrand(log_t: float) -> float:
            t = torch.tensor(log_t, dtype=torch.float64).exp()
            return (factor(t) * torch.exp(-(a * torch.log1p(t / b)).sum()) * t).item()

        center = -math.log((a / b).sum())
        far = [center - 45, *(center + x for x in range(-12, 13, 3)), center + 45]
        pieces = [quad(integrand, x, y, epsabs=1e-13, limit=200)[0] for x, y in pairwise(far)]
        return sum(pieces)

    for k in (0, domains - 1):
        mean = integrate(lambda t, k=k: a[k] / (b[k] + t))
        assert means[k].item() == pytest.approx(mean, abs=1e-9)
        other = (k + 1) % domains
        second = integrate(
            lambda t, k=k, o=other: -torch.expm1(-t) * a[k] * a[o] / ((b[k] + t) * (b[o] + t))
        )
        covariance = second - mean * means[other].item()
        assert covariances[k, other].item() == pytest.approx(covariance, abs=1e-9)


@pytest.mark.parametrize("a", [1e-6, 1e-3, 0.05])
def test_moments_of_tiny_shapes(a: float) -> None:
    """Equal domains have mean 1 / K whatever the shape; as a -> 0 the weights go to one vertex."""
    shapes, rates = torch.full((3,), a, dtype=torch.float64), torch.ones(3)
    mean, variance = exact_mean(shapes, rates), exact_variance(shapes, rates)
    torch.testing.assert_close(mean, torch.full_like(mean, 1 / 3), atol=1e-9, rtol=0)
    assert (variance < 2 / 9 + 1e-9).all()
    if a < 1e-2:
        torch.testing.assert_close(variance, torch.full_like(mean, 2 / 9), atol=0.01, rtol=0)
