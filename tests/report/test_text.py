"""A report as text: on one run, or several runs beside each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from report_runs import (
    mixture_with_intervals,
    write_fit,
    write_json,
    write_search,
)

from bydore_pyro.errors import RunFolderError
from bydore_pyro.report.run import read_run
from bydore_pyro.report.text import WIDTH, cautions, filled, report_text


def test_one_run_has_its_weights_its_files_and_the_next_commands(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    text = report_text(folder)
    assert text.index("code") < text.index("good ") < text.index("mixture.json")
    assert f"bydore export {folder}" in text.split("Next:")[1]


def test_several_runs_are_one_table(tmp_path: Path) -> None:
    runs = [write_search(tmp_path / "a", verified=True), write_fit(tmp_path / "b")]
    lines = report_text(*runs).splitlines()
    assert len([line for line in lines if line.split()[:1] == ["method"]]) == 1
    assert not any("Next:" in line or line.startswith("good ") for line in lines)


def test_lines_have_a_width_and_no_name_steers_the_terminal() -> None:
    lines = filled("word " * 60 + "\x1b[2J", " " * 4).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= WIDTH
    assert all(line.startswith("    word") for line in lines[1:])
    assert lines[-1].endswith("\\x1b[2J")


def test_a_run_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    write_json(folder / "metrics.json", {"stopped": "disk <full>", "steps": 7})
    with pytest.raises(RunFolderError, match=r"stopped after 7 steps \(disk <full>\)"):
        report_text(folder)


def test_what_does_not_compare_is_said(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run"))
    assert cautions([record, record]) == []
    mixture = dataclasses.replace(
        mixture_with_intervals(("a", "b")), tokenizer="x" * 64, data_sha256="y" * 64
    )
    config = {"question": {"validation": ["web"]}}
    other = dataclasses.replace(record, path=Path("b"), mixture=mixture, config=config)
    assert len(cautions([record, other])) == 4
