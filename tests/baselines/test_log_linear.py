"""olmix's law, against planted laws and other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from bydore_pyro.baselines.log_linear import LogLinear, fit_log_linear, relative_entropy
from bydore_pyro.baselines.regression import interval_of_run
from bydore_pyro.utils.errors import DataError

SLOPES = np.array([-1.0, 0.5, 1.0, -0.2, 0.3])
NATURAL = np.array([0.1, 0.4, 0.3, 0.15, 0.05])


def planted(count: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(5, 0.5), count)
    return weights, 1.5 + np.exp(weights @ SLOPES) + noise * rng.standard_normal(count)


def known(slopes: np.ndarray = SLOPES) -> LogLinear:
    count = len(slopes) + 1
    parameters = np.append(np.log(1.5), slopes)
    return LogLinear(parameters=parameters, covariance=np.zeros((count, count)), noise=0.1)


def test_a_planted_law_is_found_and_its_intervals_hold_new_runs() -> None:
    model = fit_log_linear(*planted(60, noise=0.02))
    test, measured = planted(2000, noise=0.02, seed=1)
    np.testing.assert_allclose(model.predict(test), planted(2000, 0.0, seed=1)[1], atol=0.06)
    assert model.noise == pytest.approx(0.02, rel=0.3)
    low, high = interval_of_run(model, test).T
    assert ((low < measured) & (measured < high)).mean() == pytest.approx(0.94, abs=0.05)
    drawn = model.sample(test[:5], 4000, seed=0)
    mean, deviation = model.moments(test[:5])
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.005)
    np.testing.assert_allclose(drawn.std(0), deviation, rtol=0.1)
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
    unsure = model.moments(weights[12:])[1]
    assert (unsure > 0).all()


@pytest.mark.parametrize("caps", [None, np.array([0.3, 1.0, 1.0, 0.25, 1.0])])
@pytest.mark.parametrize("kl", [0.02, 0.5])
def test_the_optimum_is_a_general_solvers(kl: float, caps: np.ndarray | None) -> None:
    model = known()
    found = model.optimum(NATURAL, kl, caps)

    def objective(w: np.ndarray) -> float:
        w = np.maximum(w, 1e-300)
        return float(np.exp(SLOPES @ w) + kl * (w * np.log(w / NATURAL)).sum())

    most = np.ones(5) if caps is None else caps
    expected = optimize.minimize(
        *(objective, np.full(5, 0.2)),
        method="SLSQP",
        bounds=[(1e-12, cap) for cap in most],
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert (found <= most + 1e-12).all()
    assert found.sum() == pytest.approx(1)
    assert objective(found) <= expected.fun + 1e-9
    np.testing.assert_allclose(found, expected.x, atol=1e-3)


def test_relative_entropy_is_zero_at_home_and_infinite_beyond() -> None:
    mixtures = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    found = relative_entropy(mixtures, np.array([0.5, 0.5, 0.0]))
    np.testing.assert_allclose(found, [0.0, np.log(2), np.inf])


def test_losses_that_are_not_positive_are_refused() -> None:
    weights, losses = planted(10, 0.1)
    with pytest.raises(DataError, match="Expected losses > 0"):
        fit_log_linear(weights, losses - 3)
