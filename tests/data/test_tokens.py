"""Token arrays of many parts are as one."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.data.tokens import LazyTokens, Runs, joined, kept


@pytest.mark.parametrize("cut", [slice(None), slice(3, 17), slice(0, 5), slice(5, 30), slice(8, 8)])
def test_joined_arrays_are_one(cut: slice) -> None:
    whole = np.arange(23, dtype=np.uint16)
    view = joined([whole[:5], whole[5:5], whole[5:16], whole[16:]])
    assert isinstance(view, LazyTokens)
    part, same = view[cut], whole[cut]
    assert len(part) == len(same)
    np.testing.assert_array_equal(np.asarray(part), same)
    assert part.dtype == same.dtype
    places = np.random.default_rng(0).integers(0, max(1, len(same)), (4, 3))
    if len(same):
        np.testing.assert_array_equal(part[places], same[places])


def test_one_array_is_itself_and_none_is_empty() -> None:
    whole = np.arange(5, dtype=np.uint16)
    assert joined([whole]) is whole
    assert len(joined([])) == 0
    assert joined([whole, whole.astype("<u4")]).dtype == np.uint32


def test_runs_of_an_array_are_one() -> None:
    tokens = np.arange(20)
    runs: Runs = np.array([2, 9, 15]), np.array([5, 10, 20])
    expected = [2, 3, 4, 9, 15, 16, 17, 18, 19]
    found = kept(tokens, runs)
    assert np.asarray(found).tolist() == expected
    assert found[np.array([[0, 3], [8, 4]])].tolist() == [[2, 9], [19, 15]]
    assert np.asarray(found[2:5]).tolist() == expected[2:5]
