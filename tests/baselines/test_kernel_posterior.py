"""Draws of a Gaussian process's kernel: wide with few runs, narrow with many."""

from __future__ import annotations

import numpy as np
from planted_tables import planted

from bydore_pyro.baselines.gaussian_process import fit_gaussian_process
from bydore_pyro.baselines.kernel_posterior import kernel_draws


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
