"""Numbers in files of others: read where they lie, and known by blocks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.shards.arrays import (
    blocks_of,
    content,
    fingerprint,
    headerless,
    numbers,
    saved,
    size_of,
    unsigned,
    without_empty,
)


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


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i4", ">u4", "<i8", ">i8"])
def test_what_numpy_saves_is_read_by_its_header(dtype: str, tmp_path: Path) -> None:
    """Rows come one behind the other, in either order of axes."""
    path, tokens = tmp_path / "a.npy", np.arange(600).astype(dtype)
    for array in (tokens, tokens.reshape(20, 30), np.asfortranarray(tokens.reshape(20, 30))):
        np.save(path, array)
        found = saved(path)
        assert found.dtype == np.dtype(f"<u{dtype[-1]}")
        np.testing.assert_array_equal(np.asarray(found), np.arange(600))
        places = np.array([[5, 6, 7], [599, 0, 31]])
        np.testing.assert_array_equal(found[places], places)
    np.save(path, np.array([5, -1], dtype=dtype.replace("u", "i")))
    assert int(np.asarray(saved(path))[1]) == 2 ** (8 * int(dtype[-1])) - 1
    np.save(path, np.empty((0, 30), dtype))
    assert len(saved(path)) == 0


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(9, "<f4"), "whole numbers of two bytes or more as tokens, found float32"),
        (np.ones(9, bool), "found bool"),
        (np.ones(9, "<u1"), "found uint8"),
        (np.ones(9, "U3"), "found <U3"),
        (np.zeros(9, [("ids", "<u2"), ("mask", "<u2")]), r"found \[\('ids', '<u2'\), \('mask'"),
        (np.array([len, len]), "found object"),
        (np.ones((2, 3, 4), "<u2"), r"rows of tokens, found an array \(2, 3, 4\)"),
        (np.array(7, "<u2"), r"rows of tokens, found an array \(\)"),
    ],
)
def test_what_numpy_saves_and_holds_no_tokens(
    array: np.ndarray, message: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=message) as error:
        saved(tmp_path / "a.npy")
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("a.npy")


def test_a_header_that_lies_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(600, dtype="<u2"))
    content, size = path.read_bytes(), b"(600,), "
    for shape in (b"(601,), ", b"(-60,), ", b"(2**9,),", b"[1,2,3],", b"(6, 10),", b"(600, 7)"):
        path.write_bytes(content.replace(size, shape))
        with pytest.raises(DataError, match=r"Expected .*a\.npy") as error:
            saved(path)
        assert "\n" not in str(error.value)


def test_unsigned_types() -> None:
    assert unsigned(np.dtype(">i4"), Path("a")) == np.dtype("<u4")
    with pytest.raises(DataError, match="found float64: a"):
        unsigned(np.dtype(float), Path("a"))


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (b"\x93NUMPY\x01", "an array of numpy.save, which numpy: reads"),
        (b"LITPKDS\x01", "a file that litpkds: reads"),
        (np.array([20240520, 1], "<i4").tobytes(), "a file that llmc: reads"),
        (b"MMIDIDX\0", "an index that megatron: reads"),
        (b"PK\x03\x04", r"an archive \(.npz, .pt or .zip\)"),
        (b"\x1f\x8b\x08", "a compressed file"),
        (b"\x80\x04\x95", "a pickle"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "text"),
    ],
)
def test_a_file_of_another_kind_is_not_read_as_numbers(
    begin: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.bin").write_bytes(begin + b"1" * 200)
    with pytest.raises(DataError, match=f"tokens without a header, found {message}: .*a.bin"):
        headerless(tmp_path / "a.bin")


def test_numbers_alone_are_read_under_each_width(tmp_path: Path) -> None:
    for text in (b"of16", np.arange(8, 40, dtype="<u4").tobytes()):
        (tmp_path / "a.bin").write_bytes(text)
        for width in (2, 4):
            found = headerless(tmp_path / "a.bin")(width)
            np.testing.assert_array_equal(np.asarray(found), np.frombuffer(text, f"<u{width}"))
    with pytest.raises(DataError, match="numbers of 8 bytes, found 4 bytes"):
        (tmp_path / "a.bin").write_bytes(b"of16")
        headerless(tmp_path / "a.bin")(8)


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
