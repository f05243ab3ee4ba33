"""`bydore prepare` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tiny import row, write_domains, write_lines

from bydore_pyro.cli.prepare import PrepareConfig, prepare_command
from bydore_pyro.data.store import open_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=20)
    return tmp_path / "text"


def test_prepare_builds_a_store(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "store"
    options = ["--data", str(folder), "--out", str(out), "--vocabulary", "280"]
    command = [sys.executable, "-m", "bydore_pyro", "prepare", *options, "--processes", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    store = open_store(out)
    for name in ("a", "b"):
        assert f"{len(store.train[name]):,}" in done.stdout
    assert "Warning" not in done.stderr
    with pytest.raises(SystemExit) as exit_:
        prepare_command(options)
    assert exit_.value.code == 2
    told = f"bydore prepare: error: Expected a new folder for the store, found {out}\n"
    assert capsys.readouterr().err == told


def test_a_sample_is_told_with_what_it_is_of(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(folder / "c.jsonl", [row("c", i) for i in range(3000)])
    options = ["--data", str(folder), "--processes", "0", "--vocabulary", "280", "--tokens", "0.2M"]
    prepare_command([*options, "--out", str(tmp_path / "out")])
    told = capsys.readouterr().out.splitlines()
    assert "in all, about" in told[0]
    assert "±" not in told[1] + told[2]
    size = open_store(tmp_path / "out").size("c")
    assert f"{size:,} ± " in told[3]
    for few in ("0.5", "0", "-1", "1e30", "many", "nan"):
        with pytest.raises(SystemExit) as error:
            prepare_command(["--data", "x", "--out", str(tmp_path / "more"), "--tokens", few])
        assert error.value.code == 2
        assert "xpected tokens" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        prepare_command([*options, "--out", str(tmp_path / "more"), "--domain_megabytes", "1"])
    assert capsys.readouterr().err.endswith("Expected --tokens or --domain_megabytes, found both\n")


def test_a_bad_row_names_its_place(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_lines(folder / "c.jsonl", [row("c", 1), {"text": 3}, row("c", 2)])
    options = ["--data", str(folder), "--out", str(tmp_path / "out"), "--processes", "0"]
    with pytest.raises(SystemExit):
        prepare_command(options)
    expected = f"Expected text in column 'text', found int, {path}, line 2"
    assert capsys.readouterr().err.splitlines()[-1] == f"bydore prepare: error: {expected}"
    prepare_command([*options, "--on_error", "skip"])
    assert capsys.readouterr().out.splitlines()[3].split()[-1] == "1"
    with pytest.raises(SystemExit):
        prepare_command(["--data", "megatron:x", "--out", str(tmp_path / "more")])
    assert "text, found token shards (megatron:x), which bydore search" in capsys.readouterr().err
    with pytest.raises(ValueError, match="Expected a value for --out"):
        PrepareConfig(data="x", out="")
