"""AutoScale's power laws: planted ones are found, and what is none is told."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import law_for, laws_of, measured

from bydore_pyro.baselines.autoscale import probe_counts
from bydore_pyro.baselines.power_laws import fit_power_laws


def test_laws_pass_through_planted_points_and_are_the_planted_ones_where_these_are_fast() -> None:
    """Of a planted law that is slow, the fast one through its points has larger constants."""
    rng = np.random.default_rng(0)
    recovered = others = 0
    for _ in range(60):
        cut, grow = rng.uniform(0.1, 0.6), rng.uniform(1.5, 5)
        alpha = rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 10)], size=4)
        gamma = np.exp(rng.uniform(np.log(0.02), np.log(8), size=4))
        planted = laws_of(gamma.tolist(), alpha.tolist(), rng.uniform(1e6, 1e9, 4).tolist())
        counts = probe_counts(planted.base, cut, grow)
        losses = measured(planted, counts)
        found = fit_power_laws(counts, losses)
        for k in range(4):
            if losses[1 + k] - losses[5 + k] < 1e-5:
                continue  # the three points are one
            assert found.fits[k] == "exact"
            assert found.constant[k] == pytest.approx(1 - (1 + found.alpha[k]) ** -found.gamma[k])
            more_gamma = found.gamma[k] / gamma[k] - 1
            more_alpha = (found.alpha[k] - alpha[k]) / (1 + alpha[k])
            if abs(more_gamma) + abs(more_alpha) < 1e-5:
                recovered += 1
            else:
                others += 1
                assert more_gamma > 0
                assert more_alpha > 0
        np.testing.assert_allclose(found.smallest, cut * planted.base)
    assert recovered > 100
    assert others > 50


@pytest.mark.parametrize(("gamma", "alpha"), [(1.25, 2.7), (2.0, 0.5)])
def test_fast_laws_are_recovered_to_solver_tolerance(gamma: float, alpha: float) -> None:
    planted = laws_of([gamma], [alpha], [1.0])
    counts = probe_counts(planted.base)
    found = fit_power_laws(counts, measured(planted, counts))
    np.testing.assert_allclose([found.gamma[0], found.alpha[0]], [gamma, alpha], rtol=1e-10)
    assert found.constant[0] == pytest.approx(planted.constant[0], abs=1e-12)


@pytest.mark.parametrize(
    ("relative", "fit"),
    [
        ((1.0, 1.0), "none"),  # flat
        ((0.98, 1.01), "none"),  # rises
        ((1.02, 1.02), "none"),  # falls and rises again
        ((0.98, 0.95), "nearest"),  # rises, then falls by more
        ((1.05, 1.01), "nearest"),  # falls, then rises by less
        ((1.05, 1.0), "nearest"),  # flat after the base
        ((1.0, 0.95), "nearest"),  # flat before it
        ((1.005, 0.95), "nearest"),  # falls faster and faster: not convex
        ((1.9, 0.1), "nearest"),  # falls by more than (1 + alpha)^-gamma can
        ((1.05, 0.96), "exact"),
        ((1.0005, 0.9996), "exact"),
    ],
)
def test_degenerate_fits_are_told(relative: tuple[float, float], fit: str) -> None:
    laws = law_for(*relative)
    assert laws.fits == (fit,)
    assert 0 <= laws.alpha[0] <= 1000
    assert 0 <= laws.gamma[0] <= 20
    assert (laws.gamma[0] == 0) == (fit == "none")
    x = np.array([1 / 3, 1, 3])
    law = (x + laws.alpha[0]) ** -laws.gamma[0] + laws.constant[0]
    gap = np.abs(law - [relative[0], 1, relative[1]]).max()
    assert (gap < 1e-9) == (fit == "exact" or relative == (1.0, 1.0))


@pytest.mark.parametrize("relative", [(0.98, 0.95), (1.05, 1.01), (1.005, 0.95), (1.9, 0.1)])
def test_the_nearest_law_is_that_of_least_squares(relative: tuple[float, float]) -> None:
    """Against a grid over all laws within the bounds."""
    laws = law_for(*relative)
    x, y = np.array([1 / 3, 1, 3]), np.array([relative[0], 1, relative[1]])
    alpha = np.concatenate([[0], np.geomspace(1e-3, 1000, 300)])[:, None, None]
    gamma = np.concatenate([[0], np.geomspace(1e-3, 20, 300)])[None, :, None]

    def squares(alpha: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        difference = y - (x + alpha) ** -gamma
        return ((difference - difference.mean(-1, keepdims=True)) ** 2).sum(-1)

    found = squares(laws.alpha, laws.gamma[:, None][:, 0])
    assert found <= squares(alpha, gamma).min() + 1e-8
