"""What a method found; the record of a run keeps the details as they stand here."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bydore_pyro import files
from bydore_pyro.mixture import Mixture


@dataclass(frozen=True, kw_only=True)
class Details:
    """What is worth knowing of how a method found a mixture.

    Args:
        steps: Training steps of its proxies; of different lengths, of the shortest.
        runs: How many proxies it trained on mixtures.
    """

    steps: files.Number | None = None
    runs: files.Number | None = None


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
