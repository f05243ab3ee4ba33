"""Standard errors against closed forms, and what surrounds a run of lm-eval."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from benchmark_data import believing, character_tokenizer, write_benchmark
from lm_eval.api.metrics import mean, mean_stderr, perplexity

from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.scores import score_task, standard_error, wrapped
from bydore_pyro.evaluation.surroundings import quiet
from bydore_pyro.evaluation.tasks import load_tasks
from bydore_pyro.utils.errors import DataError


def test_standard_error_of_a_share() -> None:
    """sqrt(p (1 - p) / (n - 1)), lm-eval's own."""
    run = [1.0] * 7 + [0.0] * 3
    assert standard_error([run], None, 0) == pytest.approx(math.sqrt(0.7 * 0.3 / 9))
    assert standard_error([run], None, 0) == pytest.approx(mean_stderr(run))


def test_runs_over_the_same_questions_are_not_independent() -> None:
    run = [1.0] * 7 + [0.0] * 3
    once = standard_error([run], None, 0)
    assert standard_error([run] * 6, None, 0) == pytest.approx(once)  # not once / sqrt(6)
    assert standard_error([run, [1 - c for c in run]], None, 0) == pytest.approx(0.0)
    # c_i = 1, 1/2, 0: a standard deviation of 1/2 over 3 questions.
    error = standard_error([[1, 1, 0], [1, 0, 0]], None, 0)
    assert error == pytest.approx(0.5 / math.sqrt(3))


def test_standard_error_of_what_is_no_mean() -> None:
    """The bootstrap agrees with the closed form of a mean, and repeats itself."""
    generator = np.random.default_rng(1)
    run = generator.normal(size=400).tolist()
    error = standard_error([run], mean, 5)
    assert error == pytest.approx(mean_stderr(run), rel=0.2)
    assert error == standard_error([run], mean, 5)
    losses = generator.normal(-3.0, 1.0, size=400).tolist()
    # d exp(m) = exp(m) dm
    expected = math.exp(-np.mean(losses)) * mean_stderr(losses)
    assert standard_error([losses], perplexity, 5) == pytest.approx(expected, rel=0.25)


def test_where_there_is_no_standard_error() -> None:
    assert standard_error([[1.0]], None, 0) is None
    assert standard_error([[]], None, 0) is None
    assert standard_error([[1.0, 0.0], [1.0]], None, 0) is None
    assert standard_error([[1.0, None, 0.0]], None, 0) is None
    assert standard_error([[1.0, math.inf]], None, 0) is None


def test_a_task_is_scored_once_per_number_of_examples(tmp_path: Path) -> None:
    """A belief about a prompt that an example precedes holds with examples alone."""
    questions = write_benchmark(tmp_path, "arc_easy", count=8)
    known = believing(questions, lambda place: place < 6)
    right_only_with_examples = questions[6]
    prompt, answer = right_only_with_examples.asked[right_only_with_examples.gold]
    known.beliefs[f"\n\n{prompt}"] = [(answer, 0.99)]
    config = EvaluationConfig(tasks=["ARC-Easy"], num_fewshot=[0, 1, 3], data_dir=str(tmp_path))
    (task,) = load_tasks(config)
    with quiet() as log:
        model = wrapped(known, character_tokenizer(), 3)
        found = score_task(model, task, None, 7, log)
        again = score_task(model, task, None, 7, log)
        part = score_task(model, task, 4, 7, log)
    assert found["score_by_num_fewshot"] == {"0": 75.0, "1": 87.5, "3": 87.5}
    assert found["score"] == pytest.approx((75 + 87.5 + 87.5) / 3)
    by_question = [1.0] * 6 + [2 / 3, 0.0]
    assert found["standard_error"] == pytest.approx(100 * mean_stderr(by_question))
    assert (found["questions"], found["requests"]) == (8, 3 * 8 * 4)
    assert found["requests_cut"] == 0
    assert found == again
    assert (part["score"], part["questions"]) == (100.0, 4)


def test_what_does_not_fit_is_counted_or_refused(tmp_path: Path) -> None:
    questions = write_benchmark(tmp_path, "piqa", count=4)
    config = EvaluationConfig(tasks=["piqa"], num_fewshot=[0], data_dir=str(tmp_path))
    (task,) = load_tasks(config)
    known = believing(questions, lambda place: True)
    known.config.max_position_embeddings = 16
    with quiet() as log:
        found = score_task(wrapped(known, character_tokenizer(), 3), task, None, 7, log)
    assert found["requests_cut"] == found["requests"] == 8
    known.config.max_position_embeddings = 3
    message = "questions of PIQA that lm-eval can ask with 0 examples: AssertionError"
    with quiet() as log, pytest.raises(DataError, match=message):
        score_task(wrapped(known, character_tokenizer(), 3), task, None, 7, log)
