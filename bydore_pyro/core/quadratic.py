"""The least of a convex quadratic, ``1/2 u'Mu - b.u``, over ``u >= 0`` and over the simplex."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["least", "least_of", "square_root", "value_and_derivatives"]

ROUNDS, SUMMED = 20, 1e-12  # of the multiplier, and the error of the sum


def square_root(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Returns ``R`` with ``M = R'R`` for ``M (K, K)``, whose negative eigenvalues count as 0, and
    its inverse's transpose."""
    values, vectors = torch.linalg.eigh(matrix)
    values = values.clamp(min=1e-9 * float(values.max()))
    return (vectors * values.sqrt()).T, (vectors / values.sqrt()).T


def least(roots: tuple[Tensor, Tensor], vector: Tensor) -> Tensor:
    """Minimises ``1/2 u'Mu - b.u`` over ``u >= 0 (K,)`` for the `square_root` of ``M``."""
    from scipy.optimize import nnls

    root, inverse = roots  # || R u - R^-T b ||
    return torch.from_numpy(nnls(root.numpy(), (inverse @ vector).numpy())[0])


def least_of(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """Returns what minimises ``1/2 u'Mu - b.u`` over the simplex for any ``b``, by an augmented
    Lagrangian around `least`; the root of ``M`` is found once."""
    stiff = matrix.trace().clamp(min=1e-300)
    roots = square_root(matrix + stiff)

    def solved(vector: Tensor) -> Tensor:
        vector = vector - vector.max().clamp(max=0)  # the same on the simplex, and nearer to it
        multiplier = torch.zeros_like(stiff)
        for _ in range(ROUNDS):
            found = least(roots, vector + stiff - multiplier)
            excess = found.sum() - 1
            if float(excess.abs()) < SUMMED:
                break
            multiplier = multiplier + stiff * excess
        return found / found.sum()

    return solved


def value_and_derivatives(
    function: Callable[[Tensor], Tensor], at: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns a function's values, elementwise, and its first and second derivatives."""
    with torch.enable_grad():
        at = at.detach().requires_grad_()
        value = function(at)
        (once,) = torch.autograd.grad(value.sum(), at, create_graph=True)
        twice = torch.zeros_like(at)
        if once.requires_grad:
            (twice,) = torch.autograd.grad(once.sum(), at)
    return value.detach(), once.detach(), twice
