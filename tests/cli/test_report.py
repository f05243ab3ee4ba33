"""`bydore report` as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from report_runs import write_search

from bydore_pyro.cli.report import report_command


def test_reports_are_asked_for_by_folder(refused: Callable[..., str]) -> None:
    for given in ([], ["--fast"], ["nowhere"], ["--out", "x"], ["nowhere", "--out"]):
        assert refused("report", *given).startswith("bydore report: error: ")


def test_several_runs_are_compared_in_a_page_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [str(write_search(tmp_path / "a")), str(write_search(tmp_path / "b"))]
    report_command(runs)
    printed = capsys.readouterr().out
    assert printed.count("\nmethod") == 1, "one table"
    assert "Next:" not in printed
    assert printed.endswith("In a browser: report.html\n")
    assert "2 runs: weights of domains" in (tmp_path / "report.html").read_text(encoding="utf-8")
    report_command([*runs, "--out=deep/page.html"])
    assert (tmp_path / "deep" / "page.html").is_file()
    assert not (tmp_path / "a" / "report.html").exists()
