"""Texts out of files: every format, and what is said of rows and files that are broken."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from bydore_pyro.data import rows
from bydore_pyro.data.kinds import can_be_entered, is_row_file
from bydore_pyro.data.rows import (
    LARGE_TEXT,
    PIECE,
    Row,
    RowConfig,
    checked_text,
    column_of,
    read_columns,
    read_hub,
    read_rows,
    read_text,
)
from bydore_pyro.data.splits import check_name
from bydore_pyro.data.streams import Part, rows_of
from bydore_pyro.errors import DataError

ROWS = [
    {"text": f"text {i} — ü\n", "meta": {"set": ("law", "web")[i % 2]}, "n": i} for i in range(300)
]
SKIP = RowConfig(on_error="skip")
ALONE = "text is read from the column 'text', not from"


def json_lines(given: list[dict]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in given)


def zstd(path: Path, content: bytes) -> None:
    with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(content)


WRITERS: dict[str, Callable[[Path, list[dict]], object]] = {
    "a.jsonl": lambda p, given: p.write_bytes(json_lines(given)),
    "a.jsonl.gz": lambda p, given: p.write_bytes(gzip.compress(json_lines(given))),
    "a.jsonl.zst": lambda p, given: zstd(p, json_lines(given)),
    "a.parquet": lambda p, given: parquet.write_table(pyarrow.Table.from_pylist(given), p),
}


@pytest.fixture(params=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    WRITERS[request.param](path, ROWS)
    return path


def test_every_format_gives_the_same_rows(path: Path) -> None:
    assert is_row_file(path)
    first, *found = read_rows(path, RowConfig())
    assert first == Row(1, ROWS[0]["text"], note=f"{ALONE} meta")
    assert found == [Row(i + 1, r["text"]) for i, r in enumerate(ROWS)][1:]
    domains = [row.domain for row in read_rows(path, RowConfig(domain_column="meta.set"))]
    assert domains == ["law", "web"] * 150
    with pytest.raises(DataError, match="Expected a file, found none: "):
        list(read_rows(path.with_name("none.jsonl"), RowConfig()))


def test_a_file_that_breaks_off_is_named(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(0.6 * len(whole))])
    with pytest.raises(DataError) as error:
        list(read_rows(path, RowConfig()))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    found = [row.text for row in read_rows(path, SKIP)]
    assert found == [*(row["text"] for row in ROWS[: len(found) - 1]), None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "a"', "Expected a JSON object, found one that breaks at column 13 ("),
        (
            b'{"body": "a", "n": 1}',
            "Expected a column 'text', found body, n (--text_column names another), ",
        ),
        (
            b'{"text": {"en": "a", "de": "b"}}',
            "Expected text in column 'text', found a mapping (--text_column can name text.en, text",
        ),
        (b'{"text": 3}', "Expected text in column 'text', found int"),
        (b'{"text": "\xff"}', "Expected UTF-8, found other bytes"),
        (b'{"text": "\\ud800"}', "Expected text in column 'text', found half a character"),
    ],
)
def test_a_broken_line_is_named_or_skipped(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "first"}\n\n' + line + b'\n{"text": "last"}\n')
    with pytest.raises(DataError) as error:
        list(read_rows(path, RowConfig()))
    assert str(error.value).startswith(message)
    assert str(error.value).endswith(f"{path}, line 3")
    assert list(read_rows(path, SKIP)) == [Row(1, "first"), Row(3, None), Row(4, "last")]


def test_a_rows_domain_must_be_a_name(tmp_path: Path) -> None:
    bad = "", "a//b", "/a", "a/../b", "./a", "a/*", "a=b", "a\0b"
    for name in (*bad, "x" * 201, "ü" * 101, "\udc80"):
        with pytest.raises(DataError, match="Expected a domain's name of at most 200 bytes"):
            check_name(name)
    for name in ("Gutenberg (PG-19)", "web/law/high"):
        check_name(name)
    given = [{"kind": "a/", "text": "x"}, {"kind": "a", "text": 3}]
    (tmp_path / "a.jsonl").write_bytes(json_lines(given))
    with pytest.raises(DataError, match=r"found 'a/', .*a.jsonl, line 1"):
        list(read_rows(tmp_path / "a.jsonl", RowConfig(domain_column="kind")))
    skip = RowConfig(domain_column="kind", on_error="skip")
    assert list(read_rows(tmp_path / "a.jsonl", skip)) == [Row(1, None), Row(2, None, "a")]


@pytest.mark.parametrize("name", WRITERS)
def test_a_line_or_row_that_is_too_long_is_named_or_skipped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bydore_pyro.data.rows.LONGEST", 2_000_000)
    path = tmp_path / name
    WRITERS[name](path, [{"text": text} for text in ("first", "x" * 50_000_000, "last")])
    unit = "row" if name == "a.parquet" else "line"
    with pytest.raises(DataError, match=rf"at most 2 MB, found more, {path}, {unit} 2"):
        list(read_rows(path, RowConfig()))
    tracemalloc.start()
    try:
        found = list(read_rows(path, SKIP))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [Row(1, "first"), Row(2, None), Row(3, "last")]
    # Of Python. What pyarrow decompresses is its own; a table's text becomes Python's once.
    assert peak < (10_000_000 if unit == "line" else 60_000_000)


def test_compressed_files_of_several_members_and_byte_order_marks(tmp_path: Path) -> None:
    lines = [json_lines([row]) for row in ROWS[:2]]
    members, frames, marked = (tmp_path / f"a.jsonl{end}" for end in (".gz", ".zst", ""))
    members.write_bytes(gzip.compress(lines[0], mtime=0) + gzip.compress(lines[1]))
    for number, line in enumerate(lines):
        zstd(tmp_path / f"{number}.zst", line)
    frames.write_bytes(b"".join((tmp_path / f"{n}.zst").read_bytes() for n in range(2)))
    marked.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    for path in (members, frames, marked):
        assert [row.text for row in read_rows(path, RowConfig())] == [r["text"] for r in ROWS[:2]]


def test_datasets_are_streamed_as_from_the_hub(tmp_path: Path) -> None:
    """`load_dataset` takes a folder of files where it takes a hub name: the same code runs."""
    (tmp_path / "data").mkdir()
    table = pyarrow.Table.from_pylist(ROWS)
    parquet.write_table(table, tmp_path / "data" / "train-00000-of-00001.parquet")
    parquet.write_table(table[:7], tmp_path / "data" / "validation-00000-of-00001.parquet")
    (tmp_path / "data.py").write_text("raise SystemExit('code that comes with data was run')")
    config = RowConfig(domain_column="meta.set")
    found = [(row.text, row.domain) for row in read_hub(str(tmp_path), config)]
    assert found == [(row["text"], row["meta"]["set"]) for row in ROWS]
    assert len(list(read_hub(str(tmp_path), RowConfig(), split="validation"))) == 7
    with pytest.raises(
        DataError, match=r"a column 'body', found text, meta, n \(.*\), hub:.*, row 1"
    ):
        list(read_hub(str(tmp_path), RowConfig(text_column="body")))
    with pytest.raises(DataError, match="a split 'dev', found that 'nobody/nothing' cannot be op"):
        list(read_hub("nobody/nothing", RowConfig(), split="dev"))


def test_columns_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    """A timestamp out of Python's range. A dot stands for a nested column where none has it."""
    times = pyarrow.array([2**60, 0], pyarrow.timestamp("us"))
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "when": times}), tmp_path / "a.parquet")
    assert [r.text for r in read_rows(tmp_path / "a.parquet", RowConfig())] == ["a", "b"]
    (tmp_path / "a.jsonl").write_text('{"a.b": "literal"}\n{"a": {"b": "nested"}}\n')
    found = read_rows(tmp_path / "a.jsonl", RowConfig(text_column="a.b"))
    assert [row.text for row in found] == ["literal", "nested"]


