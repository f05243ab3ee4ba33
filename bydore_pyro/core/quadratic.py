"""The least value of a quadratic, by non-negative numbers and on the simplex."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["least", "least_on_simplex"]

ROUNDS, ENOUGH = 20, 1e-12  # of the multiplier, and the error of the sum


def least(matrix: Tensor, vector: Tensor) -> Tensor:
    """Minimises ``1/2 u'Mu - b.u`` over ``u >= 0``; negative eigenvalues of M count as 0.

    Args:
        matrix: ``M (K, K)``, symmetric, float64.
        vector: ``b (K,)``.
    """
    return _least(*_root(matrix), vector)


def least_on_simplex(matrix: Tensor, vector: Tensor) -> Tensor:
    """The same over ``u >= 0`` that sum to 1, by an augmented Lagrangian."""
    stiff = matrix.trace().clamp(min=1e-300)
    root = _root(matrix + stiff)
    multiplier = torch.zeros_like(stiff)
    for _ in range(ROUNDS):
        found = _least(*root, vector + stiff - multiplier)
        excess = found.sum() - 1
        if float(excess.abs()) < ENOUGH:
            break
        multiplier = multiplier + stiff * excess
    return found / found.sum()


def _root(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Returns ``R`` with ``M = R'R``, and its inverse's transpose."""
    values, vectors = torch.linalg.eigh(matrix)
    values = values.clamp(min=1e-9 * float(values.max()))
    return (vectors * values.sqrt()).T, (vectors / values.sqrt()).T


def _least(root: Tensor, inverse: Tensor, vector: Tensor) -> Tensor:
    """Minimises ``|| R u - R^-T b ||`` over ``u >= 0``."""
    from scipy.optimize import nnls

    found, _ = nnls(root.numpy(), (inverse @ vector).numpy())
    return torch.from_numpy(found)
