"""Random mixtures, the trust region and the simulated optimum, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.baselines.regression import fit_regression
from bydore_pyro.baselines.simulated import (
    SimulatedOptimum,
    TrustRegion,
    relative_entropy,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.utils.errors import DataError

PRIOR = np.array([0.5, 0.3, 0.15, 0.05])


def test_draws_keep_the_simplex_the_limit_and_the_seed() -> None:
    drawn = sample_mixtures(np.append(PRIOR, 0.0), 400, 0)
    np.testing.assert_allclose(drawn.sum(1), 1)
    assert (drawn[:, 4] == 0).all()
    assert (drawn <= 15 * np.append(PRIOR, 1.0) + 1e-12).all()
    assert ((drawn == 0) | (drawn >= 2e-4)).all()
    np.testing.assert_array_equal(drawn, sample_mixtures(np.append(PRIOR, 0.0), 400, 0))
    with pytest.raises(DataError, match="no weight above 15 times its prior"):
        sample_mixtures(np.full(400, 1 / 400), 5, 0)


def test_the_trust_region_is_that_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    runs = rng.dirichlet(np.full(4, 20.0), 60)
    region = TrustRegion(np.concatenate([runs, runs[:5]]), [f"r{i}" for i in range(65)])
    gaps = np.abs(runs[:, None] - runs[None]).sum(2) / 2 + np.diag(np.full(60, np.inf))
    assert region.reach == pytest.approx(np.quantile(gaps.min(1), 0.94))
    mixtures = rng.dirichlet(np.ones(4), 300)
    places, distances = region.nearest(mixtures)
    brute = np.abs(mixtures[:, None] - region.runs[None]).sum(2) / 2
    np.testing.assert_array_equal(places, brute.argmin(1))
    np.testing.assert_allclose(distances, brute.min(1))
    moved = region.moved_in(mixtures)
    np.testing.assert_allclose(moved.sum(1), 1)
    assert region.nearest(moved)[1].max() <= region.reach + 1e-12
    inside = distances <= region.reach
    np.testing.assert_array_equal(moved[inside], mixtures[inside])
    vertex = np.eye(4)[0]
    assert region.far(vertex)
    told = region.described(vertex)
    assert told["far"]
    assert "nothing like this mixture was run" in told["words"]
    assert "mixtures like this one were run" in region.described(runs[3])["words"]
    assert region.described(region.moved_in(vertex[None])[0])["held"]


def test_the_optimum_of_a_line_is_where_it_is_least_and_keeps_region_and_caps() -> None:
    rng = np.random.default_rng(0)
    runs = rng.dirichlet(np.full(4, 20.0), 60)
    model = fit_regression("linear", runs, runs @ np.array([0.0, 1, 2, 3]))
    free = simulated_optimum(model, PRIOR, draws=2000)
    assert isinstance(free, SimulatedOptimum)
    assert free.weights[0] > 0.99, "as RegMix: wherever the line points"
    assert free.weights_draws is None
    region = TrustRegion(runs)
    near = simulated_optimum(model, PRIOR, region, draws=2000)
    assert not region.far(near.weights)
    assert near.loss == pytest.approx(float(model.predict(near.weights[None])[0]))
    caps = np.array([0.3, 0.5, 0.5, 0.5])
    assert (simulated_optimum(model, PRIOR, region, draws=2000, caps=caps).weights <= caps).all()
    with pytest.raises(DataError, match=r"caps that add up to 1 or more, found 0\.900"):
        simulated_optimum(model, PRIOR, draws=200, caps=caps / 2)
    home = simulated_optimum(model, PRIOR, draws=2000, best=1, kl=1e6).weights
    assert relative_entropy(home[None], PRIOR)[0] < 0.05


def test_relative_entropy_is_zero_at_home_and_infinite_beyond() -> None:
    mixtures = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    found = relative_entropy(mixtures, np.array([0.5, 0.5, 0.0]))
    np.testing.assert_allclose(found, [0.0, np.log(2), np.inf])
