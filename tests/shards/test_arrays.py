"""Arrays in files of others: mapped, searched for ends, known by their blocks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.shards.arrays import (
    AT_ONCE,
    Shard,
    fingerprint,
    mapped,
    scanned_ends,
    without_empty,
)
from bydore_pyro.utils.errors import DataError


def test_what_is_mapped_is_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"head" + np.arange(6, dtype="<u2").tobytes())
    found = mapped(path, "<u2", 6, offset=4)
    assert found.tolist() == [0, 1, 2, 3, 4, 5]
    assert not found.flags.writeable
    for given, message in (
        ((path, "<u2", 7, 4), "Expected 14 bytes of 2-byte numbers behind the first 4, found 12"),
        ((path, "<u8"), "Expected 16 bytes of 8-byte numbers, found 16"),
        ((path, "<u2", None, 16), "Expected some bytes of 2-byte numbers behind the first 16"),
        ((path, "<u2", None, 17), "found 0: "),
        ((tmp_path / "lost", "<u2"), "Expected a file of a shard, found .*lost: No such file"),
    ):
        if given == (path, "<u8"):
            assert len(mapped(*given)) == 2
            continue
        with pytest.raises(DataError, match=message):
            mapped(*given)
    path.write_bytes(b"123")
    with pytest.raises(DataError, match="Expected 4 bytes of 2-byte numbers, found 3"):
        mapped(path, "<u2")


def test_a_shard_has_tokens_and_ends_that_fit(tmp_path: Path) -> None:
    tokens, files = np.arange(6, dtype=np.uint16), (tmp_path / "a.bin", tmp_path / "a.idx")
    Shard(tokens, np.array([2, 6]), files)
    with pytest.raises(DataError, match=r"Expected tokens, found an empty shard: .*a\.bin"):
        Shard(tokens[:0], None, files)
    for ends in ([], [2, 5], [3, 3, 6], [4, 2, 6], [-1, 6], [2, 7]):
        with pytest.raises(DataError, match=r"ascend to 6, the tokens of .*a\.bin, found .*a\.idx"):
            Shard(tokens, np.array(ends, int), files)


def test_documents_of_no_tokens_are_none() -> None:
    assert without_empty(np.array([0, 0, 3, 3, 5])).tolist() == [3, 5]
    assert without_empty(np.array([4, 3])).tolist() == [4, 3], "what is wrong stays so"
    assert without_empty(np.empty(0, int)).tolist() == []


def test_ends_are_found_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = np.array([5, 9, 5, 5, 9, 9, 5, 5, 5, 5, 9], np.uint16)
    assert scanned_ends(tokens, 9).tolist() == [2, 5, 6, 11]
    assert scanned_ends(tokens, 3).tolist() == [11]
    assert AT_ONCE > 11
    monkeypatch.setattr("bydore_pyro.shards.arrays.AT_ONCE", 3)
    assert scanned_ends(tokens[:-1], 9).tolist() == [2, 5, 6, 10]


def test_a_file_is_known_by_size_time_and_blocks(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    content = np.random.default_rng(0).bytes(1_000_000)

    def known(content: bytes, time: int) -> str:
        path.write_bytes(content)
        os.utime(path, ns=(time, time))
        return fingerprint(path)

    first = known(content, 1)
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
