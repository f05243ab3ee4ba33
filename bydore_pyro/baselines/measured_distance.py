"""How far a mixture lies from the runs that were measured, in shares of tokens and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Distance", "distance_to_runs"]

CHUNK = 256  # mixtures whose distances are held at once
FAR = 0.94  # of the runs that lie nearer to another: beyond, nothing like the mixture was run


@dataclass(frozen=True, kw_only=True)
class Distance:
    """How a mixture's nearest run compares with the runs' own nearest ones.

    Args:
        nearest: Total variation to the nearest run: the share of tokens that lies elsewhere.
        run: Its row in the table.
        typical: Median, over the runs, of the distance to the nearest other mixture.
        farther_than: Share of the runs that lie nearer to another than this mixture to any.
    """

    nearest: float
    run: int
    typical: float
    farther_than: float

    @property
    def far(self) -> bool:
        """Whether nothing like the mixture was run."""
        return self.farther_than > FAR

    def words(self, name: str) -> str:
        """Returns a sentence or two on it.

        Args:
            name: Of the nearest run.
        """
        nearest, typical, farther = (
            f"{100 * share:.0f} %" for share in (self.nearest, self.typical, self.farther_than)
        )
        told = (
            f"The nearest run ({name}) has {nearest} of its tokens elsewhere; the runs among "
            f"themselves have {typical} (median)"
        )
        if self.far:
            return (
                f"{told}, and {farther} of them lie nearer to another: nothing like this mixture "
                "was run, so what is predicted of it was never checked."
            )
        return f"{told}: mixtures like this one were run."


def distance_to_runs(mixture: np.ndarray, runs: np.ndarray) -> Distance:
    """Compares a mixture ``(K,)`` with the mixtures that were run ``(N, K)``."""
    own = np.abs(runs - mixture).sum(1) / 2
    distinct = np.unique(runs, axis=0)
    nearest = np.zeros(len(distinct))
    for start in range(0, len(distinct), CHUNK):
        part = distinct[start : start + CHUNK]
        gaps = np.stack([np.abs(distinct - one).sum(1) / 2 for one in part])
        gaps[np.arange(len(part)), start + np.arange(len(part))] = np.inf
        nearest[start : start + CHUNK] = gaps.min(1) if len(distinct) > 1 else 0.0
    return Distance(
        nearest=float(own.min()),
        run=int(own.argmin()),
        typical=float(np.median(nearest)),
        farther_than=float((nearest < own.min()).mean()),
    )
