"""Formats of one array a file: what is read, and damage, which is told in one line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from shard_writers import WRITERS, documents

from bydore_pyro.shards.formats import READERS
from bydore_pyro.shards.readers import (
    read_dolma,
    read_litpkds,
    read_llmc,
    read_megatron,
    read_nanotron,
)
from bydore_pyro.utils.errors import DataError

VOCABULARY = 280


def test_several_sequences_are_one_document(tmp_path: Path) -> None:
    """With --split-sentences Megatron writes a sequence a sentence; empty documents are none."""
    path = WRITERS["megatron"](tmp_path / "a", documents(count=4))
    content = bytearray(path.read_bytes())
    begins = np.array([0, 1, 1, 3, 4], "<i8")
    content[-begins.nbytes :] = begins.tobytes()
    path.write_bytes(bytes(content) + b"\0" * 4)  # modes of four sequences
    lengths = np.cumsum([len(d) for d in documents(count=4)])
    assert read_megatron(path, VOCABULARY).ends.tolist() == lengths[[0, 2, 3]].tolist()


@pytest.mark.parametrize(("vocabulary", "dtype"), [(2**16, "<u2"), (2**16 + 1, "<u4")])
def test_without_an_index_the_vocabulary_tells_the_type(
    vocabulary: int, dtype: str, tmp_path: Path
) -> None:
    made = documents(dtype)
    for kind, index in (("dolma", "a.csv.gz"), ("nanotron", "a.ds.index")):
        path = WRITERS[kind](tmp_path / "a", made)
        (tmp_path / index).unlink()
        (tmp_path / "a.ds.metadata").unlink(missing_ok=True)
        shard = READERS[kind].read(path, vocabulary)
        assert shard.ends is None
        np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))


def test_olmo_core_leaves_out_a_last_document_without_end_of_text(tmp_path: Path) -> None:
    made = documents()
    path = WRITERS["dolma"](tmp_path / "a", made)
    ends = np.cumsum([len(d) for d in made])
    lines = "".join(f"{end - len(d)},{end}\n" for d, end in zip(made[:-1], ends, strict=False))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(lines.encode()))
    shard = read_dolma(path, VOCABULARY)
    np.testing.assert_array_equal(shard.ends, ends)
    np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))


def test_what_nanotron_tells_of_its_tokens_comes_first(tmp_path: Path) -> None:
    path = WRITERS["nanotron"](tmp_path / "a", documents("<u4"))
    assert read_nanotron(path, VOCABULARY).tokenizer == "some/gpt"
    (tmp_path / "a.ds.index").unlink()
    assert read_nanotron(path, VOCABULARY).tokens.dtype == np.uint32
    (tmp_path / "a.ds.metadata").write_text("gpt2\n40\n40 T")
    assert read_nanotron(path, VOCABULARY).tokens.dtype == np.uint16


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def put(path: Path, at: int, content: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(content)] = content
    path.write_bytes(bytes(whole))


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("megatron", lambda f: cut(f / "a.idx", 20), "begins with MMIDIDX, found another"),
    ("megatron", lambda f: cut(f / "a.idx", 400), r"Expected 842 bytes for 40 .* found 400: .*idx"),
    ("megatron", lambda f: put(f / "a.idx", 0, b"X"), "begins with MMIDIDX, found another file"),
    (
        "megatron",
        lambda f: put(f / "a.idx", 9, b"\2"),
        "type 4, 5, 8, found version 2 and type 8: .*a.idx",
    ),
    ("megatron", lambda f: put(f / "a.idx", 17, b"\6"), "found version 1 and type 6: .*a.idx"),
    ("megatron", lambda f: put(f / "a.idx", 17, b"\4"), "one behind the other, found gaps"),
    ("megatron", lambda f: put(f / "a.idx", 34, b"\1"), "one behind the other, found gaps"),
    ("megatron", lambda f: put(f / "a.idx", 841, b"\xff"), "one behind the other, found gaps"),
    ("megatron", lambda f: put(f / "a.idx", 834, b"\x10"), "ascend to .*a.bin, found .*a.idx"),
    ("megatron", lambda f: (f / "a.bin").unlink(), r"found .*a\.bin: No such file"),
    ("megatron", lambda f: cut(f / "a.bin", 101), r"of 2-byte numbers, found 101: .*a\.bin"),
    ("dolma", lambda f: cut(f / "a.npy", 101), "102 bytes of 2-byte numbers, found 101: .*a.npy"),
    ("dolma", lambda f: cut(f / "a.npy", 100), "ascend to 50, .*a.npy, found .*a.csv.gz"),
    ("dolma", lambda f: (f / "a.csv.gz").unlink() or cut(f / "a.npy", 101), "102 bytes of 2-byte"),
    ("dolma", lambda f: cut(f / "a.csv.gz", 40), "lines of START,END, found .*a.csv.gz: "),
    ("dolma", lambda f: (f / "a.csv.gz").write_bytes(b""), "lines of START,END, found"),
    ("dolma", lambda f: (f / "a.csv.gz").write_bytes(gzip.compress(b"0,x\n")), "lines of START"),
    ("dolma", lambda f: (f / "a.csv.gz").write_bytes(gzip.compress(b"0\n")), "lines of START,END"),
    ("nanotron", lambda f: cut(f / "a.ds", 101), " bytes of 2-byte numbers, found 101: .*a.ds"),
    ("nanotron", lambda f: cut(f / "a.ds.index", 101), "104 bytes of 8-byte numbers, found 101"),
    ("nanotron", lambda f: cut(f / "a.ds.index", 80), "bytes of 2-byte numbers, found .*a.ds"),
    ("nanotron", lambda f: put(f / "a.ds.index", 8, b"\0"), "that ascend to"),
    ("nanotron", lambda f: (f / "a.ds").write_bytes(b""), "numbers, found 0: .*a.ds"),
    ("llmc", lambda f: cut(f / "a.bin", 1023), "with 20240520 or 20240801, found .*a.bin"),
    ("llmc", lambda f: put(f / "a.bin", 0, b"\0"), "with 20240520 or 20240801, found .*a.bin"),
    ("llmc", lambda f: cut(f / "a.bin", 1101), "behind the first 1024, found 77: .*a.bin"),
    ("litpkds", lambda f: cut(f / "a.bin", 23), "begins with LITPKDS, found .*a.bin"),
    ("litpkds", lambda f: put(f / "a.bin", 0, b"X"), "begins with LITPKDS, found .*a.bin"),
    ("litpkds", lambda f: put(f / "a.bin", 15, b"\1"), "found version 1 and type 1: .*a.bin"),
    ("litpkds", lambda f: cut(f / "a.bin", 124), "behind the first 24, found 100: .*a.bin"),
    ("nanotron", lambda f: (f / "a.ds").unlink(), "a file of a shard, found .*a.ds: No such"),
]


@pytest.mark.parametrize(("kind", "damage", "message"), DAMAGES)
def test_damage_is_told_in_one_line(
    kind: str, damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = WRITERS[kind](tmp_path / "a", documents())
    damage(tmp_path)
    with pytest.raises(DataError, match=message) as error:
        READERS[kind].read(path, VOCABULARY)
    assert "\n" not in str(error.value)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    """An array of objects is read as the bytes that it is."""
    np.save(tmp_path / "a.npy", np.array([print] * 4), allow_pickle=True)
    shard = read_dolma(tmp_path / "a.npy", 2**16)
    assert np.asarray(shard.tokens).tobytes() == (tmp_path / "a.npy").read_bytes()


@pytest.mark.parametrize(("kind", "read"), [("llmc", read_llmc), ("litpkds", read_litpkds)])
def test_nothing_tells_where_documents_end(kind: str, read: Callable, tmp_path: Path) -> None:
    shard = read(WRITERS[kind](tmp_path / "a", documents()), VOCABULARY)
    assert shard.ends is None
    assert shard.tokens.dtype == np.uint16
