"""Lines on the terminal: tables, progress, and text of others that must not steer it.

Names of domains come from data, paths from others: control characters in them are escaped. Files
keep them as they are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, TextIO

# tqdm steers: back to the line's start, down and up to the line of another bar.
STEERING = re.compile(r"\n*(\x1b\[A)*")


def visible(text: str) -> str:
    r"""Escapes the characters of a text that Python calls not printable, as ``\x1b``."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of words, for a page and for a terminal; a caption stands above it.

    A folded one is shown on a page when the reader asks for it, and nowhere else.
    """

    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    caption: str = ""
    folded: bool = False

    def as_text(self) -> str:
        """Returns it in columns of characters, the first aligned left, the others right."""
        table = [[visible(cell) for cell in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [self.caption] if self.caption else []
        for first, *cells in table:
            right = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([f"{first:<{widths[0]}}", *right]).rstrip())
        return "\n".join(lines)


class _Visible:
    """A stream that shows escapes; it is the other stream in everything else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes a text whose lines are kept; a line of a bar (of tqdm) is one line."""
        if text.startswith("\r"):
            end = "\r" if text.endswith("\r") and len(text) > 1 else ""
            text = f"\r{visible(text.strip(chr(13)))}{end}"
        elif not STEERING.fullmatch(text):
            text = "\n".join(visible(line) for line in text.split("\n"))
        return self._stream.write(text)


@contextmanager
def visible_streams() -> Iterator[None]:
    """Escapes text on its way to standard error, and to a terminal, in the block."""
    out: Any = _Visible(sys.stdout) if sys.stdout.isatty() else sys.stdout
    error: Any = _Visible(sys.stderr)
    with redirect_stdout(out), redirect_stderr(error):
        yield


def quiet_unless_main() -> None:
    """Lets only the first of several processes print."""
    if int(os.environ.get("RANK", "0")) > 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def tell(line: str) -> None:
    """Prints a line of progress; of several processes the first does."""
    if os.environ.get("RANK", "0") != "0":
        return
    print(f"{visible(line)}\n", end="", file=sys.stderr)  # at once: threads print too


@contextmanager
def progress_bar(work: str = "prepare") -> Iterator[Callable[[float, float, str], None]]:
    """Gives the block a function that shows how many of how many bytes have been read, and what was
    taken of them."""
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, desc=work, mininterval=0.5, disable=None) as bar:

        def show(done: float, total: float, taken: str) -> None:
            bar.total = total
            bar.set_postfix_str(taken, refresh=False)
            bar.update(int(done) - bar.n)

        yield show
