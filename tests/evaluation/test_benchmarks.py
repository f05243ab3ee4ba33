"""The 13 benchmarks as lm-eval defines them; what their data hold is checked before any scoring."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import lm_eval.tasks
import pytest
from benchmark_data import SCHEMAS, questions_of, write_split

from bydore_pyro.evaluation.benchmarks import BY_TASK, NUM_FEWSHOT, PILE13, Benchmark, check_rows
from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.tasks import load_tasks
from bydore_pyro.mixture.published import benchmark_scores
from bydore_pyro.utils.errors import DataError

LISTED = {"text": ["x", "y"], "label": ["A", "B"]}
PROBLEM = {"question": "?", "answer": "D", "options": ["p", "q", "r", "s"]}
# By task and column: what is as good as what benchmark_data writes, and what is not.
OTHERS: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("social_iqa", "label"): (["1", 3], ["0", "4", 0, "A", ""]),
    ("hellaswag", "label"): (["0", 3], ["4", -1, "", "a", 1.0, True]),
    ("piqa", "label"): ([0, 1], ["0", -1, 2]),
    ("openbookqa", "answerKey"): (["A", " A"], ["E", "", 0, "1"]),
    ("openbookqa", "choices"): (
        [{"text": ["x"] * 5, "label": list("ABCDE")}],
        [["x", "y"], {"text": ["x", "y"]}, {**LISTED, "text": "xy"}],
    ),
    ("lambada_standard", "text"): (["a b"], ["ab", "a b ", "", None]),
    ("sciq", "support"): (["", 'a "b" \\'], [None]),
    ("arc_easy", "answerKey"): (["1"], [" 1", 1, "A"]),
    ("copa", "question"): (["cause", "effect"], ["Cause", "because", 0]),
    ("copa", "label"): ([0, 1], ["0", "1", -1, 2, True, None]),
    ("copa", "choice1"): (["x"], [""]),
    ("race", "problems"): (
        [str([PROBLEM])],
        [
            [PROBLEM],
            "[]",
            "__import__('os').getcwd()",
            "[" * 10_000,
            str([{**PROBLEM, "answer": "E"}]),
            str([{**PROBLEM, "options": ["p", "q", "r"]}]),
            str([{**PROBLEM, "answer": "E"}, PROBLEM]),
        ],
    ),
    ("logiqa", "label"): (["a", "d ", "c"], ["A", "e", 0, "", "ab"]),
    ("logiqa", "options"): ([["a"] * 4], ["abcd", ["a"]]),
    ("qqp", "label"): ([0, 1], [-1, "1", 2]),
    ("winogrande", "answer"): (["1", "2"], ["", "0", "3", 1]),
    ("winogrande", "sentence"): (["a _ b"], ["a b"]),
    ("multirc", "label"): ([0, 1], [-1, "0"]),
}


def test_benchmarks_are_the_paper_s() -> None:
    assert {*PILE13} == {*benchmark_scores(1)["Human"]}
    assert list(PILE13)[:3] == ["Social IQA", "HellaSwag", "PIQA"]
    assert all(isinstance(benchmark, Benchmark) for benchmark in PILE13.values())
    assert NUM_FEWSHOT == (0, 1, 2, 3, 4, 5)
    assert {*BY_TASK} == {*SCHEMAS} == {task for task, _ in OTHERS}


def test_metric_is_normalised_accuracy_where_lm_eval_has_it() -> None:
    root = Path(lm_eval.tasks.__file__).parent
    manager = lm_eval.tasks.TaskManager(
        include_defaults=False, include_path=[root / b.folder for b in PILE13.values()]
    )
    normalised = set()
    for name, benchmark in PILE13.items():
        definition = manager.task_index[benchmark.task].cfg or {}
        metrics = {entry["metric"] for entry in definition["metric_list"]}
        assert metrics & {"acc", "acc_norm"}
        if "acc_norm" in metrics:
            normalised.add(name)
    assert normalised == {"HellaSwag", "PIQA", "OpenBookQA", "SciQ", "ARC-Easy", "LogiQA"}


@pytest.mark.parametrize(
    ("name", "questions"), [("COPA", 100), ("OpenBookQA", 500), ("LogiQA", 651)]
)
def test_the_paper_s_scores_are_means_over_six_runs(name: str, questions: int) -> None:
    """Where questions are few, two decimals tell how many runs a mean is over."""
    scores = [of[name] for case in (1, 2) for of in benchmark_scores(case).values()]

    def explained(runs: int) -> int:
        answers = questions * runs
        nearest = [100 * round(score / 100 * answers) / answers for score in scores]
        return sum(abs(a - b) < 0.00501 for a, b in zip(nearest, scores, strict=True))

    assert explained(6) == len(scores) == 13
    assert max(explained(runs) for runs in (1, 2, 4, 5)) <= 5


@pytest.mark.parametrize("task", SCHEMAS)
def test_no_column_is_null(task: str) -> None:
    row = questions_of(task)[0].row
    check_rows(task, "here", [row])
    for column in row:
        with pytest.raises(DataError, match=rf"Expected {column} = .* in here, row 2, found null$"):
            check_rows(task, "here", [row, {**row, column: None}])
    check_rows("another task", "here", [{**row, column: None}])


@pytest.mark.parametrize(("task", "column"), OTHERS)
def test_wrong_values_are_refused_before_anything_is_scored(
    task: str, column: str, tmp_path: Path
) -> None:
    """By file and row; COPA's "0" and "1", the -1 of the hub's test split and a null scored."""
    questions = questions_of(task, 3)
    config = EvaluationConfig(tasks=[task], data_dir=str(tmp_path), num_fewshot=[0])
    for value in OTHERS[task, column][0]:
        questions[1].row[column] = value
        write_split(tmp_path, task, SCHEMAS[task].questions, questions[1:2])
        load_tasks(config)
    for value in OTHERS[task, column][1]:
        questions[1].row[column] = value
        path = write_split(tmp_path, task, SCHEMAS[task].questions, questions)
        with pytest.raises(DataError) as error:
            load_tasks(config)
        by_row = f"Expected {column} = .* in {path}, row 2, found "
        by_question = f"in {path}, found question 2: |in {path}, line 2, found Arrow"
        assert re.search(f"{by_row}|{by_question}|found {task} \\(", str(error.value)), value
        assert len(str(error.value)) < 700


def test_the_page_on_formats_tells_every_column(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    for name, benchmark in PILE13.items():
        task, schema = benchmark.task, SCHEMAS[benchmark.task]
        splits = " ".join(f"`{s}`" for s in dict.fromkeys((schema.questions, schema.examples)))
        (columns,) = re.findall(rf"^\| {name} \| `{task}` \| {splits} \| (.*) \|$", page, re.M)
        (example,) = re.findall(rf"^{task}/{schema.questions}\.jsonl: (.*)$", page, re.MULTILINE)
        assert all(f"`{column}`" in columns for column in json.loads(example))
        (tmp_path / task).mkdir()
        (tmp_path / task / f"{schema.questions}.jsonl").write_text(example)
    load_tasks(EvaluationConfig(data_dir=str(tmp_path), num_fewshot=[0]))
