"""The best mixture of planted runs, within what the runs have tried."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted, truth

pytest.importorskip("botorch")

from bydore_pyro.tables.decision import WeightBounds, best_weights, bounds_near, draws_of_best
from bydore_pyro.tables.regression import fit_runs

BEST = np.array([0.75, 0.0, 0.25, 0.0])


def test_bounds_are_near_the_runs_and_caps_count_more() -> None:
    runs = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    bounds = bounds_near(runs)
    assert isinstance(bounds, WeightBounds)
    np.testing.assert_allclose(bounds.most, [0.625, 0.5, 0.25])
    np.testing.assert_allclose(bounds.least, [0.32, 0.24, 0.16])
    assert bounds.held(np.array([0.625, 0.16, 0.2])).tolist() == [True, True, False]
    np.testing.assert_allclose(bounds_near(runs, np.array([1, 1, 0.1])).most, [0.625, 0.5, 0.1])
    caps = np.array([0.1, 0.1, 0.9])
    np.testing.assert_allclose(bounds_near(runs, caps).most, caps, err_msg="nothing else is left")


@pytest.mark.parametrize(("runs", "regret"), [(12, 0.25), (60, 0.03)])
def test_the_planted_optimum_is_found_and_its_draws_hold_it(runs: int, regret: float) -> None:
    weights, losses = planted(runs, noise=0.05)
    model, bounds = fit_runs(weights, losses[:, None]), bounds_near(weights)
    found = best_weights(model, weights, bounds)
    assert found.sum() == pytest.approx(1)
    assert ((bounds.least - 1e-9 <= found) & (found <= bounds.most + 1e-9)).all()
    assert truth(found[None])[0] - truth(BEST[None])[0] < regret
    draws = draws_of_best(model, found, weights, bounds)
    np.testing.assert_allclose(draws.sum(1), 1)
    assert ((draws >= bounds.least - 1e-6) & (draws <= bounds.most + 1e-6)).all()
    assert draws.std(0).max() > 0.005


def test_where_losses_follow_no_law_the_process_leads_to_the_optimum() -> None:
    """A parabola around a mixture: the law, in which more of a domain is never worse, misses it."""
    best, rng = np.array([0.2, 0.5, 0.3]), np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), 40)
    losses = 3 + np.square(weights - best).sum(1) + 0.01 * rng.standard_normal(40)
    found = best_weights(fit_runs(weights, losses[:, None]), weights, bounds_near(weights))
    np.testing.assert_allclose(found, best, atol=0.06)


def test_a_domain_that_no_run_holds_is_left_near_what_they_hold() -> None:
    """64 runs of 22 domains; by chance a domain that none held above 1.1 % seems to help."""
    rng = np.random.default_rng(0)
    runs = np.concatenate([rng.dirichlet(np.ones(21), 64), rng.uniform(0, 0.011, (64, 1))], axis=1)
    runs /= runs.sum(1, keepdims=True)
    losses = 3 - 20 * runs[:, 21] + 0.3 * runs[:, 0] + 0.02 * rng.standard_normal(64)
    found = best_weights(fit_runs(runs, losses[:, None]), runs, bounds_near(runs))
    assert found[21] <= 1.25 * runs[:, 21].max() + 1e-9
