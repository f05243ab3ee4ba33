"""Orders: permutations, streams that repeat nothing within an epoch, what is kept aside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tiny import text_of

from bydore_pyro.data.orders import Permutation, SequenceStream, left_to_check
from bydore_pyro.data.store import TokenStore


@pytest.mark.parametrize("size", [1, 2, 5, 64, 4097])
def test_it_is_a_permutation(size: int) -> None:
    order = Permutation(size, [0, 7])(np.arange(size))
    assert sorted(order.tolist()) == list(range(size))


def test_positions_need_no_others_and_the_seed_decides() -> None:
    order = Permutation(1000, [1, 2])
    whole = order(np.arange(1000))
    np.testing.assert_array_equal(order(np.array([[17, 3], [999, 0]])), whole[[[17, 3], [999, 0]]])
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
    order = Permutation(997, [3])(np.arange(997))
    assert abs(stats.spearmanr(np.arange(997), order).statistic) < 0.1
    assert abs(stats.spearmanr(order[:-1], order[1:]).statistic) < 0.1
    fixed = [(Permutation(50, [s])(np.arange(50)) == np.arange(50)).sum() for s in range(2000)]
    assert np.mean(fixed) == pytest.approx(1, abs=0.1), "one fixed point on average"


def test_a_stream_repeats_nothing_within_an_epoch_and_can_be_entered_anywhere() -> None:
    text = text_of([np.arange(1005, dtype=np.uint16)])
    store = TokenStore(Path(), {"a": text}, {}, {"vocabulary": 1005})
    stream = SequenceStream(store, "train", "a", 10, [0])
    epochs = [stream.read(e * 100, 100) for e in range(2)]
    for epoch in epochs:
        assert sorted(epoch[:, 0].tolist()) == list(range(0, 1000, 10))
    assert not np.array_equal(*epochs), "another epoch, another order"
    np.testing.assert_array_equal(stream.read(95, 10), np.concatenate(epochs)[95:105])
    again, other = (SequenceStream(store, "train", "a", 10, [seed]) for seed in (0, 1))
    np.testing.assert_array_equal(again.read(150, 5), epochs[1][50:55])
    assert not np.array_equal(other.read(0, 100), epochs[0])


def test_a_short_domain_leaves_a_quarter_of_what_is_kept() -> None:
    found = [left_to_check(kept, 32) for kept in (416, 128, 127, 40, 32, 31, 1, 0)]
    assert found == [32, 32, 31, 10, 8, 0, 0, 0], "of a few the scatter is unknown"
    assert [left_to_check(kept, 4) for kept in (400, 16, 15)] == [4, 4, 0]
    assert left_to_check(400, 0) == 0