class Repeated(io.RawIOBase):
    """A stream of one block of bytes, many times over, and of an end."""

    def __init__(self, block: bytes, times: int) -> None:
        self.block, self.times, self.end = block, times, b"\nlast"

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads the next block."""
        found, self.end = (self.block, self.end) if self.times else (self.end, b"")
        self.times = max(0, self.times - 1)
        buffer[: len(found)] = found
        return len(found)


def lines_in(stream: io.BufferedReader, longest: int) -> list[tuple[int, bytes | None]]:
    found = rows_of(stream, "json", longest)
    return [(number, None if isinstance(line, DataError) else line) for _, number, line in found]


def repeated(block: bytes, times: int) -> io.BufferedReader:
    return io.BufferedReader(Repeated(block, times), 2**17)


@pytest.mark.parametrize("end", [b"", b"\n", b"last", b"\n \n"])
def test_lines_are_those_that_python_finds(end: bytes) -> None:
    lines = [b"a", b"", b"  b c\t", b"\r", b" \t ", b"d" * 300_000, b"e", b"", b""]
    content = b"\n".join(lines) + end
    expected = [(n, line.strip()) for n, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    for ahead in (2, 5, io.DEFAULT_BUFFER_SIZE):  # bytes that blank lines are looked for in
        stream = io.BufferedReader(io.BytesIO(content), ahead)
        assert lines_in(stream, 10**8) == expected
    content = b"12345\n\n  12345  \n123456\n1\n1234567"
    found = lines_in(io.BufferedReader(io.BytesIO(content)), 5)
    assert found == [(1, b"12345"), (3, None), (4, None), (5, b"1"), (6, None)]


def test_a_line_of_a_gigabyte_takes_the_memory_of_the_longest() -> None:
    tracemalloc.start()
    try:
        found = lines_in(repeated(b"x" * 2**17, 2**13), 10**6)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [(1, None), (2, b"last")]
    assert peak < 4e6
    assert rows.LONGEST == 100_000_000


def test_a_hundred_million_empty_lines_take_a_moment() -> None:
    for block in (b"\n" * 2**17, b" \n" * 2**16):
        times = 100_000_000 // block.count(b"\n")
        begun = time.process_time()
        found = lines_in(repeated(block, times), 10**8)
        assert found == [(times * block.count(b"\n") + 2, b"last")]
        assert time.process_time() - begun < 10


def test_a_text_that_is_not_utf8_is_named_by_its_byte(tmp_path: Path) -> None:
    path, large = tmp_path / "text", LARGE_TEXT + 5
    for content, at in (
        (b"x" * 70_000 + b"\xff" + b"y" * 10, 70_000),
        (b"z" * large + b"\n\xe2\x82", large + 1),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"Expected UTF-8, .*{path}, byte {at}: convert"):
            list(read_text(path))
        assert list(read_text(path, SKIP))[-1].text is None
    path.write_bytes(b"\xef\xbb\xbfmarked")
    assert list(read_text(path)) == [Row(1, "marked")]
    path.write_bytes(b"")
    assert list(read_text(path)) == []


def test_a_line_of_any_length_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "LONGEST_PIECE", 200_000)
    path = tmp_path / "text"
    line = "".join(f"{i:07d}ü" for i in range(200_000))
    text = f"first\n{line}\n" + "short lines\n" * 20_000 + "last"
    path.write_text(text, encoding="utf-8")
    found = list(read_text(path))
    assert "".join(str(row.text) for row in found) == text
    assert [row.number for row in found] == list(range(1, len(found) + 1))
    assert max(len(str(row.text)) for row in found) < 200_000 + 2 * PIECE
    assert len(found) < 20
    assert all(str(row.text).endswith("short lines\n") for row in found[-4:-1])


def xz(path: Path, content: bytes) -> None:
    path.write_bytes(lzma.compress(content))


PACKERS: dict[str, Callable[[Path, bytes], object]] = {
    "": lambda p, content: p.write_bytes(content),
    ".gz": lambda p, content: p.write_bytes(gzip.compress(content, mtime=0)),
    ".zst": zstd,
    ".bz2": lambda p, content: p.write_bytes(bz2.compress(content)),
    ".XZ": xz,
}


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("ending", [".json", ".JSONL", ".ndjson", "array.json", ".csv", ".tsv"])
def test_rows_are_read_under_any_of_their_endings(ending: str, packed: str, tmp_path: Path) -> None:
    """Whole, and in two parts where the first is what a sample takes of a file."""
    given = [{"id": i, "text": f'"{i}"\tone, two\n — ü', "n": str(i % 3)} for i in range(200)]
    content = json_lines(given)
    if ending == "array.json":
        content = json.dumps(given, indent=1).encode()
    if ending in (".csv", ".tsv"):
        made = io.StringIO()
        writer = csv.DictWriter(
            made, ["id", "text", "n"], dialect="excel" + "-tab" * (ending == ".tsv")
        )
        writer.writeheader()
        writer.writerows(given)
        content = made.getvalue().encode()
    path = tmp_path / f"part-0{ending}{packed}"
    PACKERS[packed](path, content)
    assert is_row_file(path)
    expected = [Row(i + 1, row["text"], row["n"]) for i, row in enumerate(given)]
    config = RowConfig(domain_column="n")
    assert [row._replace(note=None) for row in read_rows(path, config)] == expected
    if can_be_entered(path):
        return
    for cut in (0, 3000, 10**6):
        parts = [
            row for part in (Part(0, cut), Part(cut, None)) for row in read_rows(path, config, part)
        ]
        assert [row._replace(reached=0, note=None) for row in parts] == expected


def test_numbers_and_categories_name_domains(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines([{"text": "x", "cluster": 7}, {"text": "y", "cluster": True}]))
    rows_ = read_rows(path, RowConfig(domain_column="cluster"))
    assert next(rows_) == Row(1, "x", "7")
    with pytest.raises(DataError, match="Expected text in column 'cluster', found bool"):
        next(rows_)
    column = pyarrow.array(["law", "web", "law"]).dictionary_encode()
    table = pyarrow.table({"text": ["a", "b", "c"], "kind": column, "n": pyarrow.array([3, 4, 3])})
    parquet.write_table(table, tmp_path / "a.parquet")
    for column, names in (("kind", ["law", "web", "law"]), ("n", ["3", "4", "3"])):
        found = read_rows(tmp_path / "a.parquet", RowConfig(domain_column=column))
        assert [row.domain for row in found] == names


def test_rows_of_a_table_that_are_no_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for content, message in (
        (b"text,text\n1,a\n", "breaks at its beginning: .*a.csv: column 'text' stands twice"),
        (b"id,text\n1,a\n2,b,c\n", "Expected 2 cells, as in the header, found 3, .*a.csv, row 2"),
        (b"id,body\n1,a\n", "Expected a column 'text', found id, body .*a.csv, row 1"),
        (b'id,text\n1,"a\n', "one that breaks at its beginning: .*a.csv: unexpected end of data"),
        (b"id,text\n1,\xff\n", "'text', found bytes that are no UTF-8, .*a.csv, row 1"),
        (b"id,te\xfft\n1,a\n", "breaks at its beginning: .*a.csv: the header is not in UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            list(read_rows(path, RowConfig()))
        assert list(read_rows(path, SKIP))[-1].text is None


BINARY = bytes(range(256)) * 40


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"id": 1, "text": "a"}\n' * 3, "JSON"),
        (b'\xef\xbb\xbf [\n {"text": "a"}]', "JSON"),
        (b"PAR1" + BINARY, "Parquet"),
        (b"\x93NUMPY\x01", "NumPy"),
        (gzip.compress(b"text", mtime=0), "gzip"),
        (lzma.compress(b"text"), "xz"),
        (b"\0\1\0\2" * 99, "binary"),
        (b"id,text,source\n1,a,b\n", "a table"),
        (b"id\ttext\n1\ta\n", "a table"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "part-0", "part-0.json.bak"])
def test_what_is_no_plain_text_is_refused_by_name(
    content: bytes, found: str, name: str, tmp_path: Path
) -> None:
    """Rows under the name of a text are text, and said to be it."""
    path = tmp_path / name
    path.write_bytes(content)
    if name == "a.txt" and found in ("JSON", "a table"):
        (read,) = read_text(path)
        assert read.text == content.decode("utf-8-sig")
        assert read.note == f"looks like {found} and is read as text, as its ending says"
        return
    with pytest.raises(DataError, match=f"Expected plain text, found {found}: .*{name}"):
        list(read_text(path, RowConfig()))
    assert [row.text for row in read_text(path, SKIP)] == [None]


def test_columns_with_text_that_are_not_read_are_named_once_a_file(tmp_path: Path) -> None:
    """Also those of lists and mappings, where chats and choices lie, and in every format."""
    given = [
        {"text": f"t {i}", "code": "x = 1", "chat": [{"content": "a"}], "n": i, "kind": "k"}
        for i in range(3)
    ]
    for name, write in WRITERS.items():
        write(tmp_path / name, given)
        notes = [row.note for row in read_rows(tmp_path / name, RowConfig(domain_column="kind"))]
        assert notes == [f"{ALONE} code, chat", None, None]
        found = read_rows(tmp_path / name, RowConfig(text_column="code"))
        assert next(found).note == "text is read from the column 'code', not from text, chat, kind"
    (tmp_path / "a.csv").write_text("text,answer\na,b\n")
    assert next(read_rows(tmp_path / "a.csv", RowConfig())).note == f"{ALONE} answer"
    (tmp_path / "alone.jsonl").write_bytes(json_lines([{"text": "a", "n": 1}]))
    assert next(read_rows(tmp_path / "alone.jsonl", RowConfig())).note is None


def test_a_table_in_another_encoding_loses_its_own_rows_alone(tmp_path: Path) -> None:
    """A byte that is no UTF-8 spoils the row whose text holds it, not those behind."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n1,one\n2,caf\xe9\ncaf\xe9,three\n4,four\n")
    found = [row.text for row in read_rows(path, RowConfig(on_error="skip"))]
    assert found == ["one", None, "three", "four"]


