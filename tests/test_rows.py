"""Texts out of files of rows: every format, and what is said of rows and files that are broken."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import datasets
import pyarrow
import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.rows import RowConfig, RowReader, is_row_file

ROWS = [
    {"text": f"text {i} — ü\n", "meta": {"set": ("law", "web")[i % 2]}, "n": i} for i in range(300)
]


def json_lines(rows: list[dict]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def zstd(path: Path, content: bytes) -> None:
    with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(content)


def arrow_file(path: Path, table: pyarrow.Table) -> None:
    with pyarrow.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def arrow_stream(path: Path, table: pyarrow.Table) -> None:
    with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.jsonl": lambda p: p.write_bytes(json_lines(ROWS)),
    "a.jsonl.gz": lambda p: p.write_bytes(gzip.compress(json_lines(ROWS))),
    "a.jsonl.zst": lambda p: zstd(p, json_lines(ROWS)),
    "a.parquet": lambda p: pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), p),
    "file.arrow": lambda p: arrow_file(p, pyarrow.Table.from_pylist(ROWS)),
    "stream.arrow": lambda p: arrow_stream(p, pyarrow.Table.from_pylist(ROWS)),
    "saved": lambda p: datasets.Dataset.from_list(ROWS).save_to_disk(p),
}


@pytest.fixture(params=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    WRITERS[request.param](path)
    return path


def test_every_format_gives_the_same_rows(path: Path) -> None:
    assert is_row_file(path)
    assert list(RowReader(RowConfig())(path)) == [(i + 1, r["text"]) for i, r in enumerate(ROWS)]


def test_a_nested_column_chooses_the_domain(path: Path) -> None:
    config = RowConfig(domain_column="meta.set")
    assert RowReader(config).domains(path) == ["law", "web"]
    texts = [text for _, text in RowReader(config, domain="web")(path)]
    assert texts == [row["text"] for row in ROWS[1::2]]


def test_a_file_that_breaks_off_is_named(path: Path) -> None:
    if path.is_dir():
        path = next(path.glob("*.arrow"))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(0.6 * len(whole))])
    with pytest.raises(DataError) as error:
        list(RowReader(RowConfig())(path))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    reader = RowReader(RowConfig(on_error="skip"))
    rows = list(reader(path))
    assert reader.skipped >= 1
    assert rows == [(i + 1, r["text"]) for i, r in enumerate(ROWS[: len(rows)])]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "a"', "Expected a JSON object, found JSONDecodeError"),
        (b'["text"]', "Expected a column 'text', found list"),
        (b'{"body": "a", "n": 1}', "Expected a column 'text', found body, n"),
        (b'{"text": 3}', "Expected text in column 'text', found int"),
        (b'{"text": null}', "Expected text in column 'text', found NoneType"),
        (b'{"text": "\xff"}', "Expected UTF-8, found other bytes"),
        (b'{"text": "\\ud800"}', "Expected text in column 'text', found half a character"),
        (b"[" * 100_000, "Expected a JSON object, found RecursionError"),
    ],
)
def test_a_broken_line_is_named_or_skipped(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "first"}\n\n' + line + b'\n{"text": "last"}\n')
    with pytest.raises(DataError) as error:
        list(RowReader(RowConfig())(path))
    assert str(error.value).startswith(message)
    assert str(error.value).endswith(f"{path}, line 3")
    reader = RowReader(RowConfig(on_error="skip"))
    assert list(reader(path)) == [(1, "first"), (4, "last")]
    assert reader.skipped == 1


def test_a_missing_file_and_bad_options(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found none"):
        list(RowReader(RowConfig())(tmp_path / "none.jsonl"))
    with pytest.raises(ValueError, match="domain_column"):
        RowReader(RowConfig()).domains(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="text_column"):
        RowConfig(text_column="")
    with pytest.raises(ValueError, match="on_error"):
        RowConfig(on_error="hope")  # type: ignore[arg-type]
