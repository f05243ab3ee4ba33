"""Convex programmes over a box within the simplex, many at once, by a logarithmic barrier.

Each minimises ``f(x)`` with ``lower < x < upper`` and a fixed ``sum x``, further unknowns being
free. At a barrier ``t`` it finds the minimum of ``f(x) - t sum log(x - lower) - t sum log(upper -
x)`` by Newton's steps, and then at a smaller ``t``. With ``m`` constraints ``f`` is at most ``m t``
above its least. ``f`` is expected in a unit in which 1e-6 is little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["BarrierMinimum", "Curvature", "barrier_minimum"]

GAP, SHRINK = 1e-6, 0.05  # of f, in its own unit
STEPS, HALVINGS = 50, 50  # Newton's at one barrier
# A step's promise over the barrier: on the way, and at last, where distances to bounds are prices.
ENOUGH, EXACT = 1e-2, 1e-7
RISE = 0.1  # how much of a promise must be kept
TO_THE_EDGE = 0.99  # of the way to the nearest bound

DENSE = 64  # unknowns up to which Hessians are formed; of more they are only multiplied
CLOSE, MOST = 1e-3, 300  # conjugate gradients: what a step may lack of its promise, and how many


class Curvature(NamedTuple):
    """Hessians ``(B, N, N)``, unformed.

    Attributes:
        product: Of them with directions ``(B, D, N)``, the same shape.
        diagonal: A part of theirs, > 0, by which directions are scaled ``(B, N)``.
    """

    product: Callable[[Tensor], Tensor]
    diagonal: Tensor


# Of points ``(B, N)`` and the barrier: f ``(B,)`` with the barriers of f's own constraints, not a
# number where they are broken; and its gradient with its curvature.
Value = Callable[[Tensor, float], Tensor]
Derivatives = Callable[[Tensor, float], tuple[Tensor, Curvature]]


class BarrierMinimum(NamedTuple):
    """Where each programme has its minimum ``(B, N)``, and the last barrier."""

    points: Tensor
    barrier: float


def barrier_minimum(
    value: Value,
    derivatives: Derivatives,
    start: Tensor,
    lower: Tensor,
    upper: Tensor,
    constraints: int,
    first_gap: float = 0.1,
) -> BarrierMinimum:
    """Minimises convex functions, each within the bounds, on the simplex.

    Args:
        value: See `Value`.
        derivatives: See `Derivatives`.
        start: Points strictly within all constraints ``(B, N)``, float64; the sum of the first K
            unknowns stays what it is.
        lower: Of the first K unknowns ``(K,)``, finite; the others are free.
        upper: Likewise; infinite where there is none.
        constraints: How many f has itself.
        first_gap: How far above its least f may be at the first barrier; small where the start is
            good.

    Raises:
        ValueError: When a start breaks a constraint, or a derivative is not finite.
    """
    count, unbounded = len(lower), upper.isinf()
    simplex = torch.zeros_like(start)
    simplex[:, :count] = 1
    constraints += 2 * count - int(unbounded.sum())
    points, barrier = start, first_gap / constraints

    def barred(points: Tensor) -> Tensor:
        above, below = points[:, :count] - lower, upper - points[:, :count]
        logs = above.log() + below.masked_fill(unbounded, 1.0).log()
        # What is not within its bounds has no logarithm.
        found = value(points, barrier) - barrier * logs.sum(1)
        return torch.where(found.isnan(), torch.inf, found)

    now = barred(start)
    if not now.isfinite().all():
        bad = int((~now.isfinite()).nonzero()[0])
        raise ValueError(f"Expected starts strictly within all constraints, actual {bad} is not")
    while True:
        last = barrier * constraints <= GAP
        for _ in range(STEPS):
            gradient, curvature = derivatives(points, barrier)
            above, below = points[:, :count] - lower, upper - points[:, :count]
            gradient[:, :count] += barrier * (1 / below - 1 / above)
            bound = torch.zeros_like(points)
            bound[:, :count] = barrier * (above**-2 + below**-2)
            step = newton_step(gradient, curvature, bound, simplex)
            promised = -(gradient * step).sum(1)
            if not promised.isfinite().all():
                bad = int((~promised.isfinite()).nonzero()[0])
                raise ValueError(f"Expected finite derivatives, actual programme {bad} has others")
            if float(promised.max()) <= (EXACT if last else ENOUGH) * barrier:
                break
            move = step[:, :count]
            room = torch.where(move > 0, below, above) / move.abs().clamp(min=1e-300)
            size = (TO_THE_EDGE * room.amin(1)).clamp(max=1)
            now = barred(points)
            for _ in range(HALVINGS):
                tried = barred(points + size[:, None] * step)
                kept = tried <= now - RISE * size * promised + 1e-14 * now.abs()
                if kept.all():
                    break
                size = torch.where(kept, size, size / 2)
            points = points + torch.where(kept, size, 0)[:, None] * step
            if not kept.any():  # what is left is rounding
                break
        if last:
            return BarrierMinimum(points, barrier)
        barrier *= SHRINK


def newton_step(gradient: Tensor, curvature: Curvature, bound: Tensor, fixed: Tensor) -> Tensor:
    """Returns Newton's steps ``(B, N)`` that leave ``fixed . x`` as it is.

    Args:
        gradient: ``(B, N)``.
        curvature: Of the function.
        bound: What the barrier adds to the Hessians' diagonal ``(B, N)``.
        fixed: ``(B, N)``.
    """
    if gradient.shape[1] > DENSE:
        return conjugate_step(gradient, curvature, bound, fixed)
    unit = torch.eye(gradient.shape[1]).double()
    hessian = curvature.product(unit.expand(len(gradient), -1, -1)) + bound.diag_embed()
    scale = hessian.diagonal(dim1=1, dim2=2).rsqrt()  # entries differ by many orders
    scaled = scale[:, :, None] * hessian * scale[:, None]
    root = torch.linalg.cholesky_ex(scaled + 1e-14 * unit).L
    both = torch.stack([scale * gradient, scale * fixed], 2)
    down, across = (scale[:, :, None] * torch.cholesky_solve(both, root)).unbind(2)
    share = (fixed * down).sum(1) / (fixed * across).sum(1)
    return share[:, None] * across - down


def conjugate_step(gradient: Tensor, curvature: Curvature, bound: Tensor, fixed: Tensor) -> Tensor:
    """Returns nearly `newton_step`, from products with the Hessians alone; it leads downhill.

    References:
        Gould, Hribar and Nocedal (2001), On the solution of equality constrained quadratic
        programming problems, SIAM J. Sci. Comput. 23: projected conjugate gradients.
    """
    inverse = 1 / (curvature.diagonal + bound)
    across = inverse * fixed
    across = across / (fixed * across).sum(1, keepdim=True)

    def freed(slope: Tensor) -> Tensor:  # of its part along `fixed`, which is large near the end
        return slope - fixed * (across * slope).sum(1, keepdim=True)

    step, left = torch.zeros_like(gradient), freed(-gradient)
    ahead = inverse * left
    size = (left * ahead).sum(1, keepdim=True)  # about what the promise still lacks
    promised = torch.zeros_like(size)
    for _ in range(MOST):
        bent = curvature.product(ahead[:, None])[:, 0] + bound * ahead
        bend = (ahead * bent).sum(1, keepdim=True)
        more = (size > CLOSE * promised) & (bend > 0)
        if not more.any():
            break
        go = torch.where(more, size / bend, 0)
        step, promised = step + go * ahead, promised + go * size
        left, before = freed(left - go * bent), size
        along = inverse * left
        size = (left * along).sum(1, keepdim=True)
        ahead = along + torch.where(more, size / before, 0) * ahead
    return step
