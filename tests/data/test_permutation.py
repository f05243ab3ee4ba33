"""A random order of which any position can be computed by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bydore_pyro.data.permutation import Permutation


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097])
def test_it_is_a_permutation(size: int) -> None:
    order = Permutation(size, [0, 7])(np.arange(size))
    assert sorted(order.tolist()) == list(range(size))


def test_positions_need_no_others_and_the_seed_decides() -> None:
    order = Permutation(1000, [1, 2])
    whole = order(np.arange(1000))
    np.testing.assert_array_equal(order(np.array([[17, 3], [999, 0]])), whole[[[17, 3], [999, 0]]])
    np.testing.assert_array_equal(Permutation(1000, [1, 2])(np.arange(1000)), whole)
    assert (Permutation(1000, [1, 3])(np.arange(1000)) != whole).mean() > 0.99
    huge = Permutation(2**60, [0])(np.arange(1000))
    assert huge.min() >= 0
    assert huge.max() < 2**60
    assert len(set(huge.tolist())) == 1000


@pytest.mark.parametrize("size", [3, 4, 5])
def test_every_order_is_equally_likely(size: int) -> None:
    orders = [tuple(Permutation(size, [seed])(np.arange(size)).tolist()) for seed in range(6000)]
    _, counts = np.unique(np.array(orders), axis=0, return_counts=True)
    assert len(counts) == {3: 6, 4: 24, 5: 120}[size]
    assert stats.chisquare(counts).pvalue > 1e-3


def test_neighbours_are_not_related() -> None:
    """Differences of neighbours, and where each position goes, are as for numpy's shuffle."""
    size = 997
    order = Permutation(size, [3])(np.arange(size))
    assert stats.kstest(order / size, "uniform").pvalue > 1e-3
    assert abs(stats.spearmanr(np.arange(size), order).statistic) < 0.1
    assert abs(stats.spearmanr(order[:-1], order[1:]).statistic) < 0.1
    fixed = [(Permutation(50, [s])(np.arange(50)) == np.arange(50)).sum() for s in range(2000)]
    assert np.mean(fixed) == pytest.approx(1, abs=0.1), "one fixed point on average"


@pytest.mark.parametrize("size", [0, -1, 2**60 + 1])
def test_bad_sizes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="Expected size in"):
        Permutation(size, [0])
