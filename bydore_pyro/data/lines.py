"""Lines out of a stream of bytes, whatever stands in it: the memory for them is bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

__all__ = ["LONGEST_LINE", "numbered_lines"]

LONGEST_LINE = 100_000_000  # bytes
BLOCK = 2**17  # bytes that are read at a time
SOLID = re.compile(rb"\S")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Readable(Protocol):
    """What lines can be read from."""

    def read(self, size: int, /) -> bytes:
        """Returns the next bytes, at most `size`; none at the end."""
        ...


def numbered_lines(
    stream: Readable, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, bytes | None]]:
    """Yields the lines that are not blank, with their numbers from 1.

    Blank lines are counted, a block of them at once. Of a line that is too long no more than
    `longest` bytes are held.

    Args:
        stream: Of bytes; a byte order mark at its start is left out.
        longest: Most bytes of a line, without the blanks before it.

    Returns:
        Number and line, without line break or blanks before it; None for a line that is too long.
    """
    number, size, parts = 1, 0, list[bytes]()  # of the line that the last block did not end
    block = stream.read(BLOCK).removeprefix(BYTE_ORDER_MARK)
    while block:
        place = 0
        while place < len(block):
            if not size:
                solid = SOLID.search(block, place)
                start = solid.start() if solid else len(block)
                number += block.count(b"\n", place, start)
                place = start
                if not solid:
                    break
            end = block.find(b"\n", place)
            stop = len(block) if end < 0 else end
            size += stop - place
            if size <= longest:
                parts.append(block[place:stop])
            else:
                parts.clear()
            place = stop + 1
            if end >= 0:
                yield number, b"".join(parts) if size <= longest else None
                number, size, parts = number + 1, 0, []
        block = stream.read(BLOCK)
    if size:
        yield number, b"".join(parts) if size <= longest else None
