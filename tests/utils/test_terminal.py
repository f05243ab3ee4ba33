"""Text, signals and devices: what would steer a terminal is shown, what is under way is saved."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from processes import forked
from tqdm import tqdm

from bydore_pyro.utils.command_line import one_line_errors
from bydore_pyro.utils.errors import DataError
from bydore_pyro.utils.folders import appearing_file
from bydore_pyro.utils.terminal import (
    TOGETHER,
    Interrupted,
    deferred,
    device_named,
    ending_when_asked,
    one_thread,
    progress_bar,
    quiet_unless_main,
    return_freed_memory,
    stop_if_asked,
    tell,
    told_if_stopped,
    visible,
    visible_streams,
)

EVIL = "a\x1b]0;title\x07\x1b[2J\r\nbydore: done\u202e\x9b"
SHOWN = r"a\x1b]0;title\x07\x1b[2J\r\nbydore: done\u202e\x9b"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


class Terminal(io.StringIO):
    """A stream that says that it is one."""

    def isatty(self) -> bool:
        return True


def is_harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n" for c in text)


def test_what_cannot_be_seen_becomes_visible() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("half \udcff") == r"half \udcff"
    assert visible("größer 漢字 — 4 %") == "größer 漢字 — 4 %"


def test_messages_warnings_and_lines_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tell(EVIL)
    with pytest.raises(SystemExit), one_line_errors("bydore x"):
        warnings.simplefilter("always")
        warnings.warn(f"of {EVIL}", stacklevel=1)
        print("an error of a library", EVIL, file=sys.stderr)
        raise DataError(f"Expected another, found '{EVIL}'")
    err = capsys.readouterr().err
    assert is_harmless(err)
    first, *_, last = err.splitlines()
    assert first == SHOWN
    assert last.startswith(r"bydore x: error: Expected another, found 'a\x1b]0;title")
    assert len(err.splitlines()) == 4 + 1, "the line that a library prints may have line breaks"


def test_a_bar_steers_and_its_names_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with visible_streams():
        with progress_bar() as show:
            show(10.0, 20.0, EVIL)
        with tqdm(total=2, desc=EVIL, mininterval=0) as outer:
            with tqdm(total=2, mininterval=0) as inner:
                inner.update()
            outer.set_postfix_str(EVIL)
    written = terminal.getvalue()
    assert SHOWN in written
    assert "\r" in written, "bars are drawn over"
    assert "\x1b[A" in written, "and above each other"
    assert is_harmless(written.replace("\r", "").replace("\x1b[A", ""))


def test_output_is_shown_on_a_terminal_and_kept_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, expected in ((Terminal(), "\\x1b[2J\n"), (io.StringIO(), "\x1b[2J\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        with visible_streams():
            print("\x1b[2J")
        assert stream.getvalue() == expected
        assert sys.stdout is stream


@pytest.mark.parametrize(("rank", "heard"), [("0", True), ("1", False)])
def test_one_of_several_processes_prints(
    rank: str, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
    monkeypatch.setenv("RANK", rank)
    quiet_unless_main()
    assert isinstance(sys.stdout, io.StringIO) == isinstance(sys.stderr, io.StringIO) == heard
    sys.stdout.close()


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


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGINT),
                                     (signal.SIGTERM, signal.SIGHUP)])  # fmt: skip
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


def test_a_block_on_one_thread_leaves_the_others_as_they_were() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with suppress(ZeroDivisionError), one_thread():
            assert torch.get_num_threads() == 1
            raise ZeroDivisionError
        assert torch.get_num_threads() == 2
        assert one_thread()(torch.get_num_threads)() == 1
    finally:
        torch.set_num_threads(before)


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


def test_devices_by_name() -> None:
    return_freed_memory()
    assert device_named("cpu") == torch.device("cpu")
    assert device_named("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("meta", "tpu", "", "cuda:99", "cpu:x"):
        with pytest.raises(ValueError, match=f"a device of this machine, found '{name}'.*$"):
            device_named(name)


def test_of_several_processes_the_first_tells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        tell(f"process {rank}")
    assert capsys.readouterr().err == "process 0\n"
