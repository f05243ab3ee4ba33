"""lm-eval's tasks by name: what a name stands for, and on which split."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tiny import write_lines

from bydore_pyro.errors import DataError
from bydore_pyro.evaluation.config import PILE13
from bydore_pyro.targets import EXAMPLES_SEED, harness, quiet_lm_eval
from bydore_pyro.targets.harness import HarnessTask, members_of, open_task, templates_kept

SUMS = [{"question": f"{i} and {i}?", "answer": f"It is {2 * i}."} for i in range(5)]


def opened(folder: Path | None, name: str = "gsm8k", **options: Any) -> HarnessTask:
    given = {"shots": 0, "hub": False, "judged": False, **options}
    return open_task(name, {}, data_dir=folder and str(folder), **given)


def test_a_group_is_its_tasks_and_a_tag_too() -> None:
    assert list(members_of("gsm8k")) == ["gsm8k"]
    subjects = members_of("mmlu")
    assert len(subjects) == 57
    assert "mmlu_anatomy" in subjects
    maths = members_of("minerva_math")
    assert len(maths) == 7
    assert {"gsm8k", "minerva_math_algebra"} <= {*members_of("math_word_problems")}
    assert members_of("openllm")["arc_challenge"]["num_fewshot"] == 25, "a group changes its tasks"


def test_names_that_stand_for_nothing() -> None:
    near = r"such as 'gsm8k'.*found 'gsm8l'"
    with pytest.raises(DataError, match=rf"^Expected a task or group of lm-eval .*{near}$"):
        members_of("gsm8l")
    with pytest.raises(DataError, match=r"name single tasks instead$"):
        members_of("t0_eval")


def test_what_evaluate_scores_is_never_a_target() -> None:
    """lm-eval's rule of what is scored is that of the paper's benchmarks."""
    for name, benchmark in PILE13.items():
        config = harness._settings_of(name, {}, None)
        split = harness._split_of
        assert split(name, config, ["train", "validation", "test"], "x", True) == (
            benchmark.questions
        )
        offered = ["test", "train", "validation"]
        assert split(name, config, offered, "x", False) in {"train", "validation"} - {
            benchmark.questions
        }


def test_validation_goes_before_training_even_where_lm_eval_does_not_name_it(
    tmp_path: Path,
) -> None:
    write_lines(tmp_path / "gsm8k" / "train.jsonl", SUMS)
    write_lines(tmp_path / "gsm8k" / "test.jsonl", SUMS)
    assert opened(tmp_path).split == "train"
    assert opened(tmp_path, judged=True).split == "test"
    write_lines(tmp_path / "gsm8k" / "validation.jsonl", SUMS[:2])
    found = opened(tmp_path)
    assert (found.split, len(found.task.eval_docs)) == ("validation", 2)


def test_a_task_of_which_all_is_scored_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "gsm8k" / "test.jsonl", SUMS)
    with pytest.raises(DataError) as error:
        opened(tmp_path)
    assert str(error.value) == (
        "Expected of gsm8k the split validation or train, as models are scored on 'test', found "
        f"test in {tmp_path}/gsm8k: put other questions with the same columns into one of these"
    )
    write_lines(tmp_path / "gsm8k" / "train.jsonl", [])
    with pytest.raises(DataError, match=r"gsm8k, found no rows in the split train$"):
        opened(tmp_path)
    for path in (tmp_path / "gsm8k").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"the split 'test' of gsm8k, which is scored, found none"):
        opened(tmp_path, judged=True)


def test_data_is_in_a_folder_or_fetched_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    with pytest.raises(DataError, match=r"^Expected a folder DATA/gsm8k \(--data_dir DATA\), or"):
        opened(None)
    asked: list[Any] = []

    def load_dataset(*given: Any, **more: Any) -> dict[str, Any]:
        asked.append((given, more))
        return {"train": datasets.Dataset.from_list(SUMS), "test": None}

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    found = opened(tmp_path, hub=True)
    assert asked == [(("openai/gsm8k", "main"), {})]
    assert (found.split, found.place) == ("train", "openai/gsm8k/main")


def test_no_code_of_a_metric_is_fetched_or_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of MBPP's functions asks the hub for one, and tries it, when it is imported."""
    import evaluate

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("fetched")

    monkeypatch.setattr(evaluate, "load", load)
    row = {"text": "Add one.", "code": "def f(a):\n  return a + 1", "test_list": ["assert f"] * 3}
    write_lines(tmp_path / "mbpp" / "validation.jsonl", [row])
    opened(tmp_path, "mbpp")
    assert evaluate.load is load
    assert "lm_eval.tasks.mbpp.utils" not in sys.modules, "a real evaluation imports it anew"


def test_examples_are_never_what_is_scored(tmp_path: Path) -> None:
    """RACE takes them from its test set."""
    problems = "[{'question': 'Who?', 'answer': 'A', 'options': ['a', 'b', 'c', 'd']}]"
    rows = [{"article": f"Text {i}.", "problems": problems} for i in range(4)]
    write_lines(tmp_path / "race" / "validation.jsonl", rows)
    task = opened(tmp_path, "race", shots=2).task
    context = task.fewshot_context(task.eval_docs[0], 2)
    assert context.count("Text 0.") == 1, "a question is not its own example"
    write_lines(tmp_path / "race" / "test.jsonl", [{**row, "article": "Scored."} for row in rows])
    assert "Scored." not in opened(tmp_path, "race", shots=2).task.fewshot_context(rows[0], 2)
    judged = opened(tmp_path, "race", shots=2, judged=True).task
    assert judged.fewshot_context(rows[0], 2).count("Scored.") == 2, "as lm-eval scores it"


def test_lm_eval_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    with quiet_lm_eval():
        logging.getLogger("lm_eval").warning("much")
        print("progress", file=sys.stderr)
    assert capsys.readouterr().err == ""
    assert EXAMPLES_SEED == 1234


def test_a_template_is_compiled_once_and_lm_eval_stays_as_it_was() -> None:
    from lm_eval.utils import env

    with templates_kept():
        assert env.from_string("{{a}}") is env.from_string("{{a}}")
        assert env.from_string("{{a}}").render(a=1) == "1"
    assert env.from_string("{{a}}") is not env.from_string("{{a}}")
