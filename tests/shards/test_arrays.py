"""Numbers in files of others: read where they lie, and known by blocks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.shards.arrays import (
    blocks_of,
    content,
    fingerprint,
    numbers,
    size_of,
    without_empty,
)
from bydore_pyro.utils.errors import DataError


def test_what_is_read_is_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"head" + np.arange(600, dtype="<u2").tobytes())
    found = numbers(path, "<u2", 600, offset=4)
    np.testing.assert_array_equal(np.asarray(found), np.arange(600))
    places = np.array([[5, 6, 7], [599, 0, 1], [3, 3, 3]])
    np.testing.assert_array_equal(found[places], places)
    np.testing.assert_array_equal(np.asarray(found[10:20]), np.arange(10, 20))
    assert found[np.empty((0, 4), int)].shape == (0, 4)
    assert (content(path, 4), size_of(path)) == (b"head", 1204)
    for given, message in (
        ((path, "<u2", 7, 4), "7 numbers of 2 bytes behind the first 4 bytes, found 1200 bytes"),
        ((path, "<u8"), "numbers of 8 bytes, found 1204 bytes"),
        ((path, "<u2", None, 1205), "numbers of 2 bytes behind the first 1205 bytes, found 0"),
        ((tmp_path / "lost", "<u2"), "Expected a file of a shard, found .*lost: No such file"),
        ((tmp_path, "<u2"), "found a folder, pipe or device"),
        ((tmp_path / "a\0b", "<u2"), "Expected a file of a shard, found .*: embedded null byte"),
    ):
        with pytest.raises(DataError, match=message):
            numbers(*given)
    path.write_bytes(b"")
    assert len(numbers(path, "<u2")) == 0


def test_a_file_that_is_cut_while_it_is_open_is_told(tmp_path: Path) -> None:
    """A mapped one would end the process."""
    path = tmp_path / "tokens"
    np.arange(100_000, dtype="<u2").tofile(path)
    found = numbers(path, "<u2")
    os.truncate(path, 50_000)
    np.testing.assert_array_equal(found[np.arange(25_000)], np.arange(25_000))
    with pytest.raises(DataError, match="not to change while it is read, found it cut"):
        found[np.array([3, 60_000])]


def test_documents_of_no_tokens_are_none() -> None:
    assert without_empty(np.array([0, 0, 3, 3, 5])).tolist() == [3, 5]
    assert without_empty(np.array([4, 3])).tolist() == [4, 3], "what is wrong stays so"
    assert without_empty(np.empty(0, int)).tolist() == []


def test_a_file_is_known_by_size_time_and_blocks(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    content = np.random.default_rng(0).bytes(1_000_000)

    def known(content: bytes, time: int) -> str:
        path.write_bytes(content)
        os.utime(path, ns=(time, time))
        return fingerprint(path)

    first, blocks = known(content, 1), blocks_of(path)
    assert known(content, 1) == first
    changed = [
        known(content, 2),
        known(content[:-1], 1),
        known(b"x" + content[1:], 1),
        known(content[:-1] + b"x", 1),
        known(b"abc", 1),
        known(b"abd", 1),
    ]
    assert len({first, *changed}) == 7
    known(content, 9)
    assert blocks_of(path) == blocks, "whatever its time"
    known(b"x" + content[1:], 1)
    assert blocks_of(path) != blocks
