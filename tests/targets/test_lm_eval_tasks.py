"""Tasks of lm-eval as questions and answers: what is asked, and which text is scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmark_data import SCHEMAS, write_benchmark
from tiny import write_lines

from bydore_pyro.errors import DataError
from bydore_pyro.evaluation.config import PILE13
from bydore_pyro.targets import Request, Task, right_choices, tasks_of


def one_of(folder: Path, name: str, rows: list[dict], split: str = "train", **options: Any) -> Task:
    """The task of a name on these rows."""
    write_lines(folder / name / f"{split}.jsonl", rows)
    (task,) = tasks_of(name, data_dir=str(folder), **options)
    return task


def asked(task: Task) -> list[tuple[str, str]]:
    """Questions, and what is scored of each."""
    return [(one.context, one.answers[0]) for one in task.requests]


def sum_of(i: int) -> dict[str, str]:
    return {
        "question": f"Ann has {i} pens and finds 2. How many?",
        "answer": f"She has {i} + 2 = <<{i}+2={i + 2}>>{i + 2}.\n#### {i + 2}",
    }


@pytest.mark.parametrize("name", [name for name in PILE13 if name != "winogrande"])
def test_choices_are_asked_as_lm_eval_asks_them(name: str, tmp_path: Path) -> None:
    """The questions that `evaluate` asks, with their answers in place."""
    questions = write_benchmark(tmp_path, name)
    score = "answer" if name == "lambada_standard" else "choice"
    (task,) = tasks_of(name, data_dir=str(tmp_path), score=score, judged=True)
    assert (task.split, len(task.requests)) == (SCHEMAS[name].questions, len(questions))
    for question, request in zip(questions, task.requests, strict=True):
        for (prompt, answer), given in zip(question.asked, request.answers, strict=False):
            assert (request.context + given).endswith(prompt + answer)
            assert given.endswith(answer)
            assert request.context == request.context.rstrip()
        if score == "choice":
            assert request.right == (question.gold,)
            assert len(request.answers) == len(question.asked)
        elif name != "lambada_standard":
            assert request.answers == (question.asked[question.gold][1],)


def test_winogrande_has_two_questions_and_one_answer(tmp_path: Path) -> None:
    rows = [
        {"sentence": "The cup broke the _ as it fell.", "option1": "pot", "option2": "jar"},
        {"sentence": "Bo saw Al as _ sang.", "option1": "Bo", "option2": "Al"},
    ]
    rows = [{**row, "answer": str(i + 1)} for i, row in enumerate(rows)]
    task = one_of(tmp_path, "winogrande", rows)
    assert asked(task) == [("The cup broke the pot", " as it fell."), ("Bo saw Al as Al", " sang.")]
    with pytest.raises(DataError, match="score=answer takes it"):
        one_of(tmp_path, "winogrande", rows, score="choice")


def test_letters_are_scored_where_the_choices_are_letters(tmp_path: Path) -> None:
    rows = [
        {
            "question": f"Bone {i}?",
            "choices": ["a", "b", "c", "d"],
            "answer": i % 4,
            "subject": "anatomy",
        }
        for i in range(4)
    ]
    for split in ("dev", "test"):
        write_lines(tmp_path / "mmlu_anatomy" / f"{split}.jsonl", rows)
    with pytest.raises(DataError, match="the split validation or train, as models are scored on"):
        tasks_of("mmlu_anatomy", data_dir=str(tmp_path))
    task = one_of(tmp_path, "mmlu_anatomy", rows, "validation")
    context, answer = asked(task)[1]
    assert context.endswith("about anatomy.\n\nBone 1?\nA. a\nB. b\nC. c\nD. d\nAnswer:")
    assert (answer, task.split, task.shots, task.score) == (" B", "validation", 0, "answer")
    task = one_of(tmp_path, "mmlu_anatomy", rows, "validation", score="choice", shots=2)
    assert task.requests[2].answers == (" A", " B", " C", " D")
    assert task.requests[2].right == (2,)
    assert task.requests[2].context.count("Answer: ") == 2
    assert task.shots == 2


# By task: the split, a row, the question's end and the text that is scored.
SOLUTIONS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "gsm8k": (
        "train",
        sum_of(3),
        "Question: Ann has 3 pens and finds 2. How many?\nAnswer:",
        " She has 3 + 2 = <<3+2=5>>5.\n#### 5",
    ),
    "mbpp": (
        "validation",
        {"text": "Add one.", "code": "def f(a):\n  return a + 1", "test_list": list("xyz")},
        "Add one. Your code should pass these tests:\n\nx\ny\nz\n[BEGIN]",
        "\ndef f(a):\n  return a + 1\n[DONE]",
    ),
    "mbpp_instruct": (
        "validation",
        {"text": "Add one.", "code": "def f(a):\n  return a + 1", "test_list": list("xyz")},
        "z\n```python",
        "\ndef f(a):\n  return a + 1\n```",
    ),
    "humaneval": (
        "validation",
        {
            "prompt": "def f(a):\n",
            "canonical_solution": "    return a\n",
            "test": "assert",
            "entry_point": "f",
        },
        "def f(a):",
        "\n    return a\n",
    ),
    "triviaqa": (
        "train",
        {"question": "Who drew it", "answer": {"value": "Ann", "aliases": ["Ann O'Hara", "Ann"]}},
        "Question: Who drew it?\nAnswer:",
        " Ann O'Hara",
    ),
    "nq_open": (
        "train",
        {"question": "who drew it", "answer": ["Ann's", "Ann"]},
        "Answer these questions:\n\nQ: who drew it?\nA:",
        " Ann's",
    ),
    "lambada_openai": (
        "validation",
        {"text": "She went to her room"},
        "She went to her",
        " room",
    ),
    "squadv2": (
        "train",
        {"title": "T", "context": "Ann sat.", "question": "Who?", "answers": {"text": ["Ann"]}},
        "Title: T\n\nBackground: Ann sat.\n\nQuestion: Who?\n\nAnswer:",
        " Ann",
    ),
    "squad_completion": ("train", {"text": "Ann sat ", "value": " here"}, "Ann sat", " here"),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_of_generative_tasks_the_solution_is_scored(name: str, tmp_path: Path) -> None:
    """Not the last answer, the unit tests, or a list of answers."""
    split, row, question, answer = SOLUTIONS[name]
    task = one_of(tmp_path, name, [row], split)
    context, scored = asked(task)[0]
    assert context.endswith(question)
    assert scored == answer
    assert task.split == split
    if name != "lambada_openai":
        assert task.source.endswith("its answers are those of its examples")


def test_the_solution_of_a_mathematical_problem_is_scored(tmp_path: Path) -> None:
    pytest.importorskip("math_verify", reason="lm-eval[math] is not installed")
    row = {"problem": "Solve $x=2$.", "level": "1", "type": "A", "solution": "So $\\boxed{2}$."}
    task = one_of(tmp_path, "minerva_math_algebra", [row])
    assert asked(task) == [("Problem:\nSolve $x=2$.\n\nSolution:", " So $\\boxed{2}$.")]


@pytest.mark.parametrize("name", ["mbpp", "gsm8k"])
def test_examples_stand_before_a_question_as_lm_eval_writes_them(name: str, tmp_path: Path) -> None:
    """What is scored is what an example shows; MBPP brings its own, GSM8K's are of its data."""
    split, row, _, answer = SOLUTIONS[name]
    rows = [row] if name == "mbpp" else [sum_of(i) for i in range(6)]
    (bare,) = one_of(tmp_path, name, rows, split).requests[:1]
    task = one_of(tmp_path, name, rows, split, shots=2)
    first = task.requests[0]
    assert (first.answers, task.shots) == (bare.answers, 2)
    examples = first.context.removesuffix(bare.context)
    assert examples.count(answer[-6:] if name == "mbpp" else "####") == 2
    assert bare.context + bare.answers[0] not in first.context
    again = one_of(tmp_path, name, rows, split, shots=2)
    assert again == task, "the same examples each time"


