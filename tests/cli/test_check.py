"""`bydore check` as a user runs it; what it measures is tested in `tests/test_check.py`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bydore_pyro.cli.check import check_command
from bydore_pyro.cli.main import main
from bydore_pyro.terminal import Interrupted


@pytest.fixture
def run(measured_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(measured_run, tmp_path / "run")
    return tmp_path / "run"


def test_a_check_is_printed_and_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_command([str(run), "--mixture", "answer", "uniform", "--seeds", "1"])
    shown = capsys.readouterr().out
    assert "loss less that of natural, nats per token" in shown
    assert "bydore ask now also uses 3 new runs." in shown
    (path,) = (run / "checks").glob("*.json")
    assert shown.splitlines()[-1] == f"In {path.absolute()}"
    assert [*json.loads(path.read_text())["mixtures"]] == ["answer", "uniform", "natural"]
    main(["ask", str(run), "--validation", "b", "--out", str(run.parent / "asked")])
    main(["report", str(run)])


def test_a_check_that_is_stopped_says_how_to_go_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*given: object) -> None:
        raise Interrupted(15)

    monkeypatch.setattr("bydore_pyro.trials.train_runs", stop)
    with pytest.raises(SystemExit) as exit_:
        main(["check", str(run)])
    assert exit_.value.code == 143
    assert "Go on with the same command\n" in capsys.readouterr().err


def test_mistakes_are_one_line(
    run: Path, measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"a": 0.5, "zebra": 0.5}')
    for given, message in (
        ([tmp_path / "nowhere"], "Expected a search's folder, found"),
        ([run, "--mixture", other], f"found 'zebra' in {other}"),
        ([run, "--baseline", "lost.json"], "Expected a mixture file, found lost.json"),
        ([run, "--mixture", "natural", "natural"], "every mixture once, found 'natural' twice"),
        ([run, "--seeds", "0"], "Expected seeds in [1, 1000], actual 0"),
        ([run, "--tokens", "x"], "Expected tokens such as 4e6 or 0.4B, found 'x'"),
    ):
        said = refused("check", *given)
        assert said.startswith("bydore check: error: "), given
        assert message in said, (given, said)
        assert not (run / "checks").exists(), f"{given} leaves something behind"
