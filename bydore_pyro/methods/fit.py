"""What a method found; the record of a run keeps the details as they stand here."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bydore_pyro.mixture import Mixture
from bydore_pyro.tables import Details

__all__ = ["Fit"]


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
