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
    is_row_file,
    kind_of,
    no_text,
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
    assert no_text(tmp_path / "a", "text") is None


def test_what_programs_leave_beside_rows() -> None:
    rows = [Path("part-0.parquet")]
    for name in ("dataset_infos.json", "state.json", "_SUCCESS", "cache-1.arrow"):
        assert is_beside_rows(Path(name), ())
    for name in ("README.md", "LICENSE", "license.txt"):
        assert is_beside_rows(Path(name), rows)
        assert not is_beside_rows(Path(name), [Path("a.txt")]), "among texts it is one"
    assert not is_beside_rows(Path("notes.md"), rows)
