"""`bydore` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import row, write_domains, write_lines

from bydore_pyro.cli import (
    PrepareConfig,
    RepetitionConfig,
    main,
    prepare_command,
    report_command,
    search_command,
)
from bydore_pyro.data.store import open_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=20)
    return tmp_path / "text"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bydore_pyro", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_prepare_builds_a_store(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "store"
    options = ("--data", str(folder), "--out", str(out), "--vocabulary", "280")
    done = run("prepare", *options, "--processes", "2")
    assert done.returncode == 0, done.stderr
    store = open_store(out)
    for name in ("a", "b"):
        assert f"{len(store.train[name]):,}" in done.stdout
    assert "Warning" not in done.stderr
    again = run("prepare", *options)
    assert again.returncode == 2
    assert (
        again.stderr == f"bydore prepare: error: Expected a new folder for the store, found {out}\n"
    )


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "prepare" in capsys.readouterr().out
    with pytest.raises(SystemExit) as exit_:
        main(["prepare", "--help"])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--data", "--out", "--tokenizer", "--text_column", "--on_error", "--processes"):
        assert option in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo"], "bydore: error: Expected a command (prepare, search, report), found 'foo'"),
        (["prepare"], "bydore prepare: error: the following arguments are required: --data, --out"),
        (["prepare", "--data", "", "--out", "x"], "Expected a value for --data"),
        (["prepare", "--data", "d", "--out", "x", "--processes", "-1"], "processes in [0, 1024]"),
        (["prepare", "--data", "nowhere", "--out", "x"], "found no folder nowhere"),
        (["prepare", "--data", "environment", "--out", "x", "--domain_megabytes", "nan"],
         "Expected a finite domain_megabytes, actual nan"),
    ],
)  # fmt: skip
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_reports_are_asked_for_by_folder(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["--fast"], ["nowhere"]):
        with pytest.raises(SystemExit) as exit_:
            report_command(given)
        assert exit_.value.code == 2
        assert capsys.readouterr().err.startswith("bydore report: error: Expected ")
    report_command(["--help"])
    assert "bydore report RUN" in capsys.readouterr().out


def test_bad_searches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--smoke", "--data", str(folder), "--validation", "a"]
    for wrong, message in (
        (["--seeds", "0"], "Expected seeds in [1, 1000], actual 0"),
        (["--tokens", "many"], "Expected tokens such as 4e6 or 0.4B, found 'many'"),
        (["--config", "none.yaml"], "Expected a JSON or YAML file of options, found 'none.yaml'"),
        (["--strategy", "all"], "invalid choice: 'all'"),
    ):
        with pytest.raises(SystemExit) as exit_:
            search_command([*given, *wrong])
        assert exit_.value.code == 2
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match="Expected seeds"):
        RepetitionConfig(seeds=2000)


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
    with pytest.raises(ValueError, match="Expected a value for --out"):
        PrepareConfig(data="x", out="")
