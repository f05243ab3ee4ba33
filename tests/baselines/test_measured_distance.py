"""How far a mixture lies from what was run."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.baselines.measured_distance import Distance, distance_to_runs


def test_distances_are_those_of_brute_force_and_are_told() -> None:
    runs = np.random.default_rng(0).dirichlet(np.full(4, 20.0), 300)
    runs = np.concatenate([runs, runs[:5]])  # copies are no neighbours
    one = runs[3] * 0.999 + 0.001 * np.eye(4)[0]
    found = distance_to_runs(one, runs)
    assert found.run == 3
    assert found.nearest == pytest.approx(np.abs(runs[3] - one).sum() / 2)
    gaps = np.abs(runs[:300, None] - runs[None, :300]).sum(2) / 2 + np.diag(np.full(300, np.inf))
    assert found.typical == pytest.approx(np.median(gaps.min(1)))
    assert found.farther_than == pytest.approx((gaps.min(1) < found.nearest).mean())
    assert not found.far
    assert "mixtures like this one were run" in found.words("r3")
    vertex = distance_to_runs(np.eye(4)[0], runs)
    assert vertex.far
    assert "nothing like this mixture was run" in vertex.words("r")
    alone = distance_to_runs(np.full(4, 0.25), np.full((2, 4), 0.25))
    assert alone == Distance(nearest=0.0, run=0, typical=0.0, farther_than=0.0)