def test_a_group_is_its_tasks(tmp_path: Path) -> None:
    for name in ("arc_easy", "arc_challenge"):
        schema = SCHEMAS["arc_easy"]
        rows = [schema.make(i, i % 4, ["a", "b", "c", "d"]).row for i in range(3)]
        write_lines(tmp_path / name / "validation.jsonl", rows)
    found = tasks_of("ai2_arc", data_dir=str(tmp_path))
    assert [task.name for task in found] == ["arc_challenge", "arc_easy"]
    assert found[0].requests[0].place.startswith(f"{tmp_path}/arc_challenge, split validation, ")
    with pytest.raises(DataError, match=r"Expected a folder .*/mmlu_abstract_algebra"):
        tasks_of("mmlu", data_dir=str(tmp_path))


def test_some_questions_spread_over_the_split_and_the_others_are_counted(tmp_path: Path) -> None:
    task = one_of(tmp_path, "gsm8k", [sum_of(i) for i in range(11)], most=3)
    assert [one.context.split()[3] for one in task.requests] == ["0", "5", "10"]
    assert task.left_out == {"not among those that are read": 8}
    assert one_of(tmp_path, "gsm8k", [sum_of(1)], most=3).left_out == {}
    for wrong in ({"shots": -1}, {"most": 0}):
        with pytest.raises(ValueError, match=r"^Expected shots >= 0 and most >= 1, actual"):
            tasks_of("gsm8k", **wrong)


