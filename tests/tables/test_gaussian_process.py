"""The Gaussian process by BoTorch: planted losses and honest doubt."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from planted_tables import planted, truth

pytest.importorskip("botorch")

from bydore_pyro.law.laplace import fit_law
from bydore_pyro.tables import gaussian_process
from bydore_pyro.tables.gaussian_process import (
    Either,
    GaussianProcess,
    kernel_runs,
    law_processes,
    likeliest_process,
)


def found_process(weights: np.ndarray, losses: np.ndarray) -> GaussianProcess:
    process = likeliest_process(weights, losses)
    assert process is not None
    return process


@pytest.fixture(scope="module")
def process() -> GaussianProcess:
    return found_process(*planted(60, noise=0.05))


def test_planted_losses_are_found_with_their_noise(process: GaussianProcess) -> None:
    test, measured = planted(400, noise=0.05, seed=1)
    assert np.corrcoef(process.predict(test), truth(test))[0, 1] > 0.98
    noise = np.sqrt(process.deviation(test) ** 2 - process.deviation(test, of_run=False) ** 2)
    np.testing.assert_allclose(noise, 0.05, rtol=0.4)
    inside = np.abs(process.predict(test) - measured) < 1.88 * process.deviation(test)
    assert 0.85 < inside.mean() <= 1
    again = found_process(*planted(60, noise=0.05))
    np.testing.assert_array_equal(again.predict(test), process.predict(test))


def test_a_process_is_what_brute_force_makes_of_its_kernel(process: GaussianProcess) -> None:
    weights, losses = planted(60, noise=0.05)
    test = planted(6, seed=2)[0]
    between = process.kernel(weights, weights).numpy() + process.noise * np.eye(60)
    beside, among = process.kernel(test, weights).numpy(), process.kernel(test, test).numpy()
    mean = process.mean(test).numpy()
    off = losses - process.mean(weights).numpy()
    expected = mean + beside @ np.linalg.solve(between, off)
    np.testing.assert_allclose(process.predict(test), expected, rtol=1e-6)
    covariance = among - beside @ np.linalg.solve(between, beside.T)
    np.testing.assert_allclose(process.covariance(test), covariance, atol=1e-6)
    spread = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(process.deviation(test, of_run=False), spread, rtol=1e-3)
    errors, deviations = process.left_out()
    rest = np.arange(1, 60)
    others = GaussianProcess.conditioned(
        *(process.mean, process.kernel, process.noise, weights[rest], losses[rest])
    )
    assert errors[0] == pytest.approx(losses[0] - others.predict(weights[:1])[0], rel=1e-4)
    assert deviations[0] == pytest.approx(others.deviation(weights[:1])[0], rel=1e-4)


def test_the_law_as_a_process_is_the_law_near_its_likeliest() -> None:
    """Few runs of three domains' own text."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), 40)
    losses = 3 + (weights + 0.1) ** -0.4 + 0.02 * rng.standard_normal((40, 3))
    law = fit_law(torch.from_numpy(weights[:10]), torch.from_numpy(losses[:10]), own=[0, 1, 2])
    found = law_processes(law, weights[:10], losses[:10])
    expected = law.predict(torch.from_numpy(weights[10:])).mean.numpy()
    predicted = np.stack([one.predict(weights[10:]) for one in found], 1)
    assert np.abs(predicted - expected).mean() < 0.1 * losses.std()
    held = [
        np.abs(one.predict(weights[10:]) - column) < 1.88 * one.deviation(weights[10:])
        for one, column in zip(found, losses[10:].T, strict=True)
    ]
    assert np.mean(held) > 0.9


def test_either_has_the_moments_of_a_draw_of_one_of_two() -> None:
    first, second = (found_process(*planted(30, noise=0.05, seed=seed)) for seed in (0, 7))
    either = Either(law=first, process=second, share=0.3)
    test, chances = planted(5, seed=3)[0], np.array([0.3, 0.7])
    mean = chances @ np.stack([one.predict(test) for one in (first, second)])
    square = chances @ np.stack(
        [one.deviation(test) ** 2 + one.predict(test) ** 2 for one in (first, second)]
    )
    np.testing.assert_allclose(either.predict(test), mean)
    np.testing.assert_allclose(either.deviation(test), np.sqrt(square - mean**2))
    spread = np.sqrt(either.covariance(test).diagonal())
    np.testing.assert_allclose(spread, either.deviation(test, of_run=False))


def test_few_runs_of_many_domains_tell_their_ranks() -> None:
    """A kernel whose prior does not fit the inputs would take all losses for one."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(17, 0.5), 224)
    losses = 5 - 0.3 * np.log(weights[:, 0] + 1e-3) - 0.1 * np.log(weights[:, 2] + 1e-3)
    found = found_process(weights[:24], losses[:24]).predict(weights[24:])
    assert np.corrcoef(found, losses[24:])[0, 1] > 0.8


def test_runs_on_one_mixture_say_how_large_the_noise_is() -> None:
    """Four seeds of each of ten mixtures: a process through every loss would have no noise."""
    weights = planted(10)[0]
    losses = np.repeat(truth(weights), 4) + 0.1 * np.random.default_rng(1).standard_normal(40)
    found = found_process(np.repeat(weights, 4, 0), losses)
    assert np.sqrt(found.noise) == pytest.approx(0.1, rel=0.3)
    means = losses.reshape(10, 4).mean(1)
    np.testing.assert_allclose(found.predict(weights), means, atol=0.1)


def test_a_constant_is_none_and_a_kernel_is_found_from_256_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights, losses = planted(20, noise=0.05)
    monkeypatch.setattr(gaussian_process, "FLAT", np.inf)
    assert likeliest_process(weights, losses) is None
    assert kernel_runs(20).tolist() == [*range(20)]
    assert len({*kernel_runs(999).tolist()}) == 256
