"""What regressions are given, checked, and how predictions and measurements rank alike."""

from __future__ import annotations

import numpy as np
from scipy import stats

from bydore_pyro.utils import DataError

__all__ = ["checked_mixtures", "checked_runs", "spearman_x100"]


def checked_mixtures(weights: np.ndarray, domains: int) -> np.ndarray:
    """Returns weights, checked, as ``(S, K)``."""
    weights = np.asarray(weights, float)
    if weights.ndim != 2 or weights.shape[1] != domains:
        raise ValueError(f"Expected weights of shape (S, {domains}), actual {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("Expected finite weights >= 0, found others")
    return weights


def checked_runs(weights: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights ``(N, K)`` and losses ``(N,)``, checked."""
    weights, losses = np.asarray(weights, float), np.asarray(losses, float)
    weights = checked_mixtures(weights, weights.shape[-1] if weights.ndim else 1)
    if losses.shape != (len(weights),):
        raise ValueError(f"Expected losses of shape ({len(weights)},), actual {losses.shape}")
    if not np.isfinite(losses).all():
        raise ValueError("Expected finite losses, found others")
    if len(losses) < 2:
        raise DataError(f"Expected at least 2 runs for a regression, found {len(losses)}")
    if np.ptp(losses) == 0:
        raise DataError(f"Expected runs that differ in loss, found {losses[0]:g} in all")
    return weights, losses


def spearman_x100(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Returns the rank correlation times 100, ``(N,)`` each; None where one side is constant."""
    if min(np.ptp(predicted), np.ptp(measured)) == 0:
        return None
    return 100 * float(stats.spearmanr(predicted, measured).statistic)
