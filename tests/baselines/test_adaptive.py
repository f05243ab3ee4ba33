"""Expected improvement against an integral, and adaptive designs on planted losses."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted
from scipy import integrate, stats

from bydore_pyro.baselines.adaptive import (
    SURE,
    AdaptiveRuns,
    NextMixtures,
    adaptive_runs,
    candidate_mixtures,
    expected_improvement,
    next_mixtures,
    propose,
)
from bydore_pyro.baselines.gaussian_process import fit_gaussian_process
from bydore_pyro.baselines.simulated_optimum import sample_mixtures
from bydore_pyro.utils.errors import DataError

PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
OPTIMUM = np.array([0.1, 0.15, 0.25, 0.5])


def quadratic(weights: np.ndarray) -> np.ndarray:
    return 3 + 4 * ((weights - OPTIMUM) ** 2).sum(1)


@pytest.mark.parametrize(("mean", "deviation"), [(1.0, 0.5), (2.0, 0.3), (3.5, 0.2), (2.5, 4.0)])
def test_expected_improvement_is_its_integral(mean: float, deviation: float) -> None:
    best = 2.0
    expected, _ = integrate.quad(
        lambda loss: (best - loss) * stats.norm.pdf(loss, mean, deviation),
        *(min(mean, best) - 12 * deviation, best),
        epsabs=1e-14,
    )
    found = expected_improvement(np.array([mean]), np.array([deviation]), best)
    np.testing.assert_allclose(found, [expected], rtol=1e-7, atol=1e-12)


def test_expected_improvement_without_doubt_is_the_difference() -> None:
    mean, none = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    np.testing.assert_array_equal(expected_improvement(mean, none, 2.0), [1, 0, 0])
    assert (expected_improvement(mean + 60, none + 1, 2.0) >= 0).all()


def test_a_batch_believes_what_it_expects_and_goes_elsewhere() -> None:
    weights, losses = planted(30, noise=0.05)
    model = fit_gaussian_process(weights, losses, kernel_draws=3)
    candidates, _ = planted(200, seed=1)
    ahead = next_mixtures(model, weights, np.concatenate([candidates, candidates]), 4)
    assert isinstance(ahead, NextMixtures)
    assert len(set(ahead.places.tolist())) == 4
    np.testing.assert_array_equal(ahead.weights, np.tile(candidates, (2, 1))[ahead.places])
    # The first is the largest mean of the kernels' own improvements, by brute force.
    gains = [
        expected_improvement(*one.moments(candidates), float(one.predict(weights).min()))
        for one in model.members
    ]
    assert ahead.places[0] == np.mean(gains, axis=0).argmax()
    assert ahead.expected_gain[0] == pytest.approx(np.mean(gains, axis=0).max())
    share = np.mean(
        [gain.max() < one.noise for gain, one in zip(gains, model.members, strict=True)]
    )
    assert (ahead.noise, ahead.below_noise) == (model.noise, share)
    assert ahead.worthwhile == (share < SURE)
    # Believing moves no mean, and leaves less doubt.
    believing = model.believing(ahead.weights[:1])
    for before, after in zip(model.members, believing.members, strict=True):
        (mean, doubt), (same, less) = before.moments(candidates), after.moments(candidates)
        np.testing.assert_allclose(same, mean, atol=1e-6)
        assert (less <= doubt + 1e-6).all()
        assert less[ahead.places[0] % 200] < doubt[ahead.places[0] % 200]


def test_candidates_stay_on_the_simplex_within_caps() -> None:
    best = np.array([[0.0, 0.1, 0.3, 0.6], [0.25, 0.25, 0.25, 0.25]])
    free = candidate_mixtures(PRIOR, best, 3, count=1001)
    assert free.shape == (1001, 4)
    np.testing.assert_array_equal(free, candidate_mixtures(PRIOR, best, 3, count=1001))
    distances = np.abs(free[:, None] - best).sum(2).min(1) / 2  # total variation
    assert np.median(distances[500:]) < 0.1 < np.median(distances[:500])
    assert (free[500:][distances[500:] < 0.2, 0] > 0).any(), "a domain that was left out comes back"
    caps = np.array([0.5, 0.5, 0.5, 0.3])
    capped = candidate_mixtures(PRIOR, best, 3, caps=caps)
    assert (capped <= caps + 1e-9).all()
    for mixtures in (free, capped):
        assert (mixtures >= 0).all()
        np.testing.assert_allclose(mixtures.sum(1), 1)


def test_the_optimum_of_a_quadratic_is_found_with_fewer_runs_than_by_the_fixed_design() -> None:
    rng = np.random.default_rng(0)

    def measure(weights: np.ndarray) -> np.ndarray:
        return quadratic(weights) + 0.005 * rng.standard_normal(len(weights))

    found = adaptive_runs(measure, sample_mixtures(PRIOR, 8, 0), PRIOR, 24)
    assert isinstance(found, AdaptiveRuns)
    assert len(found.losses) == len(found.weights) <= 32
    np.testing.assert_array_equal(found.weights[:8], sample_mixtures(PRIOR, 8, 0))
    chosen = found.weights[found.model.predict(found.weights).argmin()]
    fixed = sample_mixtures(PRIOR, 96, 0)
    regression = fit_gaussian_process(fixed, measure(fixed), length_scales="shared", kernel_draws=0)
    by_fixed = fixed[regression.predict(fixed).argmin()]
    regrets = quadratic(np.stack([chosen, by_fixed])) - 3
    assert regrets[0] < regrets[1] / 4, "with a third of its runs"


def test_it_stops_where_a_run_gains_less_than_its_noise_and_says_so() -> None:
    rng = np.random.default_rng(1)
    calls = []

    def measure(weights: np.ndarray) -> np.ndarray:
        calls.append(len(weights))
        return 3 + 0.3 * rng.standard_normal(len(weights))  # all mixtures are alike

    found = adaptive_runs(measure, sample_mixtures(PRIOR, 40, 0), PRIOR, 40)
    trained = sum(calls[1:])
    assert trained < 40
    assert set(calls[1:]) <= {4}
    assert not found.ahead.worthwhile
    details = found.details()
    assert details["runs"] == trained
    assert details["below_noise"] >= SURE
    assert f"stopped after {trained} of 40 runs" in details["told"]
    assert f"one run's noise is {found.model.noise:.2g}" in details["told"]


def test_the_same_runs_propose_the_same_mixtures() -> None:
    design = sample_mixtures(PRIOR, 12, 0)
    one, other = (adaptive_runs(quadratic, design, PRIOR, 6, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.weights, other.weights)
    assert len(one.losses) == 18, "a batch of 4 and one of 2"
    assert "trained all 6 runs" in one.details()["told"]
    ahead = propose(one.model, one.weights, PRIOR, 1, seed=5)
    np.testing.assert_array_equal(ahead.weights, one.ahead.weights[:1])
    assert ahead.details()["mixtures"] == ahead.weights.tolist()
    assert "worth training" in ahead.details()["told"]


def test_a_first_design_of_one_run_is_refused() -> None:
    with pytest.raises(DataError, match="at least 2 runs for a regression, found 1"):
        adaptive_runs(quadratic, PRIOR[None], PRIOR, 4)
