"""`bydore report` as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from report_runs import NAMES, write_search

from bydore_pyro.cli.report import report_command


def test_reports_are_asked_for_by_folder(refused: Callable[..., str]) -> None:
    for given in ([], ["--fast"], ["nowhere"], ["--out", "x"], ["nowhere", "--out"]):
        assert refused("report", *given).startswith("bydore report: error: ")


def test_one_run_has_a_page_and_several_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    first, second = (str(write_search(tmp_path / name)) for name in "ab")
    report_command([first, "--out", str(tmp_path / "deep/page.html")])
    assert capsys.readouterr().out.endswith(f"In a browser: {tmp_path / 'deep/page.html'}\n")
    assert "a: weights of domains" in (tmp_path / "deep/page.html").read_text(encoding="utf-8")
    assert not (tmp_path / "a" / "report.html").exists()
    report_command([first])
    assert (tmp_path / "a" / "report.html").is_file()
    capsys.readouterr()
    report_command([first, second])
    printed = capsys.readouterr().out
    assert printed.count("\nmethod") == 1, "one table"
    assert "In a browser" not in printed
    assert "Expected one run with --out, found 2" in refused("report", first, second, "--out", "x")
    two = refused("report", first, second, "--domain_tokens", "a=1B")
    assert "Expected one run with --domain_tokens, found 2" in two
    stated = [f"{name}=1B" for name in NAMES]
    report_command([first, "--domain_tokens", *stated])
    assert "Is text read too often? No" in capsys.readouterr().out
    one = refused("report", first, "--domain_tokens", stated[0])
    assert f"--domain_tokens of every domain, found none of {NAMES[1]}" in one
