"""Chunks of litdata and MDS: their samples are taken apart, and damage is told in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shard_writers import WRITERS, chunk_of, documents, opened, write_litdata, write_mds

from bydore_pyro.errors import DataError
from bydore_pyro.shards.chunks import read_litdata


def edit(path: Path, change: Callable[[Any], object]) -> None:
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


def test_documents_of_litdata_lie_in_several_chunks(tmp_path: Path) -> None:
    made = documents(count=5)
    path = write_litdata(tmp_path / "a", made)
    shard = opened("litdata", path)
    assert shard.ends.tolist() == np.cumsum([len(d) for d in made]).tolist()
    files = [f.name for f in read_litdata(path).files]
    assert files == ["chunk-0-0.bin", "chunk-0-1.bin", "index.json"]
    edit(
        tmp_path / "a" / "index.json",
        lambda i: i["config"].update(data_format=["no_header_numpy:5"]),
    )
    again = opened("litdata", tmp_path / "a" / "index.json")
    np.testing.assert_array_equal(np.asarray(again.tokens), np.concatenate(made))


@pytest.mark.parametrize(
    ("encoding", "size", "encoded"),
    [
        ("ndarray:int32:64", 256, lambda s: s.astype("<i4").tobytes()),
        ("ndarray:uint16", None, lambda s: b"\x04\x40" + s.astype("<u2").tobytes()),
        ("bytes", None, lambda s: s.astype("<i8").tobytes()),
    ],
)
def test_columns_of_mds(
    encoding: str, size: int | None, encoded: Callable[[np.ndarray], bytes], tmp_path: Path
) -> None:
    """Alone, or behind a column of a fixed size and before one of none."""
    tokens = np.concatenate(documents())[: 20 * 64]
    samples = [encoded(sample) for sample in tokens.reshape(20, 64)]
    for more in (False, True):
        path = write_mds(tmp_path / str(more), documents())
        items, names, encodings, sizes = samples, ["input_ids"], [encoding], [size]
        if size is None:
            items = [np.array([len(s)], "<u4").tobytes() + s for s in items]
        if more:
            names, encodings = ["id", "input_ids", "text"], ["int", encoding, "str"]
            sizes = [8, size, None]
            heads = [b"" if size else item[:4] for item in items]
            three = np.array([3], "<u4").tobytes()
            items = [h + three + bytes(8) + s + b"abc" for h, s in zip(heads, samples, strict=True)]
        (path.parent / "shard.00000.mds").write_bytes(chunk_of(items, b"{}"))
        columns = {"column_names": names, "column_encodings": encodings, "column_sizes": sizes}
        edit(path, lambda i, columns=columns: i["shards"][0].update(columns))
        shard = opened("mds", path)
        np.testing.assert_array_equal(np.asarray(shard.tokens), tokens)
        assert shard.scanned


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("litdata", lambda f: cut(f / "index.json", 9), "an index of chunks, found .*index.json: "),
    (
        "litdata",
        lambda f: edit(
            f / "index.json", lambda i: i["config"].update(data_format=["no_header_tensor:16"])
        ),
        "items of 4-byte tokens, found others: .*bin",
    ),
    (
        "litdata",
        lambda f: edit(f / "index.json", lambda i: i["config"].update(compression="zstd")),
        "not compressed, found zstd",
    ),
    ("litdata", lambda f: (f / "chunk-0-1.bin").unlink(), r"found .*chunk-0-1\.bin: No such file"),
    ("litdata", lambda f: cut(f / "chunk-0-1.bin", 201), "found a chunk of 201 bytes: .*0-1.bin"),
    (
        "mds",
        lambda f: edit(f / "index.json", lambda i: i["shards"][0].update(compression="zstd")),
        "MDS that is not compressed",
    ),
    (
        "mds",
        lambda f: edit(
            f / "index.json", lambda i: i["shards"][0].update(column_names=["name", "text"])
        ),
        "a column tokens or input_ids",
    ),
    (
        "mds",
        lambda f: edit(f / "index.json", lambda i: i["shards"][0].update(column_sizes=[None, 999])),
        "columns within their samples",
    ),
    (
        "mds",
        lambda f: edit(f / "index.json", lambda i: i["shards"][0].update(samples=3)),
        "Expected 3 samples, as .*index.json says, found .*mds",
    ),
    (
        "mds",
        lambda f: edit(f / "index.json", lambda i: i["shards"][0]["raw_data"].update(bytes=3)),
        "Expected 3 bytes, as .*index.json says, found .*mds",
    ),
    (
        "mds",
        lambda f: edit(
            f / "index.json",
            lambda i: i["shards"][0].update(column_encodings=["str", "ndarray:uint16:3"]),
        ),
        "as large as their shapes, found",
    ),
    ("mds", lambda f: (f / "index.json").write_text("[" * 100_000), "that is nested too deeply"),
    (
        "litdata",
        lambda f: edit(f / "index.json", lambda i: i["chunks"][1].update(chunk_size=3)),
        "Expected 3 items, as .*index.json says, found 20",
    ),
]


@pytest.mark.parametrize(("kind", "damage", "message"), DAMAGES)
def test_damage_is_told_in_one_line(
    kind: str, damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = WRITERS[kind](tmp_path / "a", documents())
    damage(tmp_path / "a")
    with pytest.raises(DataError, match=message) as error:
        opened(kind, path)
    assert "\n" not in str(error.value)
