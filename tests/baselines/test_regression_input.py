"""What regressions refuse (messages stand in their own tests), and rank correlations."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from bydore_pyro.baselines.regression_input import checked_mixtures, checked_runs, spearman_x100


def test_good_input_passes_as_floats() -> None:
    weights, losses = checked_runs(np.array([[1, 0], [0, 1]]), np.array([3, 4]))
    assert weights.dtype == losses.dtype == float
    assert checked_mixtures(np.array([[1, 0]]), 2).shape == (1, 2)


def test_the_rank_correlation_is_pandas_and_unknown_of_constants() -> None:
    one, other = np.array([0.3, 0.1, 0.1, 0.9]), np.array([5.0, 2.0, 3.0, 4.0])
    expected = pandas.DataFrame({0: one, 1: other}).corr(method="spearman").iloc[0, 1]
    assert spearman_x100(one, other) == pytest.approx(100 * expected)
    assert spearman_x100(one, np.ones(4)) is None
