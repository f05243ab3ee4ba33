"""Token arrays of many parts are as one."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.data.tokens import LazyTokens, joined


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
