"""olmix's log-linear law: planted answers, and shrinkage."""

from __future__ import annotations

import numpy as np
import pytest
from log_linear import LogLinear, fit_log_linear
from planted_tables import planted

from bydore_pyro.errors import DataError

SLOPES = np.array([-1.0, 0.5, 1.0, -0.2])


def test_a_planted_log_linear_law_is_found() -> None:
    weights, test = planted(60)[0], planted(500, seed=1)[0]

    def law(mixtures: np.ndarray) -> np.ndarray:
        return 1.5 + np.exp(mixtures @ SLOPES)

    noise = 0.02 * np.random.default_rng(0).standard_normal(60)
    model = fit_log_linear(weights, law(weights) + noise)
    assert isinstance(model, LogLinear)
    np.testing.assert_allclose(model.predict(test), law(test), atol=0.06)
    exact = fit_log_linear(weights, law(weights))
    np.testing.assert_allclose(exact.predict(test), law(test), atol=2e-3)
    with pytest.raises(DataError, match="Expected losses > 0"):
        fit_log_linear(weights, law(weights) - 9)


def test_fewer_runs_than_domains_do_not_explode() -> None:
    """Shrinkage: 12 noisy runs of 30 domains, most of which do nothing."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(30, 0.1), 212)
    slopes = np.append([-1.0, 1.0], np.zeros(28))
    losses = 1 + np.exp(weights @ slopes) + 0.05 * rng.standard_normal(212)
    predicted = fit_log_linear(weights[:12], losses[:12]).predict(weights[12:])
    assert np.abs(predicted - losses[12:]).max() < 2 * np.ptp(losses)
