"""The least value of a quadratic on the simplex, and the most likely weights in effective shares.

Effective shares are those of text that is read again, which teaches less than fresh text.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Effective", "least", "least_on_simplex", "most_likely_weights"]

Effective = Callable[[Tensor], Tensor]  # weights to effective shares, each by its own weight alone

ROUNDS, SUMMED = 20, 1e-12  # of the multiplier, and the error of the sum
STEPS, HALVINGS = 200, 40
ENOUGH = 1e-10  # change of the weights in sum at which they stand


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
        if float(excess.abs()) < SUMMED:
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


def most_likely_weights(linear: Tensor, precision: Tensor, effective: Effective) -> Tensor:
    """Maximises ``h . v(w) - 1/2 v(w)' Lambda v(w)`` over the simplex.

    Where every share grows with its weight, ever more slowly, and no shares of a lesser sum than
    the simplex allows do better, there is one maximum: in ``v`` that of a concave function on a
    convex set. Newton's steps find it, each a quadratic problem on the simplex.

    Args:
        linear: ``h (K,)``.
        precision: ``Lambda (K, K)``, symmetric and positive semi-definite.
        effective: ``v``, each share a function of its own weight alone.

    Returns:
        The weights ``(K,)``, in float64.
    """
    linear, precision = linear.double(), precision.double()

    def height(weights: Tensor) -> Tensor:
        shares = effective(weights)
        return linear @ shares - shares @ precision @ shares / 2

    weights = torch.full_like(linear, 1 / len(linear))
    for _ in range(STEPS):
        slope, bend, shares = _derivatives(effective, weights)
        uphill = linear - precision @ shares  # by shares, (K,)
        # Where a share's slope falls, its weight's way is shorter; the other sign is no maximum's.
        curvature = slope[:, None] * precision * slope + (-uphill * bend).clamp(min=0).diag()
        goal = least_on_simplex(curvature, curvature @ weights + slope * uphill)
        step, before = goal - weights, height(weights)
        for _ in range(HALVINGS):
            if height(weights + step) >= before:
                break
            step = step / 2
        else:
            return weights
        weights = weights + step
        if float(step.abs().sum()) < ENOUGH:
            break
    return weights


def _derivatives(effective: Effective, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns first and second derivatives of the shares, and the shares, ``(K,)`` each."""
    with torch.enable_grad():
        at = weights.clone().requires_grad_()
        shares = effective(at)
        (slope,) = torch.autograd.grad(shares.sum(), at, create_graph=True)
        bend = torch.zeros_like(at)
        if slope.requires_grad:
            (bend,) = torch.autograd.grad(slope.sum(), at)
    return slope.detach(), bend, shares.detach()
