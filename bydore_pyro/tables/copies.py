"""Rows that stand more than once in a table: copies of one run, which count once.

Two runs on one mixture differ in their losses, and say how large the noise is. Copies do not
differ: a regression would take the noise for none, and believe every loss to its last digit.
"""

from __future__ import annotations

import numpy as np

SAME = 1e-6  # weights, and losses as shares of their range, are the same up to here


def first_of_copies(weights: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Returns which runs ``(N,)``, of weights ``(N, K)`` and losses ``(N, T)``, are no copies of an
    earlier one."""
    unit = np.maximum(np.ptp(losses, axis=0), 1e-300)
    rows = np.concatenate([weights, (losses - losses.min(0)) / unit], 1)
    _, first = np.unique(np.round(rows / SAME), axis=0, return_index=True)
    return np.isin(np.arange(len(rows)), first)
