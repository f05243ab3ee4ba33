"""The Gaussian process by BoTorch: planted losses and honest doubt."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted, truth

pytest.importorskip("botorch")

from bydore_pyro.tables.gaussian_process import GaussianProcess, fit_gaussian_process


@pytest.fixture(scope="module")
def process() -> GaussianProcess:
    return fit_gaussian_process(*planted(60, noise=0.05))


def test_planted_losses_are_found_with_their_noise(process: GaussianProcess) -> None:
    test, measured = planted(400, noise=0.05, seed=1)
    assert np.corrcoef(process.predict(test), truth(test))[0, 1] > 0.98
    noise = np.sqrt(process.deviation(test) ** 2 - process.moments(test)[1] ** 2)
    np.testing.assert_allclose(noise, 0.05, rtol=0.4)
    inside = np.abs(process.predict(test) - measured) < 1.88 * process.deviation(test)
    assert 0.85 < inside.mean() <= 1
    again = fit_gaussian_process(*planted(60, noise=0.05))
    np.testing.assert_array_equal(again.predict(test), process.predict(test))


def test_draws_and_gaps_have_the_posteriors_moments(process: GaussianProcess) -> None:
    wide = GaussianProcess(model=process.model, width=2.0)
    weights = planted(20, seed=2)[0]
    drawn, (mean, deviation) = wide.sample(weights, 2000, 0), wide.moments(weights)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.02)
    np.testing.assert_allclose(drawn.std(0), deviation, rtol=0.15)
    np.testing.assert_allclose(deviation, 2 * process.moments(weights)[1])
    gap, unsure = wide.gap(weights[0], weights[1])
    assert gap == pytest.approx(mean[1] - mean[0])
    assert unsure == pytest.approx((drawn[:, 1] - drawn[:, 0]).std(), rel=0.15)
    np.testing.assert_array_equal(wide.sample(weights, 5, 3), wide.sample(weights, 5, 3))


def test_few_runs_of_many_domains_tell_their_ranks() -> None:
    """A kernel whose prior does not fit the inputs would take all losses for one."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(17, 0.5), 224)
    losses = 5 - 0.3 * np.log(weights[:, 0] + 1e-3) - 0.1 * np.log(weights[:, 2] + 1e-3)
    found = fit_gaussian_process(weights[:24], losses[:24]).predict(weights[24:])
    assert np.corrcoef(found, losses[24:])[0, 1] > 0.8
