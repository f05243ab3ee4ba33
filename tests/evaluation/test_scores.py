"""A score is the mean over runs, its error that over questions; what does not fit is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_data import believing, character_tokenizer, write_benchmark
from lm_eval.api.metrics import mean_stderr
from lm_eval.models.huggingface import HFLM

from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.scores import score_task
from bydore_pyro.evaluation.surroundings import quiet
from bydore_pyro.evaluation.tasks import load_tasks
from bydore_pyro.utils.errors import DataError


def test_a_task_is_scored_once_per_number_of_examples(tmp_path: Path) -> None:
    """A belief about a prompt that an example precedes holds with examples alone.

    The runs ask the same questions and are not independent: the error is that of each question's
    mean over runs.
    """
    questions = write_benchmark(tmp_path, "arc_easy", count=8)
    known = believing(questions, lambda place: place < 6)
    right_only_with_examples = questions[6]
    prompt, answer = right_only_with_examples.asked[right_only_with_examples.gold]
    known.beliefs[f"\n\n{prompt}"] = [(answer, 0.99)]
    config = EvaluationConfig(tasks=["ARC-Easy"], num_fewshot=[0, 1, 3], data_dir=str(tmp_path))
    (task,) = load_tasks(config)
    model = HFLM(pretrained=known, tokenizer=character_tokenizer(), batch_size=3)
    with quiet():
        found = score_task(model, task, None)
        again = score_task(model, task, None)
        part = score_task(model, task, 4)
        one = score_task(model, task, 1)
    assert found["score_by_num_fewshot"] == {"0": 75.0, "1": 87.5, "3": 87.5}
    assert found["score"] == pytest.approx((75 + 87.5 + 87.5) / 3)
    by_question = [1.0] * 6 + [2 / 3, 0.0]
    assert found["standard_error"] == pytest.approx(100 * mean_stderr(by_question))
    assert found["questions"] == 8
    assert found == again
    assert (part["score"], part["questions"]) == (100.0, 4)
    assert one["standard_error"] is None


def test_what_does_not_fit_is_told_once_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = write_benchmark(tmp_path, "piqa", count=4)
    config = EvaluationConfig(tasks=["piqa"], num_fewshot=[0], data_dir=str(tmp_path))
    (task,) = load_tasks(config)
    known = believing(questions, lambda place: True)
    known.config.max_position_embeddings = 16
    capsys.readouterr()
    with quiet():
        model = HFLM(pretrained=known, tokenizer=character_tokenizer(), batch_size=3)
        score_task(model, task, None)
    assert capsys.readouterr().err.count("exceeds model's maximum length (16)") == 1
    known.config.max_position_embeddings = 3
    message = "questions of PIQA that lm-eval can ask with 0 examples, found AssertionError"
    with quiet(), pytest.raises(DataError, match=message):
        model = HFLM(pretrained=known, tokenizer=character_tokenizer(), batch_size=3)
        score_task(model, task, None)
