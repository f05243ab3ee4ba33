"""Signals that end a program: what is under way is saved first, once.

SIGINT (Ctrl-C), SIGTERM (what schedulers send before they kill) and SIGHUP (the terminal has gone)
raise `Interrupted` where they arrive. Inside `deferred` they are noted and nothing is broken off:
who works there asks between two steps, saves, and raises it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Interrupted", "deferred", "ending_on_signals"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end.

    Args:
        number: The signal's.

    Attributes:
        exit_code: What a shell expects of a program that the signal ended: 130 after SIGINT, 143
            after SIGTERM, 129 after SIGHUP.
        asked_by_hand: Whether it was Ctrl-C: behind the others stands one who may soon kill.
    """

    def __init__(self, number: int) -> None:
        self.asked_by_hand = number == signal.SIGINT
        by = "" if self.asked_by_hand else f" by {signal.Signals(number).name}"
        super().__init__(f"interrupted{by}")
        self.exit_code = 128 + number


class _Note:
    """Notes the first signal of this process."""

    def __init__(self) -> None:
        self.number, self._process = 0, os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a forked worker, of which nobody asks anything
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not self.number:
            self.number = number
            if os.environ.get("RANK", "0") == "0":
                # Not by `print`, which may be under way.
                os.write(2, f"\n{signal.Signals(number).name}: saving after this step\n".encode())


def _raise(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


@contextmanager
def ending_on_signals() -> Iterator[Callable[[], None]]:
    """Lets the three signals raise `Interrupted` in the block.

    One that is ignored stays so: `nohup` means it, and so does a script that starts a program in
    the background. Threads other than the main one receive no signals.

    Yields:
        A function from which on the signals are ignored: the program is ending.
    """
    with _handled(_raise):
        yield lambda: _handle(dict.fromkeys(_listened(), signal.SIG_IGN))


@contextmanager
def deferred() -> Iterator[Callable[[], int]]:
    """Lets the three signals wait until the block asks for them; a second one changes nothing.

    That one has arrived is told at once, on the error stream.

    Yields:
        A function that returns the number of the first signal that has arrived, 0 before.

    Raises:
        Interrupted: At the block's end, when one has arrived and the block has not raised.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    outer = signal.getsignal(signal.SIGTERM)
    if isinstance(outer, _Note):  # who works around this block asks too
        yield lambda: outer.number
        return
    note = _Note()
    with _handled(note):
        yield lambda: note.number
    if note.number:
        raise Interrupted(note.number)


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