def test_rows_are_read_with_all_their_columns(path: Path) -> None:
    unit = "row" if path.suffix == ".parquet" else "line"
    assert [*read_columns(path)] == [(f"{unit} {n}", row) for n, row in enumerate(ROWS, 1)]


def test_a_row_that_is_no_object_is_named_or_none(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n[1]\n{"a": \n\n{"a": 2}\n')
    with pytest.raises(DataError, match=rf"Expected a JSON object, found list, {path}, line 2"):
        [*read_columns(path)]
    skipped = [*read_columns(path, "skip")]
    assert skipped == [
        ("line 1", {"a": 1}),
        ("line 2", None),
        ("line 3", None),
        ("line 5", {"a": 2}),
    ]
    path.write_text('[{"a": 1}, {"a"')
    with pytest.raises(
        DataError, match=r"Expected a whole file, found one that breaks after row 1"
    ):
        [*read_columns(path)]
    assert [*read_columns(path, "skip")] == [("row 1", {"a": 1}), ("row 2", None)]
    with pytest.raises(DataError, match="Expected a file, found none"):
        [*read_columns(tmp_path / "none.csv")]


def test_a_column_is_named_literally_or_within_another() -> None:
    row = {"a.b": 1, "a": {"b": 2, "c": None}}
    assert [column_of(row, name, "x") for name in ("a.b", "a.c", "a")] == [1, None, row["a"]]
    with pytest.raises(
        DataError, match=r"Expected a column 'a.d', found a.b, a \(--x names another"
    ):
        column_of(row, "a.d", "--x")
    assert checked_text("b", "a") == "b"
    for value, found in ((2, "int"), ("\ud800", "half a character")):
        with pytest.raises(DataError, match=f"Expected text in column 'a', found {found}"):
            checked_text(value, "a")


def test_a_column_that_stands_twice_in_a_table_is_refused(tmp_path: Path) -> None:
    columns = [["a"], ["b"], ["c"]]
    table = pyarrow.table(columns, names=["text", "text", "other"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="Expected every column once, found 'text' twice"):
        [*read_rows(tmp_path / "a.parquet", RowConfig())]
