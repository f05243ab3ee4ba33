"""Rows out of a stream of bytes: JSON lines, an array in JSON, and tables with a header.

JSON lines are told apart here, because no library names the line that is broken and goes on behind
it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from bydore_pyro.data.kinds import Form
from bydore_pyro.errors import DataError

BLOCK = 2**17  # bytes of a line that is too long, read at a time
ARRAY = re.compile(rb"\s*\[\s*(\{|\]|$)")  # of rows, as far as it is seen
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def too_long(what: str, longest: int) -> DataError:
    """Returns the error about what is longer than so many bytes or characters."""
    return DataError(f"Expected {what} of at most {longest // 10**6} MB, found more")


def rows_of(
    stream: io.BufferedReader[Any], form: Form, longest: int
) -> tuple[str, Iterator[tuple[int, Any]]]:
    """Returns what rows are called, "line" or "row", and each with its number from 1.

    A line of JSON is not parsed yet, and None where it has more than `longest` bytes. A row of a
    table with more or fewer cells than the header is a `DataError`.
    """
    if form != "json":
        return "row", _cells(stream, "\t" if form == "tsv" else ",", longest)
    with suppress(Exception):  # what is broken is so again when it is read
        if stream.peek(3).startswith(BYTE_ORDER_MARK):
            stream.read(3)
    begin = b""
    with suppress(Exception):
        begin = stream.peek(3).lstrip()
    if not ARRAY.match(begin):
        return "line", numbered_lines(stream, longest)
    import ijson

    return "row", enumerate(ijson.items(stream, "item", use_float=True), 1)


def _cells(
    stream: io.BufferedReader[Any], delimiter: str, longest: int
) -> Iterator[tuple[int, Any]]:
    """Rows of a table whose first line names the columns."""

    def lines() -> Iterator[str]:
        first = True
        while line := stream.readline(longest + 1):
            if len(line) > longest:
                raise csv.Error(str(too_long("a line", longest)))
            try:
                text = line.decode("utf-8-sig" if first else "utf-8")
            except UnicodeDecodeError:
                if first:
                    raise csv.Error("the header is not in UTF-8") from None
                text = line.decode("utf-8", "surrogateescape")  # refused where it is a row's text
            yield text
            first = False

    csv.field_size_limit(longest)
    rows = csv.reader(lines(), delimiter=delimiter, strict=True)
    header = next(rows, [])
    if twice := [name for name in header if name and header.count(name) > 1]:
        raise csv.Error(f"column '{twice[0]}' stands twice in the header")
    for number, cells in enumerate(filter(None, rows), 1):
        if len(cells) == len(header):
            yield number, dict(zip(header, cells, strict=True))
        else:
            told = f"Expected {len(header)} cells, as in the header, found {len(cells)}"
            yield number, DataError(told)


def numbered_lines(
    stream: io.BufferedReader[Any], longest: int
) -> Iterator[tuple[int, bytes | None]]:
    """Yields the lines that are not blank, stripped, with their numbers from 1.

    For a line of more than `longest` bytes comes None, and no more than that of it are held. A byte
    order mark is left out.
    """
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if len(line) > longest and not line.endswith(b"\n"):
            while (rest := stream.readline(BLOCK)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        elif line := line.strip():
            yield number, line
        else:  # those behind it at once: a small compressed file can hold a billion
            ahead = stream.peek()
            blank = ahead[: len(ahead) - len(ahead.lstrip())]
            number += blank.count(b"\n")
            stream.read(blank.rfind(b"\n") + 1)
