"""olmix's law, against planted laws and other solvers."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.baselines.log_linear import LogLinear, fit_log_linear
from bydore_pyro.utils.errors import DataError

SLOPES = np.array([-1.0, 0.5, 1.0, -0.2, 0.3])


def planted(count: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(5, 0.5), count)
    return weights, 1.5 + np.exp(weights @ SLOPES) + noise * rng.standard_normal(count)


def test_a_planted_law_is_found() -> None:
    model = fit_log_linear(*planted(60, noise=0.02))
    test, _ = planted(2000, noise=0.02, seed=1)
    assert isinstance(model, LogLinear)
    np.testing.assert_allclose(model.predict(test), planted(2000, 0.0, seed=1)[1], atol=0.06)
    exact = fit_log_linear(*planted(40, noise=0.0))
    np.testing.assert_allclose(exact.predict(test), planted(2000, 0.0, seed=1)[1], atol=2e-3)


def test_fewer_runs_than_domains_do_not_explode() -> None:
    """Shrinkage: 12 noisy runs of 30 domains, most of which do nothing."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(30, 0.1), 212)
    slopes = np.append([-1.0, 1.0], np.zeros(28))
    losses = 1 + np.exp(weights @ slopes) + 0.05 * rng.standard_normal(212)
    model = fit_log_linear(weights[:12], losses[:12])
    predicted = model.predict(weights[12:])
    assert np.abs(predicted - losses[12:]).max() < 2 * np.ptp(losses)


def test_losses_that_are_not_positive_are_refused() -> None:
    weights, losses = planted(10, 0.1)
    with pytest.raises(DataError, match="Expected losses > 0"):
        fit_log_linear(weights, losses - 3)
