"""UniMax, by hand and as water-filling."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.baselines.fixed import fit_natural
from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.unimax import UniMaxConfig, fit_unimax, unimax_tokens


def test_by_hand() -> None:
    sizes = np.array([100.0, 1.0, 10.0])
    # 60 / 3 is more than 1; 59 / 2 is more than 10; the last takes the rest.
    assert unimax_tokens(sizes, 60, 1).tolist() == [49, 1, 10]
    assert unimax_tokens(sizes, 60, 4).tolist() == [28, 4, 28]
    assert unimax_tokens(sizes, 3, 1).tolist() == [1, 1, 1]


def test_it_fills_like_water() -> None:
    """No domain that could take more has less than another; the budget is spent."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.lognormal(3, 2, 8)
        budget = rng.uniform(0.1, 1.0) * 2 * sizes.sum()
        read = unimax_tokens(sizes, budget, 2)
        assert read.sum() == pytest.approx(budget)
        level = read.max()
        np.testing.assert_allclose(read, np.minimum(2 * sizes, level))


def test_a_short_run_is_uniform_and_one_too_long_is_natural(problem: Problem) -> None:
    assert fit_unimax(problem, UniMaxConfig(), 10.0).mixture.weights == (0.25,) * 4
    long = fit_unimax(problem, UniMaxConfig(unimax_epochs=1), 1e12)
    assert long.mixture.weights == pytest.approx(fit_natural(problem).mixture.weights)
    assert list(long.details["epochs"].values()) == pytest.approx([1] * 4)
