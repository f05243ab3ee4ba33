"""What a report tells of a run, block by block."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from report_runs import mixture_with_intervals, write_fit, write_matching, write_search, write_seeds

from bydore_pyro.report.run import read_run
from bydore_pyro.report.sections import Command, Section, comparison_sections, run_sections
from bydore_pyro.report.verdicts import verdicts_of


def test_a_run_tells_what_it_has(tmp_path: Path) -> None:
    case = run_sections(read_run(write_search(tmp_path / "case", verified=True)))
    assert [one.title for one in case] == [
        "The mixture", "What fresh models reach", "Is it to be believed?", "", "How it was learned",
        "What it cost", "How to use it",
    ]  # fmt: skip
    record = read_run(write_matching(tmp_path / "run"))
    mixture = dataclasses.replace(mixture_with_intervals(), notes=("Few runs.",))
    record = dataclasses.replace(record, mixture=mixture, damaged=("x.json: gone",))
    found = {one.title: one for one in run_sections(record, drawn=False)}
    assert found["The mixture"].blocks[:2] == ["Could not be read: x.json: gone", "Few runs."]
    assert found["Is it to be believed?"].blocks == verdicts_of(record)
    assert "How it was learned" not in [
        one.title for one in run_sections(read_run(write_fit(tmp_path / "fit")))
    ]


def test_several_runs_and_seeds(tmp_path: Path) -> None:
    seeds = read_run(write_seeds(tmp_path / "seeds", 3))
    runs, following = comparison_sections([seeds])
    assert isinstance(runs, Section)
    assert runs.blocks[-1].header == ("", "seed 0", "seed 1", "seed 2")
    assert isinstance(following.blocks[0], Command)
    assert comparison_sections([read_run(write_seeds(tmp_path / "none", 0))]) == []
