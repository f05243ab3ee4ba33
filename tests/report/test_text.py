"""The text of a run, from its files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from report_runs import NAMES, mixture_with_intervals, write_matching, write_search, write_seeds

from bydore_pyro.report.run_record import read_run
from bydore_pyro.report.text import report_text
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.utils.errors import RunFolderError


def test_everything_is_told(tmp_path: Path) -> None:
    run = write_search(tmp_path / "run", verified=True)
    lines = report_text(run).splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ["domain", *NAMES]
    row = "code 0.4596 0.306 to 0.689 0.115 98 % 0 % 0.50 more than an equal share"
    assert lines[2].split() == row.split()
    text = " ".join(" ".join(lines).split())
    for part in (
        "learned 3.2500 -0.2500", "60 steps, 40,000 tokens, 3.00e+09 FLOPs", "k-hat 4.50",
        "peak memory 0.6 GB", "mixture.json", f"bydore export {run}",
    ):  # fmt: skip
        assert part in text
    assert max(map(len, lines)) < 240, "of a table, a list of files or a command"


@pytest.mark.parametrize("write", [write_search, write_matching, write_seeds])
def test_every_verdict_of_the_page_is_told(write: object, tmp_path: Path) -> None:
    folder = write(tmp_path / "run")  # type: ignore[operator]
    text = " ".join(report_text(folder).split())
    found = verdicts_of(read_run(folder))
    assert found
    for verdict in found:
        assert f"{verdict.level} {verdict.question} {verdict.answer}. {verdict.figures}" in text


def test_seeds_rounds_and_notes_are_told(tmp_path: Path) -> None:
    text = report_text(write_seeds(tmp_path / "seeds"))
    assert "sd over seeds" in text
    assert "seed-1" in text.splitlines()[-1]
    run = write_matching(tmp_path / "run")
    noted = dataclasses.replace(mixture_with_intervals(), notes=("Few runs.",))
    (run / "mixture.json").write_text(noted.to_json())
    (run / "config.json").write_text("{")
    lines = report_text(run).splitlines()
    assert lines[1].startswith("Could not be read: config.json: ")
    assert lines[2] == "Few runs."
    assert "rounds 1 to 3" in "".join(lines)


def test_what_is_no_finished_run(tmp_path: Path) -> None:
    run = write_search(tmp_path / "run")
    with pytest.raises(RunFolderError, match=r"Expected a run in .*nowhere"):
        report_text(tmp_path / "nowhere")
    (run / "metrics.json").write_text(json.dumps({"stopped": "interrupted", "steps": 3}))
    with pytest.raises(RunFolderError, match="stopped after 3 steps: interrupted"):
        report_text(run)
    mixture = (run / "mixture.json").read_bytes()
    (run / "mixture.json").unlink()
    with pytest.raises(RunFolderError, match="no weights in it: it stopped after 3 steps: inter"):
        report_text(run)
    (run / "mixture.json").write_bytes(mixture)
    for damaged, reason in (
        ("null", r"metrics\.json: DataError"),
        ("{}", "no cost"),
        ('{"search": 1}', "no cost"),
    ):
        (run / "metrics.json").write_text(damaged)
        with pytest.raises(RunFolderError, match=rf"Expected a complete run .* found {reason}"):
            report_text(run)
