"""Gaussian evidence as gradients give it, and its exact posterior for few domains."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian_evidence(
    domains: int, deviation: float, *, alike: int = 0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Returns ``h (K,)`` and ``Lambda (K, K)`` of noisy evidence for a mixture from Dirichlet(1).

    Args:
        domains: K.
        deviation: About that of the weights under the evidence alone.
        alike: Pairs of domains (the first two, the next two, ...) with similar gradients.
        seed: Of all that is drawn.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    gradients = normal(domains, 64) + normal(64)
    for pair in range(alike):
        gradients[2 * pair + 1] = gradients[2 * pair] + 0.5 * normal(64)
    a = gradients @ gradients.T / 64
    ones = torch.ones(domains, dtype=torch.float64)
    truth = torch._sample_dirichlet(ones, generator=generator)
    b = a + 0.2 * a.diag().diag()
    precision = a @ torch.linalg.solve(b, a)
    b = b * (deviation / torch.linalg.inv(precision).diag().sqrt().mean()).square()
    precision = a @ torch.linalg.solve(b, a)
    c = a @ truth + torch.linalg.cholesky(b) @ normal(domains)
    return a @ torch.linalg.solve(b, c), (precision + precision.T) / 2


def exact_moments(linear: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
    """Returns means and standard deviations of three weights and the scale, ``(4,)``, on a grid."""
    ticks = (torch.arange(300, dtype=torch.float64) + 0.5) / 300
    w = torch.cartesian_prod(ticks, ticks)
    w = torch.cat([w, 1 - w.sum(1, keepdim=True)], 1)
    w = w[w[:, 2] > 0]
    s = torch.linspace(-1.5, 1.5, 301, dtype=torch.float64).exp()
    height = (w @ linear)[:, None] * s - ((w @ precision) * w).sum(1)[:, None] * s.square() / 2
    mass = (height - s.log().square() / 2).flatten().softmax(0).reshape(height.shape)  # by log s
    by_w, by_s = mass.sum(1), mass.sum(0)
    mean = torch.cat([by_w @ w, (by_s @ s)[None]])
    square = torch.cat([by_w @ w.square(), (by_s @ s.square())[None]])
    return mean, (square - mean.square()).sqrt()
