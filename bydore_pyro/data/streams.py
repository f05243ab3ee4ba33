"""Bytes of a file, or of a part of it: unpacked, and cut into lines and rows.

A `Part` lets a sample be read without the rest of a file. Lines of JSON are found here, because no
library names the line that is broken and goes on behind it.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fsspec.utils import seek_delimiter

from bydore_pyro.data.kinds import Compression, Form, kind_of
from bydore_pyro.data.remote import opened, readable_place
from bydore_pyro.errors import DataError

AT_ONCE = 2**22  # bytes of a part that are read at a time
REST_OF_LINE = 2**17  # bytes of a line that is too long, read at a time
NEXT_LINE = 2**16  # bytes that are read at a time where the next line is looked for
ARRAY = re.compile(rb"\s*\[\s*(\{|\]|$)")  # of rows, as far as it is seen
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Part(NamedTuple):
    """A part of a file. A row belongs to the part in which it begins.

    Attributes:
        start: The first byte of the file, or of what it is decompressed to; or the first row of a
            row group.
        end: Exclusive; None for all that is left.
        group: Number of a Parquet file's row group; None in other files.
        size: Bytes of the file that the part takes; 0 where unknown.
    """

    start: int
    end: int | None
    group: int | None = None
    size: int = 0


def row_groups(path: Path) -> list[tuple[int, int, int]]:
    """Returns the rows of each row group of a Parquet file, their bytes in it, and their bytes
    before compression; nothing for another file.

    Only the end of the file is read.
    """
    from pyarrow import ArrowException, parquet

    if kind_of(path).form != "parquet":
        return []
    try:
        with readable_place(str(path)), opened(path) as raw, parquet.ParquetFile(raw) as file:
            groups = [file.metadata.row_group(g).to_dict() for g in range(file.num_row_groups)]
    except (OSError, ArrowException):
        return []  # whoever reads it says why
    return [
        (g["num_rows"], sum(c["total_compressed_size"] for c in g["columns"]), g["total_byte_size"])
        for g in groups
    ]


def lines_of(file: io.RawIOBase, part: Part) -> tuple[int, io.BufferedReader[Any]]:
    """Returns the place where the first line that begins in a part of a file begins, and a stream
    from there.

    Args:
        file: Not buffered.
        part: Of its bytes; without an end all that is left.
    """
    import pyarrow

    def next_line(place: int) -> int:
        # A line begins there where another ends before it. No part ends at byte 1, where fsspec
        # would take the file's start for a line's end.
        if place > 0:
            file.seek(place - 1)
            seek_delimiter(file, b"\n", NEXT_LINE)
        return file.tell()

    size = file.seek(0, io.SEEK_END)
    end = size if part.end is None or part.end >= size else next_line(part.end)
    file.seek(0)
    start = min(next_line(part.start), end)
    lines = pyarrow.PythonFile(file, "r").get_stream(start, end - start)
    return start, io.BufferedReader(Sips(lines, AT_ONCE), AT_ONCE)


class Sips(io.RawIOBase):
    """A stream that reads a limited number of bytes at once, and counts them."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._most, self._at = stream, most, 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes back to the start; this is not counted."""
        self._at = self._stream.seek(offset, whence)
        return self._at

    def tell(self) -> int:
        """Returns how many bytes have been read."""
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads some bytes into the buffer; returns how many."""
        found = self._stream.read(min(len(buffer), self._most))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def unpacked(file: io.RawIOBase, compression: Compression | None) -> AbstractContextManager[Any]:
    """Opens what a file is decompressed to, as a stream that is not seekable.

    Raises:
        OSError, EOFError, ValueError: While it is read, when it is damaged or breaks off.
    """
    if compression is None:
        return nullcontext(file)
    if compression == "xz":
        return lzma.LZMAFile(file)  # type: ignore[arg-type]
    import pyarrow

    return pyarrow.input_stream(file, compression)


def too_long(what: str, longest: int) -> DataError:
    """Returns the error about what is longer than so many bytes or characters."""
    return DataError(f"Expected {what} of at most {longest // 10**6} MB, found more")


def rows_of(
    stream: io.BufferedReader[Any], form: Form, longest: int
) -> Iterator[tuple[str, int, Any]]:
    """Yields rows of a file with their kind, "line" or "row", and their number from 1.

    A line of JSON comes stripped and not parsed; blank ones are left out. In place of a line of
    more than `longest` bytes, of which no more are held, and of a table's row with more or fewer
    cells than its header, comes a `DataError`.
    """
    if form != "json":
        yield from _cells(stream, "\t" if form == "tsv" else ",", longest)
        return
    begin = b""
    with suppress(Exception):  # what is broken is so again when it is read
        if stream.peek(3).startswith(BYTE_ORDER_MARK):
            stream.read(3)
        begin = stream.peek(3).lstrip()
    if ARRAY.match(begin):
        import ijson

        for number, item in enumerate(ijson.items(stream, "item", use_float=True), 1):
            yield "row", number, item
        return
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            while (rest := stream.readline(REST_OF_LINE)) and not rest.endswith(b"\n"):
                pass
            yield "line", number, too_long("a line", longest)
        elif line := line.strip():
            yield "line", number, line
        else:  # those behind it at once: a small compressed file can hold a billion
            ahead = stream.peek()
            blank = ahead[: len(ahead) - len(ahead.lstrip())]
            number += blank.count(b"\n")
            stream.read(blank.rfind(b"\n") + 1)


def _cells(
    stream: io.BufferedReader[Any], delimiter: str, longest: int
) -> Iterator[tuple[str, int, Any]]:
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
            yield "row", number, dict(zip(header, cells, strict=True))
        else:
            message = f"Expected {len(header)} cells, as in the header, found {len(cells)}"
            yield "row", number, DataError(message)
