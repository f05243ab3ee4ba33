"""Texts out of files of rows: every format, and what is said of rows and files that are broken."""

from __future__ import annotations

import gzip
import io
import json
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from pyarrow import parquet

from bydore_pyro.data.rows import (
    LONGEST,
    RowConfig,
    is_row_file,
    numbered_lines,
    read_hub,
    read_rows,
)
from bydore_pyro.utils.errors import DataError

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


def arrow_table(table: pyarrow.Table, path: Path) -> None:
    arrow_file(path, table)


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
    rows = list(read_rows(path, RowConfig()))
    assert [row[:3] for row in rows] == [(i + 1, r["text"], None) for i, r in enumerate(ROWS)]
    positions = [row.position for row in rows]
    assert positions == sorted(positions)
    assert 0 <= positions[0] <= positions[-1] <= 1


def test_a_nested_column_names_the_domain(path: Path) -> None:
    config = RowConfig(domain_column="meta.set")
    assert [row.domain for row in read_rows(path, config)] == ["law", "web"] * 150
    rows = list(read_rows(path, config, {"web": "internet"}))
    assert [row.text for row in rows] == [row["text"] for row in ROWS[1::2]]
    assert {row.domain for row in rows} == {"internet"}


def test_a_file_that_breaks_off_is_named(path: Path) -> None:
    if path.is_dir():
        path = next(path.glob("*.arrow"))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(0.6 * len(whole))])
    with pytest.raises(DataError) as error:
        list(read_rows(path, RowConfig()))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    rows = list(read_rows(path, RowConfig(on_error="skip")))
    texts = [row.text for row in rows if row.text is not None]
    assert len(texts) < len(rows)
    assert texts == [row["text"] for row in ROWS[: len(texts)]]


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
        list(read_rows(path, RowConfig()))
    assert str(error.value).startswith(message)
    assert str(error.value).endswith(f"{path}, line 3")
    rows = [row[:2] for row in read_rows(path, RowConfig(on_error="skip"))]
    assert rows == [(1, "first"), (3, None), (4, "last")]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.arrow"])
def test_a_line_or_row_that_is_too_long_is_named_or_skipped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bydore_pyro.data.rows.LONGEST", 2_000_000)
    path, rows = tmp_path / name, [{"text": t} for t in ("first", "x" * 50_000_000, "last")]
    if name.startswith("a.jsonl"):
        {"a.jsonl": Path.write_bytes, "a.jsonl.zst": zstd}.get(
            name, lambda p, content: p.write_bytes(gzip.compress(content))
        )(path, json_lines(rows))
    else:
        table = pyarrow.Table.from_pylist(rows)
        {"a.parquet": parquet.write_table, "a.arrow": arrow_table}[name](table, path)
    unit = "line" if name.startswith("a.jsonl") else "row"
    with pytest.raises(DataError, match=rf"at most 2 MB, found more, {path}, {unit} 2"):
        list(read_rows(path, RowConfig()))
    tracemalloc.start()
    try:
        found = list(read_rows(path, RowConfig(on_error="skip")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [row[:2] for row in found] == [(1, "first"), (2, None), (3, "last")]
    # Of Python. What pyarrow decompresses is its own; a table's text becomes Python's once.
    assert peak < (10_000_000 if unit == "line" else 60_000_000)


def test_a_text_of_a_saved_dataset_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bydore_pyro.data.rows.LONGEST", 2_000_000)
    texts = ["first", "x" * 3_000_000, "last"]
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(tmp_path / "saved")
    rows = read_rows(tmp_path / "saved", RowConfig(on_error="skip"))
    assert [row.text for row in rows] == ["first", None, "last"]


def test_compressed_files_of_several_members_and_byte_order_marks(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"text {i}"}).encode() + b"\n" for i in range(2)]
    members = tmp_path / "a.jsonl.gz"
    members.write_bytes(gzip.compress(lines[0]) + gzip.compress(lines[1]))
    frames = tmp_path / "a.jsonl.zst"
    for number, line in enumerate(lines):
        zstd(tmp_path / f"{number}.zst", line)
    frames.write_bytes(b"".join((tmp_path / f"{n}.zst").read_bytes() for n in range(2)))
    marked = tmp_path / "a.jsonl"
    marked.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    for path in (members, frames, marked):
        assert [row.text for row in read_rows(path, RowConfig())] == ["text 0", "text 1"]


def test_datasets_are_streamed_as_from_the_hub(tmp_path: Path) -> None:
    """`load_dataset` takes a folder of files where it takes a hub name: the same code runs."""
    (tmp_path / "data").mkdir()
    table = pyarrow.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, tmp_path / "data" / "train-00000-of-00001.parquet")
    pyarrow.parquet.write_table(table[:7], tmp_path / "data" / "validation-00000-of-00001.parquet")
    (tmp_path / "data.py").write_text("raise SystemExit('code that comes with data was run')")
    rows = list(read_hub(str(tmp_path), RowConfig()))
    assert [row.text for row in rows] == [row["text"] for row in ROWS]
    assert len(list(read_hub(str(tmp_path), RowConfig(), split="validation"))) == 7
    config = RowConfig(domain_column="meta.set")
    assert {row.domain for row in read_hub(str(tmp_path), config, {"law": "l"})} == {"l"}
    with pytest.raises(DataError, match=r"a column 'body', found text, meta, n, hub:.*, row 1"):
        list(read_hub(str(tmp_path), RowConfig(text_column="body")))
    with pytest.raises(DataError, match="Expected a dataset on the hub with a split 'dev'"):
        list(read_hub(str(tmp_path), RowConfig(), split="dev"))
    with pytest.raises(DataError, match="found that 'nobody/nothing' cannot be opened"):
        list(read_hub("nobody/nothing", RowConfig()))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found none"):
        list(read_rows(tmp_path / "none.jsonl", RowConfig()))