def test_tasks_without_answers_to_score(tmp_path: Path) -> None:
    cases: list[tuple[str, str, list[dict], dict[str, Any], str]] = [
        ("gsm8k_cot", "train", [sum_of(1)], {}, "its data has the last answer alone"),
        ("gsm8k", "train", [sum_of(1)], {"score": "choice"}, "score=answer takes it"),
        ("wikitext", "train", [{"page": "Text."}], {}, "which scores whole texts"),
        (
            "humaneval",
            "validation",
            [{"prompt": "x", "test": "", "entry_point": "f"}],
            {},
            "question 1, found: unit tests as its answer, and no column canonical_solution",
        ),
    ]
    for name, split, rows, options, message in cases:
        with pytest.raises(DataError) as error:
            one_of(tmp_path, name, rows, split, **options)
        assert message in str(error.value), name


def test_the_same_answer_to_all_questions_is_none(tmp_path: Path) -> None:
    """lm-eval 0.4.13 shows the names of DROP's columns as its solutions."""
    answer = {"number": "3", "date": {"day": "", "month": "", "year": ""}, "spans": []}
    checked = {"number": [], "date": [], "spans": []}
    rows = [
        {
            "query_id": str(i),
            "passage": f"Ann has {i}.",
            "question": "Count?",
            "answer": answer,
            "validated_answers": checked,
        }
        for i in range(12)
    ]
    with pytest.raises(
        DataError, match="answers that differ, found 'number,date,spans' for all 12"
    ):
        one_of(tmp_path, "drop", rows)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("gsm8k", "answer", None),
        ("gsm8k", "answer", ""),
        ("gsm8k", "question", None),
        ("copa", "label", -1),
        ("copa", "label", 2),
        ("arc_easy", "answerKey", "9"),
        ("arc_easy", "question", None),
    ],
)
def test_wrong_rows_are_named(name: str, column: str, value: Any, tmp_path: Path) -> None:
    rows = [sum_of(i) for i in range(3)]
    if name != "gsm8k":
        rows = [SCHEMAS[name].make(i, 0, ["a", "b", "c", "d"]).row for i in range(3)]
    rows[1] = json.loads(json.dumps(rows[1])) | {column: value}
    split = "validation" if name == "arc_easy" else "train"
    place = f"in {tmp_path}/{name}, split {split}, question 2, found:"
    with pytest.raises(DataError, match=place):
        one_of(tmp_path, name, rows, split)


def test_a_request_has_its_white_space_in_its_answers(tmp_path: Path) -> None:
    task = one_of(tmp_path, "squad_completion", [{"text": "Ann  ", "value": "sat"}])
    place = f"{tmp_path}/squad_completion, split train, question 1"
    assert task.requests == (Request("Ann", (" sat",), (0,), place),)


def test_right_choices_are_places_of_choices() -> None:
    """Written as a number, as the choice itself, or several of them."""

    class Letters:
        task_name, multiple_input = "letters", 0

        def doc_to_choice(self, row: dict) -> list[str]:
            return ["a", "b", "c"]

        def doc_to_target(self, row: dict) -> Any:
            return row["right"]

    for given, places in ((1, (1,)), ("c", (2,)), ([0, 2], (0, 2))):
        assert right_choices(Letters(), {"right": given}) == places
    for wrong in (3, -1, "d", [0, 3], [], None):
        with pytest.raises(ValueError, match=r"none of the 3 choices|no right answer"):
            right_choices(Letters(), {"right": wrong})
