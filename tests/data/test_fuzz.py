"""Thousands of mutated files: the clear error or a right result, and never a half-written store."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow
import pytest
from pyarrow import parquet
from tiny import documents_in, row, small_plan, write_lines

from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.rows import Row, RowConfig, read_rows, read_text
from bydore_pyro.utils.errors import DataError

T = TypeVar("T")

ROWS = [{**row("word", i), "meta": {"set": "ab"[i % 2]}} for i in range(40)]
FILES = ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.txt")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("originals")
    lines = write_lines(folder / "a.jsonl", ROWS).read_bytes()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    with pyarrow.CompressedOutputStream(str(folder / "a.jsonl.zst"), "zstd") as stream:
        stream.write(lines)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder / "a.parquet", row_group_size=10)
    (folder / "a.txt").write_text("".join(f"{r['text']}\n" for r in ROWS) + "ü" * 300)
    return {name: (folder / name).read_bytes() for name in FILES}


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Cuts, flips, inserts, repeats or swaps bytes, a few times."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                del data[at:]
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 3:
                del data[at : at + rng.randrange(1, 50)]
            case 4:
                data[at:at] = data[at : at + rng.randrange(1, 99)]
            case 5:
                data[at : at + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, b'"}\n{', b"null"])
    return bytes(data)


def attempt(action: Callable[[], T]) -> tuple[T, None] | tuple[None, str]:
    """Returns what the action returns, or the error of a user's mistake; any other is raised."""
    try:
        return action(), None
    except DataError as error:
        return None, str(error)


def read_all(path: Path, config: RowConfig) -> list[Row]:
    if path.suffix == ".txt":
        return list(read_text(path, config.on_error))
    return list(read_rows(path, config))


@pytest.mark.parametrize("name", FILES)
def test_readers(name: str, originals: dict[str, bytes], tmp_path: Path) -> None:
    """500 mutations a format; what is read is text, and an error is one line with the file."""
    rng, path = random.Random(name), tmp_path / name
    stopped = 0
    for _ in range(500):
        path.write_bytes(mutated(originals[name], rng))
        column = "meta.set" if rng.random() < 0.5 else None
        whole, error = attempt(partial(read_all, path, RowConfig(domain_column=column)))
        if error is not None:
            stopped += 1
            assert error.startswith("Expected ")
            assert str(path) in error
            assert "\n" not in error
            found = read_all(path, RowConfig(domain_column=column, on_error="skip"))
            assert any(r.text is None for r in found), "what stops one way is counted the other"
        else:
            assert whole is not None
            assert [r.number for r in whole] == sorted({r.number for r in whole})
            "".join(str(r.text) for r in whole).encode()
    assert stopped > 15


def test_stores(originals: dict[str, bytes], tmp_path: Path) -> None:
    """Whole builds: a store whose documents are its index's, or none at all."""
    rng = random.Random(0)
    built = 0
    for trial in range(60):
        folder = tmp_path / str(trial)
        write_lines(folder / "text/sound.jsonl", ROWS)
        name = rng.choice(FILES)
        path = folder / "text" / f"mutated.{name.split('.', 1)[1]}"
        path.write_bytes(mutated(originals[name], rng))
        plan = attempt(partial(small_plan, folder / "text", on_error=rng.choice(["stop", "skip"])))
        store, error = (None, plan[1])
        if plan[0] is not None:
            store, error = attempt(partial(prepare, plan[0], folder / "out"))
        if store is None:
            assert "\n" not in str(error)
            assert not (folder / "out").exists()
            continue
        built += 1
        found = documents_in(store)
        for domain, entry in store.index["domains"].items():
            for side in ("train", "validation"):
                assert len(found[side][domain]) == entry[side]["documents"]
        both = found["train"]["sound"] + found["validation"]["sound"]
        dropped = store.index["domains"]["sound"]
        assert len(both) + dropped["duplicates_dropped"] + dropped["in_validation_dropped"] == 40
    assert 12 < built < 60
