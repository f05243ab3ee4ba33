"""Signals that end a program: raised at once, or after what is under way has been saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from bydore_pyro.utils.command_line import one_line_errors
from bydore_pyro.utils.interrupts import Interrupted, deferred, ending_on_signals

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """A test run in the background may have been started with the signals ignored."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in CODES}
    yield
    after = {number: signal.getsignal(number) for number in CODES}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert set(after.values()) == {signal.default_int_handler}, "everything is as it was"


def arrive(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", CODES)
def test_a_signal_ends_the_program_with_its_code(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = []
    with pytest.raises(SystemExit) as exit_, one_line_errors("test"):
        try:
            arrive(number)
        finally:
            closed.append(True)
    assert exit_.value.code == CODES[number]
    assert closed
    by = "" if number == signal.SIGINT else f" by {number.name}"
    assert capsys.readouterr().err == f"test: error: interrupted{by}\n"


def test_while_it_ends_a_second_one_changes_nothing() -> None:
    with pytest.raises(Interrupted), ending_on_signals() as deaf:
        try:
            arrive(signal.SIGINT)
        except Interrupted:
            deaf()
            arrive(signal.SIGTERM)
            raise


@pytest.mark.parametrize("number", CODES)
def test_deferred_it_waits_for_the_end_of_a_step(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    done = []
    with pytest.raises(Interrupted) as found, ending_on_signals(), deferred() as asked:
        for step in range(5):
            if step == 2:
                arrive(number)
                arrive(signal.SIGTERM)
            done.append(step)
            if asked():
                raise Interrupted(asked())
    assert done == [0, 1, 2]
    assert found.value.exit_code == CODES[number], "the first one counts"
    assert found.value.asked_by_hand == (number == signal.SIGINT)
    assert capfd.readouterr().err == f"\n{number.name}: saving after this step\n", (
        "told once, at once"
    )


def test_one_that_nobody_asked_for_is_raised_at_the_end() -> None:
    with pytest.raises(Interrupted, match="interrupted by SIGTERM"), deferred():
        arrive(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), deferred():
        arrive(signal.SIGTERM)
        _ = 1 / 0


def test_blocks_within_each_other_share_the_signal() -> None:
    inner = []
    with pytest.raises(Interrupted), deferred() as asked:
        with deferred() as within:
            arrive(signal.SIGHUP)
            inner.append(within())
        inner.append(asked())
    assert inner == [signal.SIGHUP, signal.SIGHUP]


def test_what_is_ignored_stays_ignored() -> None:
    """`nohup`, and a program that a script starts in the background."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with one_line_errors("test"), deferred() as asked:
        arrive(signal.SIGHUP)
        assert not asked()
    signal.signal(signal.SIGHUP, signal.default_int_handler)


def test_other_threads_get_no_signals() -> None:
    found = []

    def work() -> None:
        with ending_on_signals() as deaf, deferred() as asked:
            deaf()
            found.append(asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0]


FORKED = """
import os, signal
from bydore_pyro.utils.interrupts import deferred

signal.signal(signal.SIGTERM, signal.SIG_DFL)
with deferred() as asked:
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), asked())
"""


def test_a_forked_worker_ends_as_ever() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert done.stdout == f"{-signal.SIGTERM} 0\n", done.stderr
    assert not done.stderr
