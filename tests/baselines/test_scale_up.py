"""A small scale's predictions calibrated to a few large runs."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted, truth

from bydore_pyro.baselines.scale_up import ScaledUp, scale_up
from bydore_pyro.utils.errors import DataError


class Known:
    """The small scale, known exactly."""

    def predict(self, weights: np.ndarray) -> np.ndarray:
        return truth(weights)


def large(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    weights, small = planted(count, seed=seed)
    return weights, 1 + 0.6 * small + 0.05 * np.random.default_rng(seed).standard_normal(count)


@pytest.mark.parametrize("count", [8, 16])
def test_intervals_from_few_large_runs_hold_94_percent(count: int) -> None:
    test, measured = large(2000, seed=1000)
    held = []
    for seed in range(40):
        low, high = scale_up(Known(), *large(count, seed)).predict_interval(test).T
        held.append(((low < measured) & (measured < high)).mean())
    assert np.mean(held) == pytest.approx(0.94, abs=0.025)


def test_the_line_is_least_squares_and_tells_gains() -> None:
    weights, losses = large(30, seed=0)
    found = scale_up(Known(), weights, losses)
    assert isinstance(found, ScaledUp)
    slope, intercept = np.polyfit(truth(weights), losses, 1)
    assert (found.slope, found.intercept) == pytest.approx((slope, intercept))
    assert found.spearman_x100 > 90
    good, bad = np.array([0.7, 0.1, 0.1, 0.1]), np.array([0.01, 0.5, 0.01, 0.48])
    gain, probability = found.gain(good, bad)
    assert gain == pytest.approx(np.diff(found.predict(np.stack([good, bad])))[0])
    assert gain > 0
    assert probability > 0.99
    assert found.gain(bad, good) == pytest.approx((-gain, 1 - probability))


def test_mistakes() -> None:
    weights, losses = large(3, seed=0)
    with pytest.raises(DataError, match="at least 4 large runs, found 3"):
        scale_up(Known(), weights, losses)
    with pytest.raises(DataError, match="different predicted losses"):
        scale_up(Known(), np.tile(weights[:1], (5, 1)), np.arange(5.0))
