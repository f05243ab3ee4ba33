"""What would steer a terminal is escaped; one process of several prints."""

from __future__ import annotations

import io
import sys
import warnings

import pytest
from tqdm import tqdm

from bydore_pyro.command_line.command_line import one_line_errors
from bydore_pyro.errors import DataError
from bydore_pyro.terminal.lines import (
    progress_bar,
    quiet_unless_main,
    tell,
    visible,
    visible_streams,
)

EVIL = "a\x1b]0;title\x07\x1b[2J\r\nbydore: done\u202e\x9b"
SHOWN = r"a\x1b]0;title\x07\x1b[2J\r\nbydore: done\u202e\x9b"


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


def test_of_several_processes_the_first_tells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        tell(f"process {rank}")
    assert capsys.readouterr().err == "process 0\n"
