"""Random mixtures and simulated optima: limits, planted answers, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines import simulated_optimum as module
from bydore_pyro.baselines.gaussian_process import fit_gaussian_process
from bydore_pyro.baselines.regression import Regression, fit_regression, interval_of_run
from bydore_pyro.baselines.simulated_optimum import (
    LEAST,
    SimulatedOptimum,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.utils.errors import DataError

PRIOR = np.array([0.5, 0.3, 0.15, 0.05])


# ---- the mixtures that proxies are trained on


def test_draws_keep_the_limits() -> None:
    drawn = sample_mixtures(PRIOR, 2000, 0, most=3.0)
    assert drawn.shape == (2000, 4)
    np.testing.assert_allclose(drawn.sum(1), 1, rtol=1e-12)
    assert (drawn <= 3 * PRIOR).all()
    assert ((drawn == 0) | (drawn >= LEAST)).all()
    assert (drawn == 0).any()


def test_draws_are_dirichlet_with_a_tempered_prior() -> None:
    """Moments by hand: mean p, variance p (1 - p) mean(1 / (c + 1)) over the concentrations c."""
    drawn = sample_mixtures(PRIOR, 40_000, 0, most=1e9)
    tempered = np.sqrt(PRIOR) / np.sqrt(PRIOR).sum()
    np.testing.assert_allclose(drawn.mean(0), tempered, atol=0.01)
    strengths = 0.1 * 50 ** (np.arange(15) / 14)
    expected = tempered * (1 - tempered) * np.mean(1 / (strengths + 1))
    np.testing.assert_allclose(drawn.var(0), expected, rtol=0.04)


def test_draws_follow_their_seed_and_a_share_of_zero() -> None:
    one, same, other = (sample_mixtures(PRIOR, 5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(sample_mixtures(PRIOR, 5, rng), one)
    assert (sample_mixtures(PRIOR, 5, rng) != one).any()
    drawn = sample_mixtures(np.array([0.5, 0.0, 0.5]), 100, 0)
    assert (drawn[:, 1] == 0).all()
    np.testing.assert_array_equal(sample_mixtures(np.array([1.0]), 3, 0), np.ones((3, 1)))


def test_a_limit_that_nothing_keeps_is_told() -> None:
    with pytest.raises(DataError, match=r"no weight above 1\.01 times its prior, found 0 among"):
        sample_mixtures(np.full(20, 0.05), 3, 0, most=1.01)


# ---- the simulated optimum


@dataclass
class Known:
    """A regression by hand: the loss is the distance from a mixture."""

    best: np.ndarray

    def predict(self, weights: np.ndarray) -> np.ndarray:
        return ((weights - self.best) ** 2).sum(1)


def test_the_optimum_of_a_known_function() -> None:
    best = np.array([0.4, 0.4, 0.15, 0.05])
    known: Regression = Known(best)
    found = simulated_optimum(known, PRIOR, best=8)
    assert isinstance(found, SimulatedOptimum)
    np.testing.assert_allclose(found.weights, best, atol=0.02)
    assert found.weights.sum() == pytest.approx(1)
    assert found.loss == pytest.approx(float(known.predict(found.weights[None])[0]))
    assert found.weights_draws is None
    again = simulated_optimum(known, PRIOR, best=8)
    np.testing.assert_array_equal(found.weights, again.weights)
    assert (simulated_optimum(known, PRIOR, best=8, seed=1).weights != found.weights).any()


def test_the_best_mixtures_are_averaged() -> None:
    """By hand, with the draws of the authors' generator."""
    drawn = np.random.RandomState(7).dirichlet(PRIOR, 50)
    order = np.argsort(drawn[:, 1])
    model = fit_regression("linear", drawn, 3 + drawn[:, 1])
    found = simulated_optimum(model, PRIOR, draws=50, best=3, seed=7)
    np.testing.assert_allclose(found.weights, drawn[order[:3]].mean(0))
    everything = simulated_optimum(model, PRIOR, draws=50, best=50, seed=7)
    np.testing.assert_allclose(everything.weights, drawn.mean(0))
    without = simulated_optimum(Known(np.ones(3)), np.array([0.5, 0.0, 0.5]), draws=50, best=5)
    assert without.weights[1] == 0


@dataclass
class Measured:
    """A regression that knows the truth: its loss is least at the weights `best`."""

    best: np.ndarray

    def predict(self, weights: np.ndarray) -> np.ndarray:
        return -np.log(weights + 1e-3) @ self.best


def test_a_gaussian_process_says_how_sure_it_is() -> None:
    weights, losses = planted(40, noise=0.1)
    model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=4)
    found = simulated_optimum(model, PRIOR, draws=1000, best=16)
    assert found.weights_draws is not None
    assert found.weights_draws.shape == (400, 4)
    np.testing.assert_allclose(found.weights_draws.sum(1), 1)
    again = simulated_optimum(model, PRIOR, draws=1000, best=16, posterior=False)
    assert again.weights_draws is None
    np.testing.assert_array_equal(again.weights, found.weights)


def test_intervals_hold_the_planted_optimum_and_narrow_with_more_runs() -> None:
    """The optimum that the true losses give on the same simulated mixtures, over 12 tables."""
    best, prior = np.array([0.45, 0.25, 0.2, 0.1]), np.full(4, 0.25)
    options: dict = {"draws": 1000, "best": 8}
    true = simulated_optimum(Measured(best), prior, **options)
    widths, held, loss_held = {}, [], []
    for count in (20, 100):
        for seed in range(6):
            rng = np.random.default_rng([count, seed])
            weights = rng.dirichlet(np.ones(4), count)
            losses = Measured(best).predict(weights) + 0.1 * rng.standard_normal(count)
            model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=4)
            found = simulated_optimum(model, prior, **options)
            assert found.weights_draws is not None
            low, high = np.quantile(found.weights_draws, [0.03, 0.97], axis=0)
            held.append((low <= true.weights) & (true.weights <= high))
            loss = Measured(best).predict(found.weights[None])[0]
            ends = interval_of_run(model, found.weights[None])[0]
            loss_held.append(ends[0] < loss < ends[1])
            widths.setdefault(count, []).append(high - low)
    assert np.mean(held) > 0.85
    assert np.mean(loss_held) > 0.8
    assert (np.mean(widths[100], 0) < np.mean(widths[20], 0)).all()


def test_contenders_hold_the_best_of_each_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, losses = planted(60, noise=0.05)
    model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=0)
    whole = simulated_optimum(model, PRIOR, draws=2000, best=8)
    monkeypatch.setattr(module, "CONTENDERS", 400)
    part = simulated_optimum(model, PRIOR, draws=2000, best=8)
    np.testing.assert_array_equal(whole.weights, part.weights)
    assert whole.weights_draws is not None
    assert part.weights_draws is not None
    ends = [np.quantile(one.weights_draws, [0.03, 0.97], axis=0) for one in (whole, part)]
    np.testing.assert_allclose(*ends, atol=0.02)


def test_caps_that_leave_no_mixture_are_told() -> None:
    with pytest.raises(DataError, match=r"caps that add up to 1 or more, found 0\.400"):
        simulated_optimum(Known(PRIOR), PRIOR, draws=10, best=5, caps=np.full(4, 0.1))
