"""What regressions refuse, and rank correlations."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from bydore_pyro.baselines.regression_input import require_runs, spearman_x100
from bydore_pyro.utils.errors import DataError


def test_runs_that_tell_nothing_are_refused() -> None:
    require_runs(np.array([3.0, 4.0]))
    for losses, told in (([], "at least 2 runs .*found 0"), ([3.0] * 5, "differ in loss, found 3")):
        with pytest.raises(DataError, match=told):
            require_runs(np.array(losses))


def test_the_rank_correlation_is_pandas_and_unknown_of_constants() -> None:
    one, other = np.array([0.3, 0.1, 0.1, 0.9]), np.array([5.0, 2.0, 3.0, 4.0])
    expected = pandas.DataFrame({0: one, 1: other}).corr(method="spearman").iloc[0, 1]
    assert spearman_x100(one, other) == pytest.approx(100 * expected)
    assert spearman_x100(one, np.ones(4)) is None
