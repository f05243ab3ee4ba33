"""Bits per byte of answers and accuracy, with losses that are known beforehand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_data import (
    KnownAnswers,
    believing,
    character_tokenizer,
    save_model,
    write_benchmark,
)
from tiny import write_lines

from bydore_pyro import data, targets
from bydore_pyro.errors import DataError, NonFiniteError
from bydore_pyro.evaluation import (
    EvaluationConfig,
    Questions,
    answer_losses,
    answer_scores,
    evaluate_model,
    load_model,
    mean_bits_per_byte,
)
from bydore_pyro.evaluation.answers import read_questions

UNIFORM = math.log2(101)  # bits of a character of which nothing is believed


def scores_of(model: Any, tasks: list[str], **options: Any) -> dict[str, Any]:
    return evaluate_model(model, character_tokenizer(), EvaluationConfig(tasks=tasks, **options))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    character_tokenizer().save_pretrained(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def test_bits_per_byte_are_the_mean_over_questions_of_right_answers(tmp_path: Path) -> None:
    """Of an answer of three characters, and of one that is believed with .5 a character."""
    path = str(
        write_lines(
            tmp_path / "own.jsonl",
            [
                {"prompt": "Name a bird:", "completion": " owl"},
                {"prompt": "Name a fish:", "completion": " eel"},
            ],
        )
    )
    found = scores_of(KnownAnswers([("Name a fish:", " eel", 0.5)]), [path])[path]
    assert found["bits_per_byte"] == pytest.approx((UNIFORM + 1) / 2, rel=1e-5)
    error = (UNIFORM - 1) / 2  # sd / sqrt(2) of two
    assert found["bits_per_byte_standard_error"] == pytest.approx(error, rel=1e-5)
    assert (found["questions"], found["answer_bytes"], found["target"]) == (2, 4.0, "own")
    assert "accuracy" not in found


def test_accuracy_is_that_of_lm_eval(tmp_path: Path) -> None:
    """Both kinds, where answers differ in length."""
    questions = write_benchmark(tmp_path, "arc_easy", 10)
    model = believing(questions, lambda place: place < 7)
    found = scores_of(model, ["task:arc_easy", "arc_easy"], data_dir=str(tmp_path), num_fewshot=[0])
    task = found["arc_easy"]
    assert task["accuracy_per_byte"] == found["ARC-Easy"]["score"] == 70.0
    assert task["accuracy"] == 70.0
    error = found["ARC-Easy"]["standard_error"]
    assert task["accuracy_standard_error"] == pytest.approx(error)
    believed = -math.log2(0.99)
    assert task["bits_per_byte"] == pytest.approx(0.7 * believed + 0.3 * UNIFORM, rel=0.01)
    assert (task["questions"], task["split"], task["shots"]) == (10, "test", 0)


def test_losses_are_lm_eval_s_own(tmp_path: Path) -> None:
    """Log-likelihoods of all choices, also with examples before the questions."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model, tokenizer = load_model(save_model(tmp_path / "model"), "cpu")
    write_benchmark(tmp_path, "arc_easy", 6)
    write_benchmark(tmp_path, "copa", 6)
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=4, max_length=512)
    for name, shots in (("arc_easy", 0), ("arc_easy", 2), ("copa", 0)):
        (task,) = targets.tasks_of(
            name, shots=shots, score="choice", data_dir=str(tmp_path), judged=True
        )
        pairs = [(r.context, answer) for r in task.requests for answer in r.answers]
        asked = [Instance("loglikelihood", {}, pair, 0) for pair in pairs]
        theirs = [-value for value, _ in lm.loglikelihood(asked, disable_tqdm=True)]
        text = targets.text_of(task, tmp_path / "model", np.dtype(np.uint16)).text
        ours, sizes = answer_losses(model, text, 512, batch_size=3)
        assert ours == pytest.approx(theirs, rel=1e-5), name
        assert sizes.tolist() == [len(answer.encode()) for _, answer in pairs]


def test_a_task_beyond_the_thirteen_and_a_group(tmp_path: Path) -> None:
    for name in ("arc_easy", "arc_challenge"):
        write_benchmark(tmp_path, "arc_easy", 4)
        if name == "arc_challenge":
            (tmp_path / "arc_easy").rename(tmp_path / name)
            write_benchmark(tmp_path, "arc_easy", 4)
    found = scores_of(KnownAnswers([]), ["ai2_arc"], data_dir=str(tmp_path), limit=3)
    assert list(found) == ["arc_challenge", "arc_easy"]
    assert found["arc_easy"]["target"] == "ai2_arc/arc_easy", "as a search calls it"
    assert {one["questions"] for one in found.values()} == {3}
    mean = mean_bits_per_byte(found)
    assert mean is not None
    assert mean["bits_per_byte"] == pytest.approx(UNIFORM, rel=1e-5)
    assert mean["bits_per_byte_standard_error"] == pytest.approx(0, abs=1e-6)
    assert mean_bits_per_byte({"ARC-Easy": {"score": 1.0, "standard_error": 0.0}}) is None


