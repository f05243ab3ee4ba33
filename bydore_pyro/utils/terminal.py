"""What a command shares with its machine: the terminal, requests to stop, devices and memory.

Names of domains come from data, and paths from others: what would steer the terminal is shown
instead of done. Files keep it as it is.

SIGINT (Ctrl-C), SIGTERM (what schedulers send before they kill) and SIGHUP (the terminal has gone)
ask to stop. The first raises `Interrupted` where it arrives. Inside `deferred` it is noted, and
who works there asks at safe points, at most seconds apart, saves, and raises it. A second one
ends the process at once, as a kill does.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import torch

# tqdm steers: back to the line's start, down and up to the line of another bar.
STEERING = re.compile(r"\n*(\x1b\[A)*")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds within which signals are one request: `timeout` sends two, and so do torchrun and the
# terminal together.
TOGETHER = 0.5
HALF_WRITTEN: set[Path] = set()  # folders that go where the process ends at once


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
def progress_bar() -> Iterator[Callable[[float, float, str], None]]:
    """Gives the block a function that shows how much of the sources has been read."""
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, desc="prepare", mininterval=0.5, disable=None) as bar:

        def show(done: float, total: float, taken: str) -> None:
            bar.total = total
            bar.set_postfix_str(taken, refresh=False)
            bar.update(int(done) - bar.n)

        yield show


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP, given by its number, asked the program to end.

    Attributes:
        exit_code: What a shell expects: 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP.
    """

    def __init__(self, number: int) -> None:
        by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
        super().__init__(f"interrupted{by}")
        self.exit_code = 128 + number


class _Requests:
    """Hears requests to stop: the first is raised, or noted while blocks defer it; a second one
    ends the process.

    Attributes:
        number: Of the first signal, 0 before.
        deferring: How many blocks defer it.
    """

    def __init__(self) -> None:
        self.number = self.deferring = 0
        self._process, self._heard = os.getpid(), 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a forked worker, of which nobody asks anything
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not self.number:
            self.number, self._heard = number, time.monotonic()
            if not self.deferring:
                raise Interrupted(number)
            _say(number, "stopping as soon as what is done is saved; a second one stops at once")
        elif time.monotonic() - self._heard > TOGETHER:
            _say(number, "stopped at once")
            for path in list(HALF_WRITTEN):
                shutil.rmtree(path, ignore_errors=True)
            os._exit(128 + number)


def _say(number: int, text: str) -> None:
    """Writes a line on standard error, not by `print`, which may be under way."""
    if os.environ.get("RANK", "0") == "0":
        os.write(2, f"\n{signal.Signals(number).name}: {text}\n".encode())


def _requests() -> _Requests | None:
    """Returns what hears requests to stop; None where nothing does, and in other threads."""
    if threading.current_thread() is not threading.main_thread():
        return None
    heard = (signal.getsignal(number) for number in SIGNALS)
    return next((one for one in heard if isinstance(one, _Requests)), None)


@contextmanager
def ending_when_asked() -> Iterator[None]:
    """Lets Ctrl-C, SIGTERM and SIGHUP raise `Interrupted` in the block, in the main thread.

    A second request ends the process at once, also after the block has been left by the first. One
    signal that comes again within half a second is one request. One that is ignored stays so:
    `nohup` means it, and so does a script's background program.
    """
    if _requests() is not None:
        yield
        return
    with _handled(_Requests()):
        yield


@contextmanager
def deferred() -> Iterator[Callable[[], int]]:
    """Lets the first request to stop wait until the block asks; a second one does not wait.

    Yields:
        A function that returns the number of the first signal that has arrived, 0 before.

    Raises:
        Interrupted: At the end of the outermost such block, when a signal has arrived and the block
            has not raised.
    """
    with ending_when_asked():
        requests = _requests() or _Requests()  # in a thread that hears nothing
        requests.deferring += 1
        try:
            yield lambda: requests.number
        finally:
            requests.deferring -= 1
        if requests.number and not requests.deferring:
            raise Interrupted(requests.number)


def stop_if_asked(agreed: Callable[[int], int] = int) -> None:
    """Raises `Interrupted` if a request to stop has arrived that a `deferred` block holds back.

    Args:
        agreed: Gives all processes that call this together the largest of their numbers.

    Raises:
        Interrupted: In all of them.
    """
    requests = _requests()
    if number := agreed(requests.number if requests is not None else 0):
        raise Interrupted(number)


@contextmanager
def told_if_stopped(line: str) -> Iterator[None]:
    """Prints a line, such as how to go on, if a request to stop ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        tell(line)
        raise


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _listened()}
    _handle(dict.fromkeys(before, handler))
    try:
        yield
    finally:
        _handle(before)


def _listened() -> list[signal.Signals]:
    """The signals that are handled in Python, where this is the thread to do it."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [n for n in SIGNALS if signal.getsignal(n) not in (None, signal.SIG_IGN)]


def _handle(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def device_named(name: str) -> torch.device:
    """Returns the device `cpu`, `cuda`, `cuda:N`, or for `auto` a GPU if there is one.

    Raises:
        ValueError: When there is no such device.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            raise RuntimeError("neither 'cpu' nor 'cuda'")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"Expected a device of this machine, found '{name}': {reason}") from None
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets torch compute with one thread in the block; also as the decorator of a function.

    Of small tensors a second thread brings nothing, and where the cores have other work too each
    operation waits for it: draws from a posterior of 10 domains took 27 s instead of more than 120.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def return_freed_memory() -> None:
    """Gives freed memory back to the system, where the C library is glibc.

    Large tensors of many sizes scatter its free memory. A search by linear evidence held 1.6 GB
    after 200 steps, of which half was free. The gradients of 768 sequences, one by one, left 4 GB.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
