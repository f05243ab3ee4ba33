"""What regressions refuse, and how predictions and measurements rank alike."""

from __future__ import annotations

import numpy as np
from scipy import stats

from bydore_pyro.utils import DataError

__all__ = ["require_runs", "spearman_x100"]


def require_runs(losses: np.ndarray) -> None:
    """Refuses losses ``(N,)`` that tell nothing of mixtures.

    Raises:
        DataError: When there are fewer than 2, or all are one.
    """
    if len(losses) < 2:
        raise DataError(f"Expected at least 2 runs for a regression, found {len(losses)}")
    if np.ptp(losses) == 0:
        raise DataError(f"Expected runs that differ in loss, found {losses[0]:g} in all")


def spearman_x100(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Returns the rank correlation times 100, in [-100, 100]; None if one ``(N,)`` is constant."""
    if min(np.ptp(predicted), np.ptp(measured)) == 0:
        return None
    return 100 * float(stats.spearmanr(predicted, measured).statistic)
