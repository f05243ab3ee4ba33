"""Bounds of weights on the simplex: which domains they leave free, and what is within them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Bounds"]

ROOM = 1e-9  # two bounds of a domain that are nearer to each other leave one weight
ROUNDING = 5e-7  # sums of bounds that are nearer to 1 are 1: those in float32 are not exact
EQUAL = 1e-12  # by which sums in float64 may differ


@dataclass(frozen=True)
class Bounds:
    """``lower <= w <= upper`` and ``sum w = 1``; `of` makes and checks them.

    Attributes:
        lower: ``(K,)``.
        upper: ``(K,)``.
        inside: Weights within the bounds ``(K,)``, each at the same share of the way from its lower
            bound to its upper one. Where a domain is not free this is its weight.
        free: Which domains have more than one possible weight ``(K,)``, boolean: none, or two or
            more.
        implied: Which upper bounds follow from the others' lower ones ``(K,)``, boolean.
    """

    lower: Tensor
    upper: Tensor
    inside: Tensor
    free: Tensor
    implied: Tensor

    @classmethod
    def of(cls, lower: Tensor, upper: Tensor) -> Bounds:
        """Checks bounds ``(K,)``, float64, and finds the free domains.

        Raises:
            ValueError: When no mixture is within the bounds.
        """
        if not ((lower >= 0) & (lower <= upper)).all():
            raise ValueError("Expected 0 <= at_least <= at_most, actual other bounds")
        above, below = 1 - float(lower.sum()), float(upper.sum()) - 1
        if min(above, below) < -ROUNDING:
            raise ValueError(
                "Expected at_least to sum to 1 at most and at_most to 1 at least, actual "
                f"{1 - above:g} and {1 + below:g}"
            )
        width = upper - lower
        share = above / max(float(width.sum()), 1e-300)
        inside = (lower + min(max(share, 0.0), 1.0) * width).clamp(lower, upper)
        free = width > ROOM
        # Of all weights but one the last follows; and sums of 1 leave nothing to share.
        if int(free.sum()) == 1 or min(above, below) <= ROUNDING:
            free = torch.zeros_like(free)
        return cls(lower, upper, inside, free, upper >= lower + above - EQUAL)

    def nearest(self, weights: Tensor) -> Tensor:
        """Returns weights ``(..., K)`` within the bounds, of sum 1, near others.

        Those that break a bound are set to it. What their sum then misses is shared among all, each
        by its room up to its bound.
        """
        within = weights.clamp(self.lower, self.upper)
        missing = 1 - within.sum(-1, keepdim=True)
        room = torch.where(missing > 0, self.upper - within, within - self.lower)
        share = (missing / room.sum(-1, keepdim=True).clamp(min=1e-300)).clamp(-1, 1)
        return (within + share * room).clamp(self.lower, self.upper)

    def prices(self, rise: Tensor) -> Tensor:
        """Returns prices ``(K,)`` where no domain is free: the rise of a function for a unit of
        weight more of each, less that of the domains that would give it.

        Those are the one whose weight follows from the others', the one that is cheapest to take
        from or to give to where all are at their bounds of one side, and all in proportion to their
        weights where every bound is an equality.

        Args:
            rise: Derivatives of the function by the weights ``(K,)``.
        """
        some = rise[self.upper - self.lower > ROOM]
        if not len(some):
            return rise - self.inside @ rise / self.inside.sum()
        at_lower = bool((self.inside - self.lower <= self.upper - self.inside).all())
        return rise - (some.min() if at_lower else some.max())
