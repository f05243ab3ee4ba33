"""A Gaussian process over log weights, against the textbook and planted functions."""

from __future__ import annotations

import importlib
import warnings
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines import gaussian_process
from bydore_pyro.baselines.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.baselines.regression import fit_regression, interval_of_run


def test_gaussian_process_finds_a_planted_function() -> None:
    weights, losses = planted(80, noise=0.05)
    model = fit_regression("gaussian_process", weights, losses)
    assert isinstance(model, GaussianProcess)
    test, expected = planted(400, seed=1)
    np.testing.assert_allclose(model.predict(test), expected, atol=0.15)
    assert model.noise == pytest.approx(0.05, rel=0.25)
    scales = model.estimator.kernel_.k1.k2.length_scale
    assert min(scales[1], scales[3]) > 3 * max(scales[0], scales[2])
    again = fit_regression("gaussian_process", weights, losses)
    np.testing.assert_array_equal(model.predict(test), again.predict(test))


def test_intervals_hold_what_they_say() -> None:
    weights, losses = planted(60, noise=0.1)
    model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=4)
    test, measured = planted(2000, noise=0.1, seed=1)
    deviation, total = model.moments(test)[1], model.standard_deviation(test)
    np.testing.assert_allclose(total**2, deviation**2 + model.noise**2)
    for probability in (0.5, 0.94):
        inside = (
            np.abs(measured - model.predict(test))
            < NormalDist().inv_cdf((1 + probability) / 2) * total
        )
        assert inside.mean() == pytest.approx(probability, abs=0.08)
    low, high = interval_of_run(model, test).T  # a new run's, noise included
    np.testing.assert_allclose((high + low) / 2, model.predict(test))
    np.testing.assert_allclose((high - low) / 2, NormalDist().inv_cdf(0.97) * total)


def test_the_moments_are_those_of_the_textbook() -> None:
    """k* K^-1 y and k** - k* K^-1 k*, with the kernel that was found."""
    weights, losses = planted(25, noise=0.1)
    model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=0)
    kernel = model.estimator.kernel_
    length, signal = kernel.k1.k2.length_scale, kernel.k1.k1.constant_value
    test, _ = planted(5, seed=1)

    def covariance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        x, y = np.log(one + 1e-3), np.log(other + 1e-3)
        far = np.sqrt(5 * ((x[:, None] - y[None]) ** 2).sum(-1)) / length
        return signal * (1 + far + far**2 / 3) * np.exp(-far)

    noisy = covariance(weights, weights) + kernel.k2.noise_level * np.eye(25)
    gain = np.linalg.solve(noisy, covariance(weights, test)).T
    mean = losses.mean() + gain @ (losses - losses.mean())
    np.testing.assert_allclose(model.predict(test), mean, rtol=1e-6)
    posterior = covariance(test, test) - gain @ covariance(weights, test)
    posterior *= losses.var()
    deviation = model.moments(test)[1]
    np.testing.assert_allclose(deviation**2, np.diag(posterior), rtol=1e-5)
    drawn = model.sample(test, 100_000, 0)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=1e-3)
    spread = np.sqrt(np.diag(posterior))
    np.testing.assert_allclose(
        np.cov(drawn.T) / np.outer(spread, spread),
        posterior / np.outer(spread, spread),
        atol=0.02,
    )
    np.testing.assert_array_equal(model.sample(test, 3, 1), model.sample(test, 3, 1))


def test_many_mixtures_are_predicted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, losses = planted(25)
    model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=4)
    whole = model.predict(weights), model.standard_deviation(weights)
    monkeypatch.setattr(gaussian_process, "CHUNK", 7)
    np.testing.assert_allclose(model.predict(weights), whole[0])
    np.testing.assert_allclose(model.standard_deviation(weights), whole[1], atol=1e-6)


def test_what_the_search_for_the_kernel_cannot_settle_is_noted() -> None:
    """Without noise the noise runs into its bound, also into a wider one; nothing is warned of."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smooth = fit_gaussian_process(weights, np.log(weights[:, 0] + 1e-3))
        chance = fit_gaussian_process(
            weights, rng.standard_normal(40), length_scales="shared", kernel_draws=0
        )
    assert "the noise lies at its bound 1e-08" in smooth.notes
    lengths = smooth.estimator.kernel_.k1.k2.length_scale
    assert (lengths > 9900).tolist() == [False, True, True], "at the bound: without influence"
    # Where there is chance alone, nothing is predicted but the mean.
    np.testing.assert_allclose(chance.predict(weights), chance.centre, atol=0.1 * chance.scale)


def test_other_warnings_and_a_search_that_does_not_end_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = importlib.import_module("sklearn.gaussian_process").GaussianProcessRegressor
    unsettled = importlib.import_module("sklearn.exceptions").ConvergenceWarning
    weights, losses = planted(30, noise=0.1)
    starts: list[np.ndarray] = []
    sound = process.fit

    def fit(self: Any, *data: np.ndarray) -> Any:
        starts.append(self.kernel.theta)
        warnings.warn("lbfgs failed to converge", unsettled, stacklevel=1)
        warnings.warn("something else", RuntimeWarning, stacklevel=1)
        return sound(self, *data)

    monkeypatch.setattr(process, "fit", fit)
    with pytest.warns(RuntimeWarning, match="something else") as told:
        model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=0)
    assert {warning.category for warning in told} == {RuntimeWarning}
    assert model.notes == ("the search did not converge",)
    assert len(starts) == 2
    assert not np.allclose(starts[0], starts[1]), "the second begins where the first ended"


def test_predictions_are_the_mixture_of_the_kernels() -> None:
    """Mean of means; variance within and between; each kernel has its share of the draws."""
    weights, losses = planted(12, noise=0.1)
    test, _ = planted(6, seed=1)
    alone = fit_gaussian_process(weights, losses, kernel_draws=0)
    model = fit_gaussian_process(weights, losses, kernel_draws=8)
    assert (len(alone.members), len(model.members)) == (1, 8)
    means, deviations = zip(*(member.moments(test) for member in model.members), strict=True)
    np.testing.assert_allclose(model.predict(test), np.mean(means, axis=0))
    variance = np.mean(np.square(deviations), axis=0) + np.var(means, axis=0)
    np.testing.assert_allclose(model.moments(test)[1] ** 2, variance)
    drawn = model.sample(test, 16_000, 0)
    assert drawn.shape == (16_000, 6)
    np.testing.assert_allclose(drawn.std(0), np.sqrt(variance), rtol=0.05)
    assert model.sample(test, 5, 0).shape == (5, 6)


def test_mixtures_that_are_alike_are_drawn_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the covariance is singular."""
    weights, losses = planted(40, noise=0.05)
    model = fit_gaussian_process(weights, losses, length_scales="shared", kernel_draws=4)
    drawn = model.sample(np.repeat(weights[:2], 50, axis=0), 20, 0)
    np.testing.assert_allclose(drawn[:, :50], drawn[:, :1] * np.ones(50), atol=1e-2)
    assert np.abs(drawn[:, 0] - drawn[:, 50]).min() > 1e-3
    monkeypatch.setattr(gaussian_process, "JITTERS", (-1.0,))
    with pytest.raises(np.linalg.LinAlgError):
        model.sample(weights, 20, 0)
