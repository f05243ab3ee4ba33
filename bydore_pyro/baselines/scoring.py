"""Given mixtures, scored by a regression of finished runs, at its own scale or at a larger one.

Predictions at a larger scale are a line from the small scale's, fitted to a few large runs,

    loss_large = a + b predicted_small + error,

with the intervals of a line's next observation, Student's t with N - 2 degrees of freedom.

References:
    Draper and Smith, Applied Regression Analysis, on the prediction interval of a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bydore_pyro.baselines.proposal import gain_over
from bydore_pyro.baselines.regression import AnyRegression, interval_of_run, spearman_x100
from bydore_pyro.baselines.simulated import TrustRegion
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.utils import DataError

__all__ = ["FEWEST_LARGE", "ScaledUp", "scale_up", "score_mixtures"]

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

    model: Any
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
        """Returns how much lower the first mixture's large loss is than the other's, and the
        probability that its run is the lower of two new ones."""
        ours, others = self.model.predict(np.stack([weights, other]))
        gain = self.slope * (others - ours)
        unsure = self.error * np.sqrt(2 + (others - ours) ** 2 / self.spread)
        return float(gain), float(stats.t.cdf(gain / unsure, self.runs - 2))

    def details(self, both: np.ndarray) -> dict[str, Any]:
        """Returns all of it as plain values, with the proposal and the natural one ``(2, K)``."""
        means, ends = self.predict(both).tolist(), self.predict_interval(both).tolist()
        own = {name: value for name, value in vars(self).items() if name != "model"}
        gain, probability = self.gain(*both)
        return {
            **own,
            "weights": {"mean": means[0], "interval": ends[0]},
            "prior": {"mean": means[1], "interval": ends[1]},
            "gain_over_prior": gain,
            "probability": probability,
        }


def scale_up(model: Any, weights: np.ndarray, losses: np.ndarray) -> ScaledUp:
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
    spread = float(((small - small.mean()) ** 2).sum())
    if not spread > 0:
        raise DataError("Expected large runs with different predicted losses, found all equal")
    line = stats.linregress(small, losses)
    residual = losses - line.intercept - line.slope * small
    return ScaledUp(
        model=model,
        intercept=float(line.intercept),
        slope=float(line.slope),
        error=float(np.sqrt((residual**2).sum() / (len(losses) - 2))),
        centre=float(small.mean()),
        spread=spread,
        runs=len(losses),
        spearman_x100=spearman_x100(small, losses) or 0.0,
    )


def score_mixtures(
    model: AnyRegression | ScaledUp,
    names: Sequence[str],
    weights: np.ndarray,
    prior: np.ndarray,
    region: TrustRegion,
) -> list[dict[str, Any]]:
    """Returns a row a mixture ``(S, K)``, the least predicted loss first.

    `better_than_prior` is a probability, `nearest_run` the share of tokens that the nearest run has
    elsewhere. What is unknown is None.
    """
    ends = (
        model.predict_interval(weights)
        if isinstance(model, ScaledUp)
        else interval_of_run(model, weights)
    )
    distances, predicted = region.nearest(weights)[1], model.predict(weights)
    rows: list[dict[str, Any]] = []
    for rank, place in enumerate(np.argsort(predicted, kind="stable").tolist()):
        one = weights[place]
        if isinstance(model, ScaledUp):
            better = None if region.far(one) else model.gain(one, prior)[1]
        else:
            better = gain_over(model, one, prior, region).get("probability")
        low, high = (end if np.isfinite(end) else None for end in ends[place].tolist())
        rows.append({
            "rank": rank + 1, "mixture": names[place], "predicted": float(predicted[place]),
            "low": low, "high": high, "better_than_prior": better,
            "nearest_run": float(distances[place]),
        })  # fmt: skip
    return rows
