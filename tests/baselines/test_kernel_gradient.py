"""The quick gradient of the marginal likelihood is scikit-learn's own."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

from bydore_pyro.baselines.kernel_gradient import likelihood_and_gradient, quick_process


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
