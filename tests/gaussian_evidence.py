"""Gaussian evidence as gradients give it, and its exact posterior for few domains."""

from __future__ import annotations

import torch
from torch import Tensor

from bydore_pyro.core.matching import Matching
from bydore_pyro.core.sparse import SparseDirichlet


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
    """Returns means and standard deviations of three weights and the scale, ``(4,)``, on a grid.

    Of the log of the weights' ratios: the prior has spikes at the faces of the simplex.
    """
    t = torch.linspace(-1, 1, 401, dtype=torch.float64)
    ticks, width = 80 * t**3 + 6 * t, (240 * t**2 + 6).log()
    ratios = torch.cartesian_prod(ticks, ticks)
    log_w = torch.cat([ratios, torch.zeros(len(ratios), 1)], 1).log_softmax(1)
    w = log_w.exp()
    log_volume = log_w.sum(1) + torch.cartesian_prod(width, width).sum(1)
    prior = SparseDirichlet.like(linear).log_prob_of_log(log_w) + log_volume
    s = torch.linspace(-1, 1, 201, dtype=torch.float64).exp()
    height = (w @ linear)[:, None] * s - ((w @ precision) * w).sum(1)[:, None] * s.square() / 2
    height = prior[:, None] + height - s.log().square() / 2
    mass = height.flatten().softmax(0).reshape(height.shape)  # by log s
    by_w, by_s = mass.sum(1), mass.sum(0)
    mean = torch.cat([by_w @ w, (by_s @ s)[None]])
    square = torch.cat([by_w @ w.square(), (by_s @ s.square())[None]])
    return mean, (square - mean.square()).sqrt()


def matching_of(optimum: Tensor, certainty: float = 400.0) -> Matching:
    """Evidence for `optimum` of domains that are somewhat alike and cover the target."""
    count, optimum = len(optimum), optimum.double()
    gram = (torch.eye(count) + 0.5).double() / count
    precision = certainty * gram
    return Matching(
        gram=gram,
        cross=gram @ optimum,
        covariance=gram / certainty,
        linear=precision @ optimum,
        precision=precision,
        optimum=optimum.clamp(min=0),
        target=float(optimum @ gram @ optimum),
    )
