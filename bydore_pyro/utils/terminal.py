"""Text on its way to a terminal: what would steer it is shown instead of done.

Names of domains come from data, and paths from others. Files keep them as they are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

__all__ = ["progress_bar", "quiet_unless_main", "tell", "visible", "visible_streams"]

# tqdm steers: back to the line's start, down and up to the line of another bar.
STEERING = re.compile(r"\n*(\x1b\[A)*")


def visible(text: str) -> str:
    r"""Returns a text in which all that cannot be seen is an escape, such as ``\x1b`` or ``\n``.

    That is what Python calls not printable: control characters, line breaks, marks of the writing
    direction, halves of characters.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


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


def quiet_unless_main() -> None:
    """Lets only the first of several processes print."""
    if int(os.environ.get("RANK", "0")) > 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115


@contextmanager
def visible_streams() -> Iterator[None]:
    """Shows in the block as escapes what is told on standard error, and printed to a terminal.

    Standard output that goes to a file is a file: it keeps names as they are.
    """
    out: Any = _Visible(sys.stdout) if sys.stdout.isatty() else sys.stdout
    error: Any = _Visible(sys.stderr)
    with redirect_stdout(out), redirect_stderr(error):
        yield


def tell(line: str) -> None:
    """Prints a line of progress."""
    print(f"{visible(line)}\n", end="", file=sys.stderr)  # at once: threads tell too


@contextmanager
def progress_bar() -> Iterator[Callable[[float, float, str], None]]:
    """Gives the block a function that shows how much of the sources has been read."""
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, desc="prepare", mininterval=0.5, disable=None) as bar:

        def show(done: float, total: float, taken: str) -> None:
            bar.total = total
            bar.set_postfix_str(taken, refresh=False)
            bar.update(int(done) - bar.n)

        yield show
