"""What a model is scored on: benchmarks and files, in any order, each once."""

from __future__ import annotations

import pytest

from bydore_pyro.evaluation.config import PILE13, Benchmark, EvaluationConfig


def test_benchmarks_and_files_are_told_apart() -> None:
    config = EvaluationConfig(tasks=["own.jsonl", "sciq,piqa", "own.jsonl"])
    assert config.names == ["piqa", "sciq"], "in the paper's order"
    assert config.files == ["own.jsonl"]
    assert EvaluationConfig().names == [*PILE13]
    assert len(PILE13) == 13
    assert PILE13["copa"] == Benchmark("COPA", "super_glue/copa", "validation", "train")
    assert EvaluationConfig().entries == []


def test_other_names_are_tasks_of_lm_eval_with_options_of_their_own() -> None:
    config = EvaluationConfig(
        tasks=["mmlu,shots=5,sciq,task:arc_easy", "q.jsonl,prompt_column=a,answer_column=b"]
    )
    assert config.names == ["sciq"]
    found = [(one.task, one.shots, one.file, one.prompt_column) for one in config.entries]
    assert found == [
        ("mmlu", 5, None, None),
        ("arc_easy", None, None, None),
        (None, None, "q.jsonl", "a"),
    ]
    assert config.files == ["q.jsonl"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("mmlu=.5", "Expected tasks without a share and without score="),
        ("mmlu,score=choice", "Expected tasks without a share and without score="),
        (
            "notes.txt",
            r"Expected a file of rows \(.*\) as a task, actual 'notes.txt'",
        ),
        ("mmlu,sample=3", "Expected options of a target"),
    ],
)
def test_what_says_nothing_of_a_task(task: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EvaluationConfig(tasks=[task])
