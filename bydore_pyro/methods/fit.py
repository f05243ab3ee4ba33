"""What a method found; the record of a run keeps its details unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bydore_pyro.mixture import Mixture
from bydore_pyro.tables import Details

__all__ = ["Details", "Fit"]


@dataclass(frozen=True, kw_only=True)
class Details(RegressionDetails):
    """Facts about a fit beside its weights.

    Args:
        steps: Training steps of the method's proxies; of different lengths, of the shortest.
    """

    steps: Number | None = None


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a method found.

    Args:
        mixture: The weights.
        trajectory: The weights over the method's steps ``(steps, K)``, where it has any.
        details: What else is worth knowing.
        draws: Independent draws of the mixture ``(D, K)`` that its intervals come from, where they
            are still to be written.
    """

    mixture: Mixture
    trajectory: np.ndarray | None = None
    details: Details = field(default_factory=Details)
    draws: np.ndarray | None = None
