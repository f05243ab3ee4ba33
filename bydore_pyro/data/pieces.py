"""Texts in parts: large files as they are read, files whose pieces are split, long documents."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from bydore_pyro.data.rows import Row
from bydore_pyro.utils import DataError

__all__ = ["PIECE", "SMALLEST_FILE_OF_PIECES", "cut", "in_pieces", "read_text"]

# Text files above this many bytes are split piece by piece, as files of rows are row by row.
SMALLEST_FILE_OF_PIECES = 1_000_000
PIECE = 2**16  # bytes
LONGEST_PIECE = 10_000_000  # characters, where no line ends


def read_text(path: Path, on_error: Literal["stop", "skip"] = "stop") -> Iterator[Row]:
    """Yields a text file, a large one in pieces that end with a line where they can.

    A line of more than 10 million characters is cut, so that one of any length can be read.

    Raises:
        DataError: Where it is not UTF-8, with `on_error="stop"`; with "skip" the rest of the file
            is one row without text.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    size, number = path.stat().st_size, 0
    rest: list[str] = []  # what has been read of a line that goes on
    length = PIECE if size > SMALLEST_FILE_OF_PIECES else SMALLEST_FILE_OF_PIECES
    if on_error == "skip" and not os.access(path, os.R_OK):
        yield Row(1, None)
        return
    with path.open("rb") as file:
        while block := file.read(length):
            try:
                text = decoder.decode(block)
            except UnicodeDecodeError as error:
                if on_error == "stop":
                    at = file.tell() - len(error.object) + error.start
                    raise DataError(
                        f"Expected UTF-8, found other bytes, {path}, byte {at}"
                    ) from None
                yield Row(number + 1, None)
                return
            ended, line_break, after = text.rpartition("\n") if length == PIECE else ("", "", text)
            if line_break:
                number += 1
                piece = "".join((*rest, ended, line_break))
                yield Row(number, piece, position=file.tell() / size)
                rest = []
            rest.append(after)
            if sum(map(len, rest)) >= LONGEST_PIECE:
                number += 1
                yield Row(number, "".join(rest), position=file.tell() / size)
                rest = []
    # A character may be cut off at the end.
    if decoder.getstate()[0]:
        if on_error == "stop":
            raise DataError(f"Expected UTF-8, found half a character, {path}, byte {size}")
        yield Row(number + 1, None)
    elif any(rest):
        yield Row(number + 1, "".join(rest))


def in_pieces(rows: Iterable[Row], length: int, shortest: int) -> Iterator[Row]:
    """Cuts rows into pieces, at the last line break in a piece's second half where there is one.

    Pieces are stripped, as documents are, so that the same piece has the same hash wherever it
    stands. Rows without text stay.

    Args:
        rows: Texts, most often one: a file's.
        length: Most characters of a piece.
        shortest: An end of fewer characters stays with the piece before it.

    Returns:
        The pieces, numbered from 1.
    """
    number = 0
    for row in rows:
        if row.text is None:
            number += 1
            yield row._replace(number=number)
            continue
        text, start = row.text.strip(), 0
        while start < len(text):
            end = start + length
            if len(text) - end < shortest:
                end = len(text)
            else:
                end = text.rfind("\n", start + length // 2, end) + 1 or end
            number += 1
            yield Row(number, text[start:end].strip(), row.domain, row.position * end / len(text))
            start = end


def cut(text: str, longest: int, shortest: int) -> Iterator[str]:
    """Cuts a text into documents, at the last line break before the limit where there is one.

    Args:
        text: The text.
        longest: Most characters of a document.
        shortest: Fewest; what is shorter is dropped.
    """
    start = 0
    while start < len(text):
        end = min(start + longest, len(text))
        if end < len(text):
            line_break = text.rfind("\n", start + shortest, end)
            end = line_break + 1 if line_break > 0 else end
        piece = text[start:end].strip()
        if len(piece) >= shortest:
            yield piece
        start = end
