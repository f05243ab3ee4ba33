"""A request to stop ends a program, saves what is under way, and leaves nothing half-written."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import forked

from bydore_pyro.command_line.command_line import one_line_errors
from bydore_pyro.files.writing import appearing_file
from bydore_pyro.terminal.signals import (
    TOGETHER,
    Interrupted,
    deferred,
    ending_when_asked,
    stop_if_asked,
    told_if_stopped,
)

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture
def heard() -> Iterator[None]:
    """A test run in the background may have been started with the signals ignored."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in CODES}
    yield
    after = {number: signal.getsignal(number) for number in CODES}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert set(after.values()) == {signal.default_int_handler}, "everything is as it was"


def arrive(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", CODES)
def test_a_signal_ends_the_program_with_its_code(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_, one_line_errors("test"):
        arrive(number)
    assert exit_.value.code == CODES[number]
    by = "" if number == signal.SIGINT else f" by {number.name}"
    assert capsys.readouterr().err == f"test: error: interrupted{by}\n"


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", CODES)
def test_deferred_it_waits_until_the_block_asks(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    """Signals within half a second are one request: `timeout` and torchrun send two."""
    done = []
    with pytest.raises(Interrupted) as found, ending_when_asked(), deferred() as asked:
        for step in range(5):
            if step == 2:
                arrive(number)
                arrive(signal.SIGTERM)
            done.append(step)
            if asked():
                raise Interrupted(asked())
    assert done == [0, 1, 2]
    assert found.value.exit_code == CODES[number], "the first one counts"
    told = "stopping as soon as what is done is saved; a second one stops at once"
    assert capfd.readouterr().err == f"\n{number.name}: {told}\n"


@pytest.mark.usefixtures("heard")
def test_a_safe_point_raises_what_was_held_back() -> None:
    stop_if_asked()
    passed = []
    with pytest.raises(Interrupted, match="interrupted by SIGHUP"), deferred():
        for step in range(5):
            stop_if_asked(lambda number: passed.append(number) or number)  # type: ignore[func-returns-value]
            if step == 1:
                arrive(signal.SIGHUP)
    assert passed == [0, 0, signal.SIGHUP]
    with pytest.raises(Interrupted, match="interrupted by SIGTERM"):
        stop_if_asked(lambda _: signal.SIGTERM)  # of another process


def write_for_ever(path: Path) -> None:
    """A command that ignores what it is asked, amid a file that it writes."""
    with one_line_errors("test"), deferred(), appearing_file(path) as aside:
        aside.write_text("half")
        while True:
            time.sleep(0.01)


@pytest.mark.parametrize(
    "numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGHUP)]
)
def test_a_second_request_ends_at_once_and_leaves_nothing_half_written(
    tmp_path: Path, numbers: tuple[signal.Signals, signal.Signals]
) -> None:
    place, told = tmp_path / "out" / "file", tmp_path / "told"
    process = forked(lambda: write_for_ever(place), told)
    while not list(place.parent.glob(".writing-*/*")):
        time.sleep(0.01)
    for number in numbers:
        os.kill(process.pid or 0, number)
        time.sleep(TOGETHER + 0.1)
    process.join(5)
    assert process.exitcode == CODES[numbers[1]]
    assert list(place.parent.iterdir()) == []
    assert told.read_text().splitlines()[-1] == f"{numbers[1].name}: stopped at once"


@pytest.mark.usefixtures("heard")
def test_a_second_request_while_it_ends_stops_at_once(tmp_path: Path) -> None:
    """Also where the first was raised, and something that ends with the program hangs."""

    def hang() -> None:
        with one_line_errors("test"):
            try:
                (tmp_path / "ready").touch()
                time.sleep(60)
            finally:
                (tmp_path / "ends").touch()
                time.sleep(60)

    process = forked(hang, tmp_path / "told")
    for name in ("ready", "ends"):
        while not (tmp_path / name).exists():
            time.sleep(0.01)
        time.sleep(TOGETHER + 0.1)
        os.kill(process.pid or 0, signal.SIGINT)
    process.join(5)
    assert process.exitcode == 130


def test_who_is_stopped_reads_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with told_if_stopped("Go on with: x"):
        pass
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt), told_if_stopped("Go on with: x"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "Go on with: x\n"


@pytest.mark.usefixtures("heard")
def test_deferred_blocks_share_a_signal_and_raise_it_at_their_end() -> None:
    inner = []
    with pytest.raises(Interrupted, match="interrupted by SIGHUP"), deferred() as asked:
        with deferred() as within:
            arrive(signal.SIGHUP)
            inner.append(within())
        inner.append(asked())
    assert inner == [signal.SIGHUP, signal.SIGHUP]
    with pytest.raises(ZeroDivisionError), deferred():
        arrive(signal.SIGTERM)
        _ = 1 / 0


@pytest.mark.usefixtures("heard")
def test_what_is_ignored_stays_ignored_and_other_threads_get_no_signals() -> None:
    """`nohup`, and a program that a script starts in the background."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with one_line_errors("test"), deferred() as asked:
        arrive(signal.SIGHUP)
        assert not asked()
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    found = []

    def work() -> None:
        with ending_when_asked(), deferred() as asked:
            found.append(asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0]


def test_a_forked_worker_ends_as_ever() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with deferred() as asked:
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
            assert not asked()
    finally:
        signal.signal(signal.SIGTERM, before)
