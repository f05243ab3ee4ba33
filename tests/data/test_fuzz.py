"""Hundreds of mutated files: the clear error or a right result."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import random
from pathlib import Path

import pyarrow
import pytest
from mutations import mutated
from pyarrow import parquet
from tiny import row, write_lines

from bydore_pyro.data.rows import Row, RowConfig, read_rows, read_text
from bydore_pyro.errors import DataError

ROWS = [{**row("word", i), "meta": {"set": "ab"[i % 2]}} for i in range(40)]
FILES = ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.txt", "a.csv", "array.json",
         "a.ndjson.xz", "a.json.bz2")  # fmt: skip


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("originals")
    lines = write_lines(folder / "a.jsonl", ROWS).read_bytes()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    with pyarrow.CompressedOutputStream(str(folder / "a.jsonl.zst"), "zstd") as stream:
        stream.write(lines)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder / "a.parquet", row_group_size=10)
    (folder / "a.txt").write_text("".join(f"{r['text']}\n" for r in ROWS) + "ü" * 300)
    (folder / "a.ndjson.xz").write_bytes(lzma.compress(lines))
    (folder / "a.json.bz2").write_bytes(bz2.compress(lines))
    (folder / "array.json").write_text(json.dumps(ROWS, indent=1))
    with (folder / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "meta.set"])
        writer.writerows([row["text"], row["meta"]["set"]] for row in ROWS)
    return {name: (folder / name).read_bytes() for name in FILES}


PIECES = [b"\xff" * 4, b"\0" * 4, b'"}\n{', b"null"]


def read_all(path: Path, config: RowConfig) -> list[Row]:
    if path.suffix == ".txt":
        return list(read_text(path, config))
    return list(read_rows(path, config))


@pytest.mark.parametrize("name", FILES)
def test_readers(name: str, originals: dict[str, bytes], tmp_path: Path) -> None:
    """60 mutations a format; what is read is text, and an error is one line with the file."""
    rng, path = random.Random(name), tmp_path / name
    stopped = 0
    for _ in range(60):
        path.write_bytes(mutated(originals[name], rng, PIECES))
        column = "meta.set" if rng.random() < 0.5 else None
        try:
            whole = read_all(path, RowConfig(domain_column=column))
        except DataError as error:
            stopped += 1
            told = str(error)
            assert told.startswith("Expected ")
            assert str(path) in told
            assert "\n" not in told
            found = read_all(path, RowConfig(domain_column=column, on_error="skip"))
            assert any(r.text is None for r in found), "what stops one way is counted the other"
        else:
            assert [r.number for r in whole] == sorted({r.number for r in whole})
            "".join(str(r.text) for r in whole).encode()
    assert stopped > 2
