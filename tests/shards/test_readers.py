"""Formats of one array a file: what is read, and damage, which is told in one line."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from shard_writers import WRITERS, documents, opened

from bydore_pyro.errors import DataError
from bydore_pyro.shards.formats import READERS
from bydore_pyro.shards.readers import read_dolma, read_nanogpt, read_numpy


def test_several_sequences_are_one_document(tmp_path: Path) -> None:
    """With --split-sentences Megatron writes a sequence a sentence; empty documents are none."""
    path = WRITERS["megatron"](tmp_path / "a", documents(count=4))
    content = bytearray(path.read_bytes())
    begins = np.array([0, 1, 1, 3, 4], "<i8")
    content[-begins.nbytes :] = begins.tobytes()
    path.write_bytes(bytes(content) + b"\0" * 4)  # modes of four sequences
    lengths = np.cumsum([len(d) for d in documents(count=4)])
    assert opened("megatron", path).ends.tolist() == lengths[[0, 2, 3]].tolist()


@pytest.mark.parametrize(("vocabulary", "dtype"), [(2**16, "<u2"), (2**16 + 1, "<u4")])
def test_without_an_index_the_vocabulary_tells_the_type(
    vocabulary: int, dtype: str, tmp_path: Path
) -> None:
    made = documents(dtype)
    for kind, index in (("dolma", "a.csv.gz"), ("nanotron", "a.ds.index")):
        path = WRITERS[kind](tmp_path / "a", made)
        (tmp_path / index).unlink()
        (tmp_path / "a.ds.metadata").unlink(missing_ok=True)
        shard = opened(kind, path, vocabulary)
        assert shard.scanned
        np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))


def test_olmo_core_leaves_out_a_last_document_without_end_of_text(tmp_path: Path) -> None:
    """It alone: of lines that break off, more than one document would be the rest."""
    made = documents()
    made[-1][-1] = 9
    path = WRITERS["dolma"](tmp_path / "a", made)
    ends = np.cumsum([len(d) for d in made])
    lines = [f"{end - len(d)},{end}\n" for d, end in zip(made, ends, strict=True)]
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("".join(lines[:-1]).encode()))
    shard = opened("dolma", path)
    np.testing.assert_array_equal(shard.ends, ends)
    np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))
    for count in (1, len(lines) - 2):
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress("".join(lines[:count]).encode()))
        with pytest.raises(DataError, match=f"found others up to {ends[count - 1]}: .*csv.gz"):
            opened("dolma", path)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("".join(lines[1:]).encode()))
    with pytest.raises(DataError, match=r"documents one behind the other, found gaps: .*csv.gz"):
        opened("dolma", path)
    for end in ("", "nan"):
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"0,{end}\n".encode()))
        with pytest.raises(DataError, match=r"lines of START,END, found .*csv.gz"):
            opened("dolma", path)


def test_what_nanotron_tells_of_its_tokens_comes_first(tmp_path: Path) -> None:
    path = WRITERS["nanotron"](tmp_path / "a", documents("<u4"))
    assert READERS["nanotron"].read(path).tokenizer == "some/gpt"
    (tmp_path / "a.ds.index").unlink()
    assert opened("nanotron", path).tokens.dtype == np.uint32
    size = sum(map(len, documents()))
    WRITERS["nanotron"](tmp_path / "b", documents())
    path = (tmp_path / "b.ds").rename(path)
    (tmp_path / "a.ds.metadata").write_text(f"gpt2\n{size}\n40 T")
    shard = opened("nanotron", path)
    assert (shard.tokens.dtype, shard.width) == (np.uint16, None)
    (tmp_path / "a.ds.metadata").write_text("gpt2\n40\n40 T")
    with pytest.raises(DataError, match=rf"Expected 40 tokens, as .*metadata says, found {size}: "):
        opened("nanotron", path)


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
    ("megatron", lambda f: put(f / "a.idx", 9, b"\2"), "5, 8, found version 2 and type 8: .*idx"),
    ("megatron", lambda f: put(f / "a.idx", 17, b"\6"), "found version 1 and type 6: .*a.idx"),
    ("megatron", lambda f: put(f / "a.idx", 17, b"\4"), "one behind the other, found gaps"),
    ("megatron", lambda f: put(f / "a.idx", 34, b"\1"), "one behind the other, found gaps"),
    ("megatron", lambda f: put(f / "a.idx", 841, b"\xff"), "one behind the other, found gaps"),
    ("megatron", lambda f: put(f / "a.idx", 834, b"\x10"), "ascend to .*a.bin, found .*a.idx"),
    ("megatron", lambda f: (f / "a.bin").unlink(), r"found .*a\.bin: No such file"),
    ("megatron", lambda f: cut(f / "a.bin", 101), r"numbers of 2 bytes, found 101 bytes: .*a\.bin"),
    ("dolma", lambda f: cut(f / "a.npy", 101), "numbers of 2 bytes, found 101 bytes: .*a.npy"),
    ("dolma", lambda f: cut(f / "a.npy", 100), "ascend to 50, .*a.npy, found .*a.csv.gz"),
    ("dolma", lambda f: (f / "a.csv.gz").unlink() or cut(f / "a.npy", 101), "found 101 bytes"),
    ("dolma", lambda f: cut(f / "a.csv.gz", 40), "lines of START,END, found .*a.csv.gz: "),
    ("dolma", lambda f: (f / "a.csv.gz").write_bytes(b""), "lines of START,END, found"),
    ("dolma", lambda f: (f / "a.csv.gz").write_bytes(gzip.compress(b"0,x\n")), "lines of START"),
    ("dolma", lambda f: (f / "a.csv.gz").write_bytes(gzip.compress(b"0\n")), "lines of START,END"),
    ("nanotron", lambda f: cut(f / "a.ds", 101), "numbers of 2 bytes, found 101 bytes: .*a.ds"),
    ("nanotron", lambda f: cut(f / "a.ds.index", 101), "8 bytes, found 101 bytes: .*index"),
    ("nanotron", lambda f: cut(f / "a.ds.index", 80), "that ascend to .*index|as .*metadata says"),
    ("nanotron", lambda f: put(f / "a.ds.index", 8, b"\0"), "that ascend to"),
    ("nanotron", lambda f: (f / "a.ds").write_bytes(b""), "as .*metadata says, found 0: .*a.ds"),
    ("llmc", lambda f: cut(f / "a.bin", 1023), "with 20240520 or 20240801, found .*a.bin"),
    ("llmc", lambda f: put(f / "a.bin", 0, b"\0"), "with 20240520 or 20240801, found .*a.bin"),
    ("llmc", lambda f: cut(f / "a.bin", 1101), "first 1024 bytes, found 77 bytes: .*a.bin"),
    ("litpkds", lambda f: cut(f / "a.bin", 23), "begins with LITPKDS, found .*a.bin"),
    ("litpkds", lambda f: put(f / "a.bin", 0, b"X"), "begins with LITPKDS, found .*a.bin"),
    ("litpkds", lambda f: put(f / "a.bin", 15, b"\1"), "found version 1 and type 1: .*a.bin"),
    ("litpkds", lambda f: cut(f / "a.bin", 124), "first 24 bytes, found 100 bytes: .*a.bin"),
    ("numpy", lambda f: cut(f / "a.npy", 20), "header of numpy.save, found another file, .*a.npy"),
    ("numpy", lambda f: cut(f / "a.npy", 1001), "first 128 bytes, found 873 bytes: .*a.npy"),
    ("numpy", lambda f: put(f / "a.npy", 6, b"\3"), "header of numpy.save, found another file"),
    ("numpy", lambda f: put(f / "a.npy", 0, b"X"), "an array of numpy.save, found none; dolma:"),
    ("numpy", lambda f: put(f / "a.npy", 22, b"f"), "two bytes or more as tokens, found float16"),
    ("nanogpt", lambda f: cut(f / "a.bin", 101), "numbers of 2 bytes, found 101 bytes: .*a.bin"),
    ("nanogpt", lambda f: (f / "a.bin").unlink(), "a file of a shard, found .*a.bin: No such"),
    ("nanotron", lambda f: (f / "a.ds").unlink(), "a file of a shard, found .*a.ds: No such"),
]


@pytest.mark.parametrize(("kind", "damage", "message"), DAMAGES)
def test_damage_is_told_in_one_line(
    kind: str, damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = WRITERS[kind](tmp_path / "a", documents())
    damage(tmp_path)
    with pytest.raises(DataError, match=message) as error:
        opened(kind, path)
    assert "\n" not in str(error.value)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    """An array of objects is refused by the type that its header says."""
    np.save(tmp_path / "a.npy", np.array([print] * 4), allow_pickle=True)
    for read in (read_dolma, read_numpy):
        with pytest.raises(DataError, match=r"two bytes or more as tokens, found object: .*npy"):
            read(tmp_path / "a.npy")


def test_an_array_of_numpy_save_is_known_by_its_beginning(tmp_path: Path) -> None:
    """dolma: reads both kinds of ``.npy``; numpy: the one whose header says the type."""
    made = documents()
    path = WRITERS["dolma"](tmp_path / "a", made)
    with pytest.raises(DataError, match=r"found none; dolma: reads tokens without a header: .*npy"):
        read_numpy(path)
    np.save(path, np.concatenate(made).astype("<i8"))
    indexed = opened("dolma", path)
    assert indexed.ends.tolist() == np.cumsum([len(d) for d in made]).tolist()
    for shard in (indexed, opened("numpy", path)):
        assert shard.tokens.dtype == np.uint64
        np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))


@pytest.mark.parametrize("dtype", ["<u2", "<u4", "<u8"])
@pytest.mark.parametrize("kind", ["dolma", "nanotron", "nanogpt"])
def test_files_without_a_header_are_read_under_their_width(
    kind: str, dtype: str, tmp_path: Path
) -> None:
    """Tokens of 8 bytes are not read as twice as many, of which half are 0."""
    made = [d.astype(dtype) for d in documents()]
    path = WRITERS[kind](tmp_path / "a", made)
    for indexed in (True, False):
        shard = opened(kind, path)
        np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))
        assert shard.ends.tolist() == np.cumsum([len(d) for d in made]).tolist()
        assert shard.width == (None if indexed and kind != "nanogpt" else int(dtype[-1]))
        for other in tmp_path.iterdir():
            if other != path:
                other.unlink()


def test_files_of_other_kinds_are_no_tokens(tmp_path: Path) -> None:
    """Under a vocabulary of 65,536 any bytes could be tokens of two."""
    for kind, message in (
        ("llmc", "found a file that llmc: reads: .*bin"),
        ("litpkds", "found a file that litpkds: reads: .*bin"),
    ):
        path = WRITERS[kind](tmp_path / "a", documents())
        with pytest.raises(DataError, match=message):
            read_nanogpt(path)
    path = WRITERS["nanogpt"](tmp_path / "a", documents())
    with pytest.raises(DataError, match=r"\(nanogpt: reads tokens without a header\): .*bin"):
        opened("llmc", path)


@pytest.mark.parametrize("kind", ["llmc", "litpkds", "numpy"])
def test_nothing_tells_where_documents_end(kind: str, tmp_path: Path) -> None:
    found = READERS[kind].read(WRITERS[kind](tmp_path / "a", documents()))
    assert found.ends is None
    assert found.tokens.dtype == np.uint16
    assert [file.name for file in found.files] == ["a.npy" if kind == "numpy" else "a.bin"]


def test_a_small_file_of_lines_cannot_fill_the_memory(tmp_path: Path) -> None:
    """As many documents as there can be tokens are read, and one block more."""
    path = WRITERS["dolma"](tmp_path / "a", documents(count=4))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"0,1\n" * 20_000_000))
    with pytest.raises(DataError, match=r"at most \d+ documents, found more lines: .*a.csv.gz"):
        read_dolma(path)


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("dolma", ".npy"),
        ("dolma", ".csv.gz"),
        ("nanotron", ".ds"),
        ("nanotron", ".ds.index"),
        ("nanotron", ".ds.metadata"),
        ("megatron", ".bin"),
        ("llmc", ".bin"),
    ],
)
def test_a_pipe_is_never_waited_for(kind: str, ending: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path / "a", documents())
    pipe = tmp_path / f"a{ending}"
    pipe.unlink()
    os.mkfifo(pipe)
    with pytest.raises(DataError, match=f"found a folder, pipe or device: .*a{ending}"):
        opened(kind, path)
