"""`bydore report` as a user runs it."""

from __future__ import annotations

import pytest

from bydore_pyro.commands.report_command import report_command


def test_reports_are_asked_for_by_folder(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["--fast"], ["nowhere"]):
        with pytest.raises(SystemExit) as exit_:
            report_command(given)
        assert exit_.value.code == 2
        assert capsys.readouterr().err.startswith("bydore report: error: Expected ")
    report_command(["--help"])
    assert "bydore report RUN" in capsys.readouterr().out
