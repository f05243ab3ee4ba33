"""Tables beside the paper's figures: every average is computed from the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from bydore_pyro.evaluation.benchmarks import PILE13
from bydore_pyro.evaluation.table import average_of, score_line, scores_table
from bydore_pyro.mixture.published import benchmark_scores


def result(name: str, score: float, error: float | None = 1.0, **changes: Any) -> dict:
    """A task's part of an evaluation that was done as the paper's were."""
    return {
        "score": score,
        "standard_error": error,
        "metric": "acc" if name in PILE13 else "exact_match",
        "questions": 1319,
        **changes,
    }


def evaluation(tasks: dict[str, dict], cases: Sequence[int] = (1, 2)) -> dict[str, Any]:
    return {"tasks": tasks, "average": average_of(tasks), "config": {"cases": cases}}


def test_average_and_its_standard_error() -> None:
    tasks = {"COPA": result("COPA", 60.0, 3.0), "RACE": result("RACE", 30.0, 4.0)}
    average = average_of({**tasks, "gsm8k": result("gsm8k", 1.0)})
    assert average == {"score": 45.0, "standard_error": pytest.approx(2.5), "tasks": 2}
    tasks["RACE"]["standard_error"] = None
    assert average_of(tasks) == {"score": 45.0, "standard_error": None, "tasks": 2}
    assert average_of({"gsm8k": result("gsm8k", 1.0)}) is None


def test_the_paper_s_own_scores_beside_the_paper() -> None:
    """With RegMix's scores as a model's, both columns and their averages agree."""
    regmix = benchmark_scores(1)["RegMix"]
    scores = evaluation({name: result(name, regmix[name]) for name in PILE13})
    first, second = scores_table(scores).split("beside Case ")[1:]
    header = next(line.split() for line in first.splitlines() if "RegMix" in line)
    place = header.index("RegMix") - len(header)
    for name in PILE13:
        line = next(line for line in first.splitlines() if line.startswith(f"{name} "))
        assert f" {regmix[name]:.2f} ± 1.00 " in line
        assert line.split()[place] == f"{regmix[name]:.2f}"
    ours, theirs = (
        next(line for line in part.splitlines() if line.startswith("average of 13"))
        for part in (first, second)
    )
    assert f"48.22 ± {math.sqrt(13) / 13:.2f}" in ours
    assert ours.split()[-7:] == ["45.75", "47.83", "47.94", "48.22", "46.15", "45.47", "48.14"]
    assert theirs.split()[-6:] == ["37.72", "38.17", "33.15", "35.30", "35.72", "38.35"]
    assert second.endswith("all questions, mean over 0 to 5 examples, in percent.")


def test_no_case_is_shown_that_was_not_asked_for() -> None:
    tasks = {"COPA": result("COPA", 60.0, 3.0), "RACE": result("RACE", 30.0, 4.0, questions=9)}
    table = scores_table(evaluation(tasks, []))
    assert [line.split() for line in table.splitlines()] == [
        [],
        ["metric", "model", "questions"],
        ["COPA", "acc", "60.00", "±", "3.00", "1,319"],
        ["RACE", "acc", "30.00", "±", "4.00", "9"],
        ["average", "of", "2", "45.00", "±", "2.50"],
    ]
    table = scores_table(evaluation(tasks, [2]))
    assert "beside Case 2" in table
    assert "Case 1" not in table


def test_other_tasks() -> None:
    tasks = {"gsm8k": result("gsm8k", 12.5, 0.9), "own": result("own", 3.0, None)}
    table = scores_table(evaluation(tasks))
    assert "12.50 ± 0.90" in table
    assert " 3.00 " in table
    assert "Case" not in table
    assert score_line("COPA", result("COPA", 60.0)) == "COPA: acc 60.00 ± 1.00, 1,319 questions"