def test_shots_stand_in_the_label(tmp_path: Path) -> None:
    write_benchmark(tmp_path, "arc_easy", 4)
    tasks = ["task:arc_easy,shots=2", "task:arc_easy"]
    found = scores_of(KnownAnswers([]), tasks, data_dir=str(tmp_path))
    assert [(label, one["shots"]) for label, one in found.items()] == [
        ("arc_easy, 2 shots", 2),
        ("arc_easy", 0),
    ]


def test_plain_text_is_read_as_before(tmp_path: Path) -> None:
    rows = [{"text": "a bird", "prompt": "p", "completion": "c"}]
    both = str(write_lines(tmp_path / "both.jsonl", rows))
    plain = str(write_lines(tmp_path / "plain.jsonl", [{"text": "a bird", "body": "b"}]))
    found = scores_of(KnownAnswers([]), [both, plain])
    assert "bits_per_byte" in found[both]
    assert found[plain]["bytes"] == 6
    assert scores_of(KnownAnswers([]), [f"{both},text_column=text"])[both]["bytes"] == 6
    found = scores_of(KnownAnswers([]), [both, plain], text_column="text")
    assert "bits_per_byte" in found[both], "the column's default changes nothing"
    body = [{"body": "a bird", "prompt": "p", "completion": "c"}]
    named = str(write_lines(tmp_path / "body.jsonl", body))
    assert scores_of(KnownAnswers([]), [named], text_column="body")[named]["bytes"] == 6


def test_what_does_not_fit_is_cut_from_the_left_and_counted(
    tmp_path: Path, tokenizer: Path
) -> None:
    rows = [{"prompt": "Name a bird:", "completion": " owl"}, {"prompt": "x", "completion": " ox"}]
    path = write_lines(tmp_path / "own.jsonl", rows)
    entry = targets.Entry.of(str(path))
    (questions,) = read_questions(entry, tokenizer, EvaluationConfig()).values()
    model = KnownAnswers([("bird:", " owl", 0.5)])
    whole = answer_scores(model, questions, 100, 2)
    cut = answer_scores(model, questions, 9, 2)
    assert cut["bits_per_byte"] == whole["bits_per_byte"]
    assert (whole["cut"], cut["cut"], cut["answers_cut"]) == (0, 1, 0)
    with pytest.raises(DataError, match="Expected --sequence_length > 3 for the target 'own'"):
        answer_scores(model, questions, 3, 2)


def test_the_choice_that_comes_first_counts_among_equals(tokenizer: Path) -> None:
    requests = tuple(targets.Request(f"q{n}", ("aa", "bb", "ccc"), (n,)) for n in range(3))
    task = targets.Task(name="t", score="choice", requests=requests)
    text = targets.text_of(task, tokenizer, np.dtype(np.uint16)).text
    alone = [targets.Request(r.context, (r.answers[r.right[0]],)) for r in requests]
    right = targets.Task(name="t", requests=tuple(alone))
    answers = targets.text_of(right, tokenizer, np.dtype(np.uint16)).text
    found = answer_scores(KnownAnswers([]), Questions("t", answers, text, {}), 50, 4)
    assert found["accuracy"] == pytest.approx(100 / 3), "the longest is the least likely"


def test_losses_that_are_no_numbers(tokenizer: Path) -> None:
    class Broken(KnownAnswers):
        def forward(self, input_ids: torch.Tensor) -> Any:
            found = super().forward(input_ids)
            found.logits = found.logits * float("nan")
            return found

    task = targets.Task(name="t", requests=(targets.Request("q", ("a",)),))
    text = targets.text_of(task, tokenizer, np.dtype(np.uint16)).text
    with pytest.raises(NonFiniteError, match=r"^Expected a finite loss, found nan of answer 1$"):
        answer_losses(Broken([]), text, 50, 1)
    plain = data.Text(np.zeros(3, np.uint16), np.array([3]))
    with pytest.raises(ValueError, match=r"^Expected a text with answers, actual plain text$"):
        answer_losses(Broken([]), plain, 50, 1)
