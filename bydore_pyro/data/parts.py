"""Parts of files, so that a sample is read without the rest."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

from fsspec.utils import seek_delimiter

from bydore_pyro.data.kinds import kind_of
from bydore_pyro.data.remote import opened, readable_place

BLOCK = 2**22  # bytes that are read at a time
LINE = 2**16  # bytes that are read at a time where the next line is looked for


class Part(NamedTuple):
    """A part of a file. A row belongs to the part in which it begins.

    Attributes:
        start: The first byte of the file, or of what it is decompressed to; or the first row of a
            row group.
        end: Exclusive; None for all that is left.
        group: Number of a Parquet file's row group; None in other files.
    """

    start: int
    end: int | None
    group: int | None = None


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
    """Returns where the first line that begins in a part of a file lies, and a stream from there.

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
            seek_delimiter(file, b"\n", LINE)
        return file.tell()

    size = file.seek(0, io.SEEK_END)
    end = size if part.end is None or part.end >= size else next_line(part.end)
    file.seek(0)
    start = min(next_line(part.start), end)
    lines = pyarrow.PythonFile(file, "r").get_stream(start, end - start)
    return start, io.BufferedReader(Sips(lines, BLOCK), BLOCK)


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
