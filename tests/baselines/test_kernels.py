"""A kernel's likelihood is scikit-learn's; its draws are wide with few runs, narrow with many."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

from bydore_pyro.baselines.gaussian_process import fit_gaussian_process
from bydore_pyro.baselines.kernels import kernel_draws, likelihood_and_gradient, quick_process


def spread(runs: int) -> np.ndarray:
    """The standard deviation of each logarithm: signal, four lengths, noise."""
    model = fit_gaussian_process(*planted(runs, noise=0.1), kernel_draws=0)
    drawn = kernel_draws(model.estimator, 60, seed=1)
    return np.std([one.kernel_.theta for one in drawn], axis=0)


def test_draws_are_wide_with_few_runs_and_narrow_with_many() -> None:
    few, many = spread(6), spread(100)
    assert few[-1] > 3 * many[-1], "the noise of 6 runs is hardly known"
    assert few[1] > 1.2 * many[1], "nor how much a domain matters"
    assert few.max() < 3, "the priors hold what runs do not tell"


def test_draws_follow_their_seed_and_are_processes_on_the_same_runs() -> None:
    model = fit_gaussian_process(*planted(10, noise=0.1), length_scales="shared", kernel_draws=0)
    one, same, other = (kernel_draws(model.estimator, 2, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one[0].kernel_.theta, same[0].kernel_.theta)
    assert (one[0].kernel_.theta != other[0].kernel_.theta).any()
    np.testing.assert_array_equal(one[0].X_train_, model.estimator.X_train_)
    assert kernel_draws(model.estimator, 0) == ()


@pytest.mark.parametrize("lengths", [[2.0], [0.5, 2.0, 8.0, 1e3]])
def test_value_and_gradient_are_scikit_learns(lengths: list[float]) -> None:
    weights, losses = planted(30, noise=0.1)
    inputs, outputs = np.log(weights + 1e-3), (losses - losses.mean()) / losses.std()
    inputs = np.concatenate([inputs, inputs[:1]])  # a repeated run
    outputs = np.append(outputs, outputs[0] + 0.1)
    kernel = 3.0 * kernels.Matern(lengths, nu=2.5) + kernels.WhiteKernel(0.02)
    process = GaussianProcessRegressor(kernel, optimizer=None).fit(inputs, outputs)
    theta = process.kernel_.theta
    value, gradient = process.log_marginal_likelihood(theta, eval_gradient=True)
    found, by_theta = likelihood_and_gradient(inputs, outputs, theta, process.alpha)
    assert found == pytest.approx(value)
    np.testing.assert_allclose(by_theta, gradient, rtol=1e-6, atol=1e-7)


def test_a_process_uses_it() -> None:
    weights, losses = planted(10, noise=0.1)
    kernel = 3.0 * kernels.Matern([1.0] * 4, nu=2.5) + kernels.WhiteKernel(0.02)
    process = quick_process()(kernel, optimizer=None).fit(weights, losses)
    theta = process.kernel_.theta
    value, gradient = process.log_marginal_likelihood(theta, eval_gradient=True)
    expected = likelihood_and_gradient(weights, losses, theta, process.alpha)
    assert value == expected[0]
    np.testing.assert_array_equal(gradient, expected[1])
    assert process.log_marginal_likelihood(theta) == pytest.approx(value)
