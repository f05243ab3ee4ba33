"""Parts of files, so that a sample is read without the rest."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bydore_pyro.data.kinds import kind_of
from bydore_pyro.data.remote import opened

__all__ = ["LinesOf", "Part", "Sips", "row_groups"]

BLOCK = 2**22  # bytes that are read at a time, at most
LINE = 2**12  # bytes that are read beyond a part at once, where a line of it may end
REST = 2**17  # bytes of a longer line that are read at a time


class Part(NamedTuple):
    """A part of a file. Rows belong to the part that they begin in.

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
    """Returns of each row group of a Parquet file its rows, the bytes that they take in it, and
    what these are before compression; nothing where it is none.

    Only the end of the file is read.
    """
    from pyarrow import ArrowException, parquet

    if kind_of(path).form != "parquet":
        return []
    try:
        with opened(path) as raw, parquet.ParquetFile(raw) as file:
            groups = [file.metadata.row_group(g).to_dict() for g in range(file.num_row_groups)]
    except ConnectionError:
        raise
    except (OSError, ArrowException):
        return []  # whoever reads it says why
    return [
        (g["num_rows"], sum(c["total_compressed_size"] for c in g["columns"]), g["total_byte_size"])
        for g in groups
    ]


class LinesOf(io.RawIOBase):
    """The lines of a file that begin in a part of it, as a file.

    Args:
        file: Not buffered.
        part: Of its bytes.
    """

    def __init__(self, file: io.RawIOBase, part: Part) -> None:
        self._at, self._rest = part.start, b""
        self._blocks = _blocks(file, part.start, math.inf if part.end is None else part.end)

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def tell(self) -> int:
        """Returns where in the file it stands, in bytes."""
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads at most as many bytes as the buffer holds; returns how many."""
        if not self._rest:
            self._at, self._rest = next(self._blocks, (self._at, b""))
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        self._at += len(taken)
        return len(taken)


def _blocks(file: io.RawIOBase, start: int, end: float) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that begin in [start, end) block by block, with the place of each block."""
    at = file.seek(max(0, start - 1))  # a line begins at the start where another ends before it
    inside = start == 0
    while block := file.read(int(min(BLOCK, end - at + LINE)) if at < end else REST):
        first = 0 if inside else block.find(b"\n") + 1
        begun, inside = inside, inside or first > 0
        if not begun and at + (first if inside else len(block)) >= end:
            return
        last = -1 if at + len(block) < end else block.find(b"\n", max(0, int(end) - 1 - at))
        if inside and (lines := block[first : last + 1 or None]):
            yield at + first, lines
        if last >= 0:
            return
        at += len(block)


class Sips(io.RawIOBase):
    """A stream of which at most so many bytes are read at once, and counted."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._most, self._at = stream, most, 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes back to the start, which is then not counted."""
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