def test_columns_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    """A timestamp out of Python's range, an image that is none."""
    texts = pyarrow.array(["a", "b"])
    times = pyarrow.array([2**60, 0], pyarrow.timestamp("us"))
    table = pyarrow.table({"text": texts, "when": times})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    arrow_file(tmp_path / "a.arrow", table)
    images = datasets.Dataset.from_dict(
        {"text": ["a", "b"], "image": [b"no", b"image"]},
        features=datasets.Features({"text": datasets.Value("string"), "image": datasets.Image()}),
    )
    images.save_to_disk(tmp_path / "saved")
    for name in ("a.parquet", "a.arrow", "saved"):
        assert [row.text for row in read_rows(tmp_path / name, RowConfig())] == ["a", "b"]


def test_a_batch_that_is_broken_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    arrow_file(path, pyarrow.Table.from_pylist(ROWS))  # batches of 100 rows
    content = path.read_bytes()
    at = content.index("text 150 — ü".encode()) + 9
    path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with pytest.raises(DataError, match=r"Expected a whole arrow file, .* breaks after row 100: "):
        list(read_rows(path, RowConfig()))
    rows = list(read_rows(path, RowConfig(on_error="skip")))
    assert [row.text for row in rows] == [*(row["text"] for row in ROWS[:100]), None]


def test_a_column_with_a_dot_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a.b": "literal"}\n{"a": {"b": "nested"}}\n')
    rows = read_rows(tmp_path / "a.jsonl", RowConfig(text_column="a.b"))
    assert [row.text for row in rows] == ["literal", "nested"]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_table_that_is_cut_while_it_is_read(tmp_path: Path, name: str) -> None:
    """Mapped into memory, what is cut off would end the process by SIGBUS, without a word."""
    path, rng = tmp_path / name, np.random.default_rng(0)
    table = pyarrow.table({"text": [rng.bytes(500).hex() for _ in range(2000)]})
    if name == "a.parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=256)
    else:
        with pyarrow.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table, max_chunksize=256)
    rows = read_rows(path, RowConfig())
    next(rows)
    with path.open("r+b") as file:
        file.truncate(10_000)
    with suppress(DataError):  # what the file was when it was listed tells that it changed
        list(rows)


class Repeated(io.RawIOBase):
    """A stream of one block of bytes, many times over, and of an end."""

    def __init__(self, block: bytes, times: int, end: bytes) -> None:
        self.block, self.times, self.end = block, times, end

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads the next block."""
        found, self.end = (self.block, self.end) if self.times else (self.end, b"")
        self.times = max(0, self.times - 1)
        buffer[: len(found)] = found
        return len(found)


def repeated(block: bytes, times: int) -> io.BufferedReader:
    return io.BufferedReader(Repeated(block, times, b"\nlast"), 2**17)


@pytest.mark.parametrize("end", [b"", b"\n", b"last", b"\n \n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_lines_are_those_that_python_finds(end: bytes, mark: bytes) -> None:
    lines = [b"a", b"", b"  b c\t", b"\r", b" \t ", b"d" * 300_000, b"e", b"", b""]
    content = b"\n".join(lines) + end
    expected = [(n, line.strip()) for n, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    for ahead in (2, 5, io.DEFAULT_BUFFER_SIZE):  # bytes that blank lines are looked for in
        stream = io.BufferedReader(io.BytesIO(mark + content), ahead)
        assert list(numbered_lines(stream, LONGEST)) == expected


def test_a_line_that_is_too_long_is_told_and_the_next_one_read() -> None:
    content = b"12345\n\n  12345  \n123456\n1\n1234567"
    found = list(numbered_lines(io.BufferedReader(io.BytesIO(content)), 5))
    assert found == [(1, b"12345"), (3, None), (4, None), (5, b"1"), (6, None)]


def test_a_line_of_ten_gigabytes_takes_the_memory_of_the_longest() -> None:
    tracemalloc.start()
    try:
        found = list(numbered_lines(repeated(b"x" * 2**17, 10 * 2**13), 10**6))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [(1, None), (2, b"last")]
    assert peak < 4e6
    assert LONGEST == 100_000_000


def test_a_hundred_million_empty_lines_take_a_moment() -> None:
    for block in (b"\n" * 2**17, b" \n" * 2**16):
        times = 100_000_000 // block.count(b"\n")
        begun = time.process_time()
        found = list(numbered_lines(repeated(block, times), LONGEST))
        assert found == [(times * block.count(b"\n") + 2, b"last")]
        assert time.process_time() - begun < 10
