"""A small scale's predictions, calibrated to a few runs of a large one.

    loss_large = a + b predicted_small + error,

by least squares. Intervals are those of a line's next observation, Student's t with N - 2 degrees
of freedom, so they are wide where the large runs are few, and wider away from them. The regression
is the small scale's; a line with b > 0 leaves its ranks, and so its optimum, where they were.

References:
    Draper and Smith, Applied Regression Analysis, on the prediction interval of a line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from bydore_pyro.baselines.regression import Regression
from bydore_pyro.baselines.regression_input import spearman_x100
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.utils import DataError

__all__ = ["FEWEST_LARGE", "ScaledUp", "scale_up"]

FEWEST_LARGE = 4  # runs: a line has two parameters, its error a third


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledUp:
    """A regression's predictions at another scale.

    Args:
        model: Predicts the small scale.
        intercept: a.
        slope: b; not positive where the scales do not agree.
        error: Standard deviation of a large run about the line, in the large losses' unit.
        centre: Mean small prediction of the large runs.
        spread: Sum of their squared distances from it.
        runs: Number of large runs ``N``.
        spearman_x100: Rank correlation of the small predictions with the large runs, times 100.
    """

    model: Regression
    intercept: float
    slope: float
    error: float
    centre: float
    spread: float
    runs: int
    spearman_x100: float

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the losses ``(S,)`` of mixtures ``(S, K)`` at the large scale."""
        return self.intercept + self.slope * self.model.predict(weights)

    def predict_interval(self, weights: np.ndarray) -> np.ndarray:
        """Returns the 94 % intervals (low, high) of one large run on each mixture ``(S, 2)``."""
        small = self.model.predict(weights)
        mean = self.intercept + self.slope * small
        more = 1 + 1 / self.runs + (small - self.centre) ** 2 / self.spread
        half = stats.t.ppf((1 + HDI_PROBABILITY) / 2, self.runs - 2) * self.error * np.sqrt(more)
        return np.stack([mean - half, mean + half], axis=1)

    def gain(self, weights: np.ndarray, other: np.ndarray) -> tuple[float, float]:
        """Returns how much lower the first mixture's large loss is than the other's; how surely.

        Args:
            weights: The first mixture ``(K,)``.
            other: The other one ``(K,)``.

        Returns:
            The gain, in the unit of the large losses, > 0 where the first is better; and the
            probability that its run is the lower of two new ones, whose errors about the line are
            independent.
        """
        ours, others = self.model.predict(np.stack([weights, other]))
        gain = self.slope * (others - ours)
        unsure = self.error * np.sqrt(2 + (others - ours) ** 2 / self.spread)
        return float(gain), float(stats.t.cdf(gain / unsure, self.runs - 2))


def scale_up(model: Regression, weights: np.ndarray, losses: np.ndarray) -> ScaledUp:
    """Fits the line from a small scale's predictions to large runs.

    Args:
        model: Predicts the small scale.
        weights: Of the large runs ``(N, K)``.
        losses: Of the large runs ``(N,)``.

    Raises:
        DataError: When there are fewer than 4 large runs, or the small scale predicts one loss for
            all of them.
    """
    if len(losses) < FEWEST_LARGE:
        raise DataError(f"Expected at least {FEWEST_LARGE} large runs, found {len(losses)}")
    small = model.predict(weights)
    centre, spread = float(small.mean()), float(((small - small.mean()) ** 2).sum())
    if not spread > 0:
        raise DataError("Expected large runs with different predicted losses, found all equal")
    line = stats.linregress(small, losses)
    residual = losses - line.intercept - line.slope * small
    return ScaledUp(
        model=model,
        intercept=float(line.intercept),
        slope=float(line.slope),
        error=float(np.sqrt((residual**2).sum() / (len(losses) - 2))),
        centre=centre,
        spread=spread,
        runs=len(losses),
        spearman_x100=spearman_x100(small, losses) or 0.0,
    )
