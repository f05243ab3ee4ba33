"""Text, signals and devices: what would steer a terminal is shown, what is under way is saved."""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress

import pytest
import torch
from tqdm import tqdm

from bydore_pyro.utils.command_line import one_line_errors
from bydore_pyro.utils.errors import DataError
from bydore_pyro.utils.terminal import (
    Interrupted,
    deferred,
    device_named,
    ending_when_asked,
    one_thread,
    progress_bar,
    quiet_unless_main,
    return_freed_memory,
    tell,
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
def test_deferred_it_waits_for_the_end_of_a_step(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
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
    assert found.value.asked_by_hand == (number == signal.SIGINT)
    assert capfd.readouterr().err == f"\n{number.name}: saving after this step\n"


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
