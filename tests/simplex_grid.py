"""Quadrature on the simplex of three weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def by_grid(log_likelihood: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Returns means and standard deviations ``(..., 3)`` under a flat prior, by quadrature.

    The likelihood maps weights ``(G, 3)`` to logs ``(..., G)``.
    """
    u = (torch.arange(300).double() + 0.5) / 300
    first, second = torch.cartesian_prod(u, u).unbind(-1)
    first = 1 - (1 - first).sqrt()
    second = (1 - first) * second
    w = torch.stack([first, second, 1 - first - second], -1)
    p = log_likelihood(w).softmax(-1)
    mean = p @ w
    return mean, (p @ w.square() - mean.square()).sqrt()
