"""What would steer a terminal is shown: in messages, tables and bars; files keep it."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path

import pytest
from tiny import row, write_lines
from tqdm import tqdm

from bydore_pyro.cli.main import main
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.tables import weights_table
from bydore_pyro.utils.command_line import one_line_errors
from bydore_pyro.utils.errors import DataError
from bydore_pyro.utils.terminal import (
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


def test_tables_keep_their_rows() -> None:
    mixture = Mixture(names=(EVIL, "b"), weights=(0.75, 0.25))
    table = weights_table(RunRecord(path=Path("run"), label="run", mixture=mixture)).as_text()
    assert is_harmless(table)
    (line,) = (line for line in table.splitlines() if SHOWN in line)
    assert line.startswith(f"{SHOWN}  ")


def test_a_store_of_such_domains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("evil\x1b[2J\nb", "b")
    rows = [{**row("word", i), "kind": names[i % 2]} for i in range(80)]
    write_lines(tmp_path / "a.jsonl", rows)
    out = tmp_path / "store\x1b[2J"
    data = str(tmp_path / "a.jsonl")
    small = ["--vocabulary", "300", "--processes", "0", "--shortest_document", "5"]
    main(["prepare", "--data", data, "--domain_column", "kind", "--out", str(out), *small])
    told = capsys.readouterr()
    assert is_harmless(told.out + told.err)
    assert r"evil\x1b[2J\nb " in told.out
    assert set(json.loads((out / "index.json").read_text())["domains"]) == set(names)


@pytest.mark.parametrize(("rank", "heard"), [(None, True), ("0", True), ("1", False)])
def test_one_of_several_processes_prints(
    rank: str | None, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    quiet_unless_main()
    assert isinstance(sys.stdout, io.StringIO) == isinstance(sys.stderr, io.StringIO) == heard
    sys.stdout.close()


def test_the_bar_is_quiet_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as show:
        show(5, 10, "5 MB")
    assert capsys.readouterr().err == ""


def test_lines_of_progress_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    tell("a line")
    assert capsys.readouterr() == ("", "a line\n")
