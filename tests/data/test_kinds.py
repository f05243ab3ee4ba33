"""Names and beginnings tell what a file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.data.kinds import (
    HEAD,
    Kind,
    can_be_entered,
    head,
    is_beside_rows,
    is_notice,
    is_row_file,
    is_rows_or_txt,
    kind_of,
    looks_like,
    no_text,
    says_text,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl", Kind("json")),
        ("a.ndjson.zst", Kind("json", "zstd")),
        ("a.csv.bz2", Kind("csv", "bz2")),
        ("a.parquet", Kind("parquet")),
        ("a.txt", Kind("text")),
        ("a.gz", Kind("text", "gzip")),
    ],
)
def test_the_endings_of_a_name(name: str, kind: Kind) -> None:
    assert kind_of(Path(name)) == kind
    assert is_row_file(Path(name)) == (kind.form != "text")


def test_rows_and_text_by_their_names_in_any_case() -> None:
    names = ("a.txt", "BOOK.TXT", "a.JSONL.GZ", "a.csv", "a.md", "a", "a.txt.gz", "txt")
    assert [name for name in names if is_rows_or_txt(Path(name))] == list(names[:4])


def test_what_can_be_entered(tmp_path: Path) -> None:
    for name, content in (("lines.json", b'{"text": "a"}\n'), ("array.json", b' [{"text": "a"}]')):
        (tmp_path / name).write_bytes(content)
    found = {
        name: can_be_entered(tmp_path / name)
        for name in (
            "lines.json",
            "array.json",
            "a.jsonl",
            "a.txt",
            "a.csv",
            "a.jsonl.gz",
            "a.parquet",
        )
    }
    assert [name for name, entered in found.items() if entered] == [
        "lines.json",
        "a.jsonl",
        "a.txt",
    ]


def test_a_beginning_is_short_and_without_a_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + b"x" * 10_000)
    assert head(tmp_path / "a") == b"x" * (HEAD - 3)
    assert head(tmp_path / "none") == b""


def test_what_programs_leave_beside_rows() -> None:
    rows = [Path("part-0.parquet")]
    for name in ("dataset_infos.json", "state.json", "_SUCCESS", "cache-1.arrow"):
        assert is_beside_rows(Path(name), ())
    for name in ("README.md", "LICENSE", "license.txt"):
        assert is_beside_rows(Path(name), rows)
        assert not is_beside_rows(Path(name), [Path("a.txt")]), "among texts it is one"
    assert not is_beside_rows(Path("notes.md"), rows)
    assert is_notice(Path("README.rst"))
    assert not is_notice(Path("dataset_infos.json"))


@pytest.mark.parametrize(
    ("begin", "found"),
    [
        (b"PAR1 is a level of golf", None),
        (b"%PDF-1.4 as a word \xe2\x82\xac", None),
        (b"PAR1\x15\x04\x15", "Parquet"),
        (b"BZh91AY&SY\xff\x00", "bzip2"),
        (b"\0\1\2" * 9, "binary"),
        (b"one \x07 bell in a line of a text " * 9, None),
    ],
)
def test_a_beginning_that_is_text_is_no_other_file(begin: bytes, found: str | None) -> None:
    assert no_text(begin) == found


def test_what_text_looks_like() -> None:
    for begin, found in (
        (b'{"id": 1}', "JSON"),
        (b'[\n {"id": 1}]', "JSON"),
        (b"id,text\n1,a\n", "a table"),
        (b"id,body\n1,a\n", None),
        (b"<xml/>", None),
        (b'"one long string"', None),
    ):
        assert looks_like(begin, "text") == found


def test_names_that_say_text() -> None:
    for name in ("a.txt", "a.md", "rows.jsonl.txt", "a.py", "a.ipynb", "a.xml", "a.log", "a.TXT"):
        assert says_text(Path(name)), name
    for name in ("part-0", "rows.jsonl.bak", "rows.json.1", "part.0", "a.dat", "a.json5", "a"):
        assert not says_text(Path(name)), name
