"""What regressions refuse; the messages stand in the tests of the regressions."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.baselines.regression_input import (
    checked_mixtures,
    checked_runs,
    normal_quantile,
)


def test_good_input_passes_as_floats() -> None:
    weights, losses = checked_runs(np.array([[1, 0], [0, 1]]), np.array([3, 4]))
    assert weights.dtype == losses.dtype == float
    assert checked_mixtures(np.array([[1, 0]]), 2).shape == (1, 2)


def test_the_quantile_of_the_normal_distribution() -> None:
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    with pytest.raises(ValueError, match=r"probability in \(0, 1\), actual 1"):
        normal_quantile(1)
