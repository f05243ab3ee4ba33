"""Tables beside the paper's figures: every average is computed from the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from bydore_pyro.evaluation.benchmarks import PILE13
from bydore_pyro.evaluation.table import average_of, paper_scores, score_line, scores_table
from bydore_pyro.mixture.published import benchmark_scores


def result(name: str, score: float | None, error: float | None = 1.0, **changes: Any) -> dict:
    """A task's part of an evaluation that was done as the paper's were."""
    return {
        "score": score,
        "standard_error": error,
        "unit": "percent",
        "metric": PILE13[name].metric if name in PILE13 else "exact_match",
        "questions": PILE13[name].questions if name in PILE13 else 1319,
        "num_fewshot": [0, 1, 2, 3, 4, 5],
        "requests": 4000,
        "requests_cut": 0,
        "source": None,
        **changes,
    }


def evaluation(tasks: dict[str, dict], cases: Sequence[int] = (1, 2)) -> dict[str, Any]:
    return {"tasks": tasks, "average": average_of(tasks), "paper": paper_scores(tasks, cases)}


def test_average_and_its_standard_error() -> None:
    tasks = {"COPA": result("COPA", 60.0, 3.0), "RACE": result("RACE", 30.0, 4.0)}
    average = average_of({**tasks, "gsm8k": result("gsm8k", 1.0)})
    assert average == {"score": 45.0, "standard_error": pytest.approx(2.5), "tasks": 2}
    tasks["RACE"]["standard_error"] = None
    assert average_of(tasks) == {"score": 45.0, "standard_error": None, "tasks": 2}
    tasks["RACE"]["score"] = None
    assert average_of(tasks) is None
    assert average_of({"gsm8k": result("gsm8k", 1.0)}) is None
    assert average_of({"COPA": result("COPA", 3.2, unit="as lm-eval gives it")}) is None


def test_the_paper_s_averages_are_over_the_same_benchmarks() -> None:
    paper = paper_scores({"COPA": result("COPA", 60.0), "RACE": result("RACE", 30.0)}, [1, 2])
    assert list(paper) == ["case1", "case2"]
    assert paper["case1"]["scores"]["ByDoRe"] == {"COPA": 70.17, "RACE": 31.33}
    assert paper["case1"]["averages"]["ByDoRe"] == pytest.approx((70.17 + 31.33) / 2)
    assert paper_scores({"gsm8k": result("gsm8k", 1.0)}, [1]) == {}


def test_the_paper_s_own_scores_beside_the_paper() -> None:
    """With RegMix's scores as a model's, both columns and their averages agree."""
    regmix = benchmark_scores(1)["RegMix"]
    scores = evaluation({name: result(name, regmix[name]) for name in PILE13})
    first, second = scores_table(scores).split("percent, beside Case ")[1:]
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
    assert "Not found" not in second


@pytest.mark.parametrize(
    "changes",
    [
        {"questions": 10},
        {"num_fewshot": [0]},
        {"source": "my/copa.yaml"},
        {"metric": "acc_norm"},
    ],
)
def test_scores_that_were_found_otherwise_are_named(changes: dict) -> None:
    tasks = {"COPA": result("COPA", 60.0, **changes), "RACE": result("RACE", 30.0)}
    table = scores_table(evaluation(tasks))
    assert "Not found as the paper's scores were" in table
    assert "examples): COPA." in table
    assert "the paper prints" not in table  # its averages are of 13


def test_no_case_is_shown_that_was_not_asked_for() -> None:
    tasks = {"COPA": result("COPA", 60.0, 3.0), "RACE": result("RACE", 30.0, 4.0, questions=9)}
    table = scores_table(evaluation(tasks, []))
    assert [line.split() for line in table.splitlines()] == [
        [],
        ["percent"],
        ["metric", "model", "questions"],
        ["COPA", "acc", "60.00", "±", "3.00", "100"],
        ["RACE", "acc", "30.00", "±", "4.00", "9"],
        ["average", "of", "2", "45.00", "±", "2.50"],
    ]
    table = scores_table(evaluation(tasks, [2]))
    assert "beside Case 2" in table
    assert "Case 1" not in table
    assert "Not found as the paper's scores were" in table


def test_other_tasks_and_notes() -> None:
    tasks = {"gsm8k": result("gsm8k", 12.5, 0.9), "own": result("own", None, None)}
    tasks["own"] |= {"requests_cut": 1500}
    table = scores_table(evaluation(tasks))
    assert "12.50 ± 0.90" in table
    assert "none ± none" in table
    assert "own: at least 1,500 of 4,000 requests did not fit the model's context" in table
    assert "Case" not in table
    assert score_line("COPA", result("COPA", 60.0)) == "COPA: acc 60.00 ± 1.00 %, 100 questions"
    loss = result("x", 3.5, 0.1, unit="as lm-eval gives it", metric="perplexity")
    assert score_line("x", loss) == "x: perplexity 3.50 ± 0.10, 1,319 questions"
