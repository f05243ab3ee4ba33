"""Lines of a stream: as Python splits them, however long, whatever lies between them."""

from __future__ import annotations

import io
import time
import tracemalloc

import pytest

from bydore_pyro.data.lines import LONGEST_LINE, numbered_lines

LINES = [b"a", b"", b"  b c\t", b"\r", b" \t ", b"d" * 300_000, b"e", b"", b""]


class Repeated:
    """A stream of one block of bytes, many times over."""

    def __init__(self, block: bytes, times: int, end: bytes = b"") -> None:
        self.block, self.times, self.end = block, times, end

    def read(self, size: int, /) -> bytes:
        """Returns the next block."""
        assert len(self.block) <= size
        if self.times:
            self.times -= 1
            return self.block
        end, self.end = self.end, b""
        return end


@pytest.mark.parametrize("end", [b"", b"\n", b"last", b"\n \n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_lines_are_those_that_python_finds(end: bytes, mark: bytes) -> None:
    content = b"\n".join(LINES) + end
    expected = [
        (number, line.lstrip())
        for number, line in enumerate(content.split(b"\n"), start=1)
        if line.strip()
    ]
    assert list(numbered_lines(io.BytesIO(mark + content))) == expected


def test_a_line_that_is_too_long_is_told_and_the_next_one_read() -> None:
    content = b"12345\n\n  12345  \n123456\n1\n1234567"
    found = list(numbered_lines(io.BytesIO(content), 5))
    assert found == [(1, b"12345"), (3, None), (4, None), (5, b"1"), (6, None)]


def test_a_line_of_ten_gigabytes_takes_the_memory_of_the_longest() -> None:
    stream = Repeated(b"x" * 2**17, 10 * 2**13, b"\nlast")
    tracemalloc.start()
    try:
        found = list(numbered_lines(stream, 10**6))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [(1, None), (2, b"last")]
    assert peak < 4e6
    assert LONGEST_LINE == 100_000_000


def test_a_hundred_million_empty_lines_take_a_moment() -> None:
    for block in (b"\n" * 2**17, b" \n" * 2**16):
        times = 100_000_000 // block.count(b"\n")
        begun = time.process_time()
        found = list(numbered_lines(Repeated(block, times, b"last")))
        assert found == [(times * block.count(b"\n") + 1, b"last")]
        assert time.process_time() - begun < 10
