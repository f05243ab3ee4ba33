"""Requests to stop a program: SIGINT, SIGTERM and SIGHUP.

SIGINT (Ctrl-C), SIGTERM (what schedulers send before they kill) and SIGHUP (the terminal has gone)
ask to stop. The first raises `Interrupted` where it arrives. Inside `deferred` it is noted, and
who works there asks at safe points, at most seconds apart, saves, and raises it. A second one
ends the process at once, as a kill does.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from bydore_pyro.terminal.lines import tell

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds within which signals are one request: `timeout` sends two, and so do torchrun and the
# terminal together.
TOGETHER = 0.5
HALF_WRITTEN: set[Path] = set()  # folders that go where the process ends at once


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
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in SIGNALS}
    handled = [n for n, handler in before.items() if handler not in (None, signal.SIG_IGN)]
    requests = _Requests()
    for number in handled:
        signal.signal(number, requests)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


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
