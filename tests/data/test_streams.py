"""Bytes of files: the parts of a file hold its rows once, what is packed comes out whole, and
nothing is longer than it may be."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from bydore_pyro.data.kinds import can_be_entered
from bydore_pyro.data.rows import Row, RowConfig, read_rows, read_text
from bydore_pyro.data.streams import (
    Part,
    Sips,
    lines_of,
    row_groups,
    rows_of,
    too_long,
    unpacked,
)

RNG = random.Random(0)
ROWS = [{"text": f"{i} ü" + RNG.randbytes(RNG.choice([1, 9, 900, 9000])).hex()} for i in range(120)]
TEXTS = [row["text"] for row in ROWS]
LINES = [json.dumps(row).encode() + b"\n" * RNG.choice([1, 1, 3]) for row in ROWS]
CONTENT = b"".join(LINES)


def rows_in(path: Path, *parts: Part) -> list[Row]:
    return [row for part in parts for row in read_rows(path, RowConfig(), part)]


def test_a_row_belongs_to_the_part_that_it_begins_in(tmp_path: Path) -> None:
    """Against the offsets of the lines, cut at random, at line ends and beside them."""
    path, plain = tmp_path / "a.jsonl", tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    begins = [sum(map(len, LINES[:i])) for i in range(len(LINES))]
    assert can_be_entered(path)
    for trial in range(40):
        cuts = {RNG.randrange(len(CONTENT)) for _ in range(RNG.choice([1, 5, 60]))}
        cuts |= {max(0, begin + RNG.choice([-1, 0, 1])) for begin in RNG.sample(begins, 5)}
        ends = [*sorted(cuts - {0, 1}), len(CONTENT)]
        parts = [Part(*ends_) for ends_ in zip([0, *ends], ends, strict=False)]
        for part in RNG.sample(parts, 3):
            inside = [i for i, begin in enumerate(begins) if part.start <= begin < (part.end or 0)]
            assert [row.text for row in rows_in(path, part)] == [TEXTS[i] for i in inside], trial
        assert [row.text for row in rows_in(path, *parts)] == TEXTS
        plain.write_bytes(b"#" + CONTENT[1:])
        pieces = [str(row.text) for part in parts for row in read_text(plain, part=part)]
        assert "".join(pieces)[1:] == CONTENT.decode()[1:]
        assert all(piece.endswith("\n") for piece in pieces)
    last = "".join(str(row.text) for row in read_text(plain, part=Part(begins[-1], None)))
    assert last == LINES[-1].decode()


def test_lines_are_a_stream_that_ends_with_them() -> None:
    content = io.BytesIO(b"one\ntwo\nthree")
    for part, start, lines in (
        (Part(2, 6), 4, b"two\n"),
        (Part(4, 8), 4, b"two\n"),
        (Part(0, 2), 0, b"one\n"),
        (Part(5, None), 8, b"three"),
        (Part(9, 11), 13, b""),
    ):
        begun, stream = lines_of(content, part)  # type: ignore[arg-type]
        assert (begun, stream.read()) == (start, lines)


def test_a_bad_row_of_a_part_is_found_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "first"}\n{"text": "second"}\n{"text": 3}\n')
    with pytest.raises(ValueError, match=r"found int, .*a\.jsonl from byte 5, line 2"):
        rows_in(path, Part(5, 99))


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_file_is_read_from_its_start(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.jsonl.{ending}"
    if ending == "gz":
        path.write_bytes(gzip.compress(CONTENT))
    else:
        with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(CONTENT)
    assert not can_be_entered(path)
    for end in (1, 50_000, len(CONTENT) // 2, len(CONTENT)):
        first, rest = (rows_in(path, part) for part in (Part(0, end), Part(end, None)))
        assert [row.text for row in first + rest] == TEXTS
        assert [row.number for row in first + rest] == [
            r.number for r in rows_in(path, Part(0, None))
        ]
        shares = [rows[-1].reached / path.stat().st_size if rows else 0 for rows in (first, rest)]
        assert sum(shares) == pytest.approx(1, abs=0.02)
        before = sum(map(len, LINES[: len(first)]))
        assert shares[0] == pytest.approx(before / len(CONTENT), abs=0.02)
    sips = Sips(io.BytesIO(CONTENT), 9)
    assert len(sips.read(10**6)) == sips.tell() == 9
    assert sips.readable()


def test_row_groups_are_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(
        pyarrow.Table.from_pylist(ROWS), path, row_group_size=50, compression="zstd"
    )
    assert not can_be_entered(path)
    groups = row_groups(path)
    assert [rows for rows, _, _ in groups] == [50, 50, 20]
    assert 0 < path.stat().st_size - sum(packed for _, packed, _ in groups) < 3000
    assert all(plain > packed for _, packed, plain in groups), "they are compressed"
    parts = [Part(*ends, group) for group in range(3) for ends in ((0, 7), (7, None))]
    assert rows_in(path, *parts) == [Row(i + 1, text) for i, text in enumerate(TEXTS)]
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(path.read_bytes()[:500])
    assert row_groups(broken) == row_groups(tmp_path / "a.jsonl") == []


PLAIN = b"".join(random.Random(0).randbytes(9).hex().encode() + b"\n" * 5 for _ in range(9000))


PACKED = {
    "gzip": gzip.compress(PLAIN),
    "bz2": bz2.compress(PLAIN),
    "xz": lzma.compress(PLAIN),
    "zstd": pyarrow.compress(PLAIN, "zstd", asbytes=True),
}


@pytest.mark.parametrize("kind", PACKED)
def test_what_went_in_comes_out(kind: str) -> None:
    with unpacked(io.BytesIO(PACKED[kind]), kind) as stream:  # type: ignore[arg-type]
        assert io.BufferedReader(stream).read() == PLAIN
    cut = io.BytesIO(PACKED[kind][:-20])
    with pytest.raises((OSError, EOFError)), unpacked(cut, kind) as stream:  # type: ignore[arg-type]
        io.BufferedReader(stream).read()


def read(content: bytes, form: str, longest: int = 1000) -> list:
    return list(rows_of(io.BufferedReader(io.BytesIO(content)), form, longest))  # type: ignore


def test_rows_of_every_form() -> None:
    lines, array = b'{"a": 1}\n\n{"a": 2}', b' [ {"a": 1}, {"a": 2.5} ]'
    assert read(lines, "json") == [("line", 1, b'{"a": 1}'), ("line", 3, b'{"a": 2}')]
    assert read(array, "json") == [("row", 1, {"a": 1}), ("row", 2, {"a": 2.5})]
    assert read(b"[]", "json") == []
    assert read(b"[1, 2]\n", "json") == [("line", 1, b"[1, 2]")], "a row that is none"
    assert read(b'\xef\xbb\xbfa,b\r\n1,"x\ny"\n', "csv") == [("row", 1, {"a": "1", "b": "x\ny"})]
    assert read(b"a\tb\n1\t\n", "tsv") == [("row", 1, {"a": "1", "b": ""})]


def test_what_is_too_long_ends_a_table() -> None:
    with pytest.raises(csv.Error, match="Expected a line of at most 1 MB, found more"):
        read(b"a\n" + b"x" * 10**6 + b"y", "csv", 10**6)
    assert str(too_long("text", 10**8)) == "Expected text of at most 100 MB, found more"
