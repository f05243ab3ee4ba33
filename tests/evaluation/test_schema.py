"""What the columns of the 13 benchmarks may hold: all that lm-eval reads rightly, and no more."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmark_data import SCHEMAS, questions_of

from bydore_pyro.evaluation.data import PILE13
from bydore_pyro.evaluation.schema import COLUMNS, Values, check_rows
from bydore_pyro.evaluation.tasks import load_tasks
from bydore_pyro.utils.errors import DataError

LISTED = {"text": ["x", "y"], "label": ["A", "B"]}
PROBLEM = {"question": "?", "answer": "D", "options": ["p", "q", "r", "s"]}
# By task and column: what is as good as what benchmark_data writes, and what is not.
OTHERS: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("social_iqa", "label"): (["1", 3], ["0", "4", 0, "A", "", 1.0]),
    ("hellaswag", "label"): (["0", 3], ["4", -1, "", "a", 1.0, True]),
    ("hellaswag", "endings"): ([["a"] * 4], [["a"], "abcd", None, ["a", None, "c", "d"]]),
    ("piqa", "label"): ([0, 1], ["0", -1, 2, 0.0]),
    ("openbookqa", "answerKey"): (["A", " A"], ["E", "", 0, "1"]),
    ("openbookqa", "choices"): (
        [{"text": ["x"] * 5, "label": list("ABCDE")}],
        [["x", "y"], {"text": ["x", "y"]}, {**LISTED, "label": ["A"]}, {**LISTED, "text": "xy"}],
    ),
    ("lambada_standard", "text"): (["a b"], ["ab", "a b ", "", None]),
    ("sciq", "support"): ([""], [None, 3]),
    ("arc_easy", "answerKey"): (["1"], [" 1", 1, "A"]),
    ("copa", "question"): (["cause", "effect"], ["Cause", "because", 0]),
    ("copa", "label"): ([0, 1], ["0", "1", -1, 2, True]),
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
            str([{**PROBLEM, "question": None}]),
        ],
    ),
    ("logiqa", "label"): (["a", "d ", "c"], ["A", "e", 0, "", "ab"]),
    ("logiqa", "options"): ([["a"] * 4], [["a"] * 5, "abcd", ["a"]]),
    ("qqp", "label"): ([0, 1], [-1, "1", 2, [0]]),
    ("winogrande", "answer"): (["1", "2"], ["", "0", "3", 1]),
    ("winogrande", "sentence"): (["a _ b"], ["a b"]),
    ("multirc", "label"): ([0, 1], [-1, "0"]),
}


def test_there_is_a_schema_for_each_benchmark() -> None:
    assert {*COLUMNS} == {*SCHEMAS}
    assert all(isinstance(v, Values) for columns in COLUMNS.values() for v in columns.values())
    assert {task for task, _ in OTHERS} == {*SCHEMAS}
    for task in SCHEMAS:
        check_rows(COLUMNS[task], [("here", question.row) for question in questions_of(task)])


@pytest.mark.parametrize("task", SCHEMAS)
def test_no_column_is_null(task: str) -> None:
    row = questions_of(task)[0].row
    for column in COLUMNS[task]:
        with pytest.raises(DataError, match=rf"Expected {column} = .* in here, found None$"):
            check_rows(COLUMNS[task], [("here", {**row, column: None})])
        rest = {name: value for name, value in row.items() if name != column}
        with pytest.raises(DataError, match=rf"the columns .*{column}.* in here, found "):
            check_rows(COLUMNS[task], [("there", row), ("here", rest)])


@pytest.mark.parametrize(("task", "column"), OTHERS)
def test_values(task: str, column: str) -> None:
    row = questions_of(task)[0].row
    good, bad = OTHERS[task, column]
    for value in good:
        check_rows(COLUMNS[task], [("here", {**row, column: value})])
    for value in bad:
        with pytest.raises(DataError) as error:
            check_rows(COLUMNS[task], [("x.jsonl, line 7", {**row, column: value})])
        assert str(error.value).startswith(f"Expected {column} = {COLUMNS[task][column].text} in ")
        assert " in x.jsonl, line 7, found " in str(error.value)
        assert len(str(error.value)) < 400


def described(columns: Mapping[str, Values]) -> str:
    """The values of columns in words, as the page on formats has them."""
    groups: dict[str, list[str]] = {}
    for column, values in columns.items():
        groups.setdefault(values.text, []).append(f"`{column}`")
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in groups.items())


@pytest.mark.parametrize("name", PILE13)
def test_the_page_on_formats_tells_every_value(name: str, tmp_path: Path) -> None:
    task = PILE13[name].task
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    splits = " ".join(f"`{s}`" for s in dict.fromkeys(dataclasses.astuple(SCHEMAS[task])[1:]))
    assert f"| {name} | `{task}` | {splits} | {described(COLUMNS[task])} |\n" in page
    (example,) = re.findall(rf"^{task}/{SCHEMAS[task].questions}\.jsonl: (.*)$", page, re.MULTILINE)
    assert {*json.loads(example)} == {*COLUMNS[task]}
    (tmp_path / task).mkdir()
    (tmp_path / task / f"{SCHEMAS[task].questions}.jsonl").write_text(example + "\n")
    (ready,) = load_tasks([task], [0], None, tmp_path)
    assert len(ready.task.eval_docs) == 1
