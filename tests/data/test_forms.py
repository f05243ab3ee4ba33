"""Rows out of a stream: an array is streamed, and nothing is longer than it may be."""

from __future__ import annotations

import csv
import io

import pytest

from bydore_pyro.data.forms import numbered_lines, rows_of, too_long


def read(content: bytes, form: str, longest: int = 1000) -> list:
    unit, rows = rows_of(io.BufferedReader(io.BytesIO(content)), form, longest)  # type: ignore
    return [unit, *rows]


def test_rows_of_every_form() -> None:
    assert read(b'{"a": 1}\n\n{"a": 2}', "json") == ["line", (1, b'{"a": 1}'), (3, b'{"a": 2}')]
    assert read(b' [ {"a": 1}, {"a": 2.5} ]', "json") == ["row", (1, {"a": 1}), (2, {"a": 2.5})]
    assert read(b"[]", "json") == ["row"]
    assert read(b"[1, 2]\n", "json") == ["line", (1, b"[1, 2]")], "a row that is none"
    assert read(b'\xef\xbb\xbfa,b\r\n1,"x\ny"\n', "csv") == ["row", (1, {"a": "1", "b": "x\ny"})]
    assert read(b"a\tb\n1\t\n", "tsv") == ["row", (1, {"a": "1", "b": ""})]
    assert list(numbered_lines(io.BufferedReader(io.BytesIO(b"a\n")), 9)) == [(1, b"a")]


def test_what_is_too_long_ends_a_table() -> None:
    with pytest.raises(csv.Error, match="Expected a line of at most 1 MB, found more"):
        read(b"a\n" + b"x" * 10**6 + b"y", "csv", 10**6)
    assert str(too_long("text", 10**8)) == "Expected text of at most 100 MB, found more"
