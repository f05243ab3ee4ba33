"""One task of lm-eval run on a model: its score, and the standard error over questions."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import torch

from bydore_pyro.evaluation.tasks import EvaluationTask
from bydore_pyro.utils import DataError, one_line

__all__ = ["score_task"]

# Of a task's metrics the first of these is reported: RegMix's rule, accuracy by likelihood per
# character where lm-eval has it. They are shares, told in percent.
SHARES = ("acc_norm", "acc", "exact_match")
SEED = 1234  # chooses the examples: lm-eval's own


def score_task(model: Any, task: EvaluationTask, limit: int | None) -> dict[str, Any]:
    """Runs a task once for each of its numbers of examples.

    Args:
        model: A language model as lm-eval takes it.
        task: What is run.
        limit: First questions that are asked; None: all.

    Returns:
        The task's part of what `evaluate_model` returns.

    Raises:
        DataError: When lm-eval cannot make requests of the data, or not score the answers.
    """
    from lm_eval.api.metrics import mean, mean_stderr

    runs = [_run(model, task, number, limit) for number in task.num_fewshot]
    # By "metric,filter"; standard errors that were not asked for are text.
    keys = [key for key, value in runs[0][0].items() if "," in key and isinstance(value, Real)]
    key = next((k for name in SHARES for k in keys if k.partition(",")[0] == name), keys[0])
    metric, _, filtered = key.partition(",")

    scores = {}
    for each in keys:
        unit = 100.0 if each.partition(",")[0] in SHARES else 1.0
        scores[each.removesuffix(",none")] = [unit * float(row[each]) for row, _ in runs]
    means = {name: math.fsum(values) / len(values) for name, values in scores.items()}
    name = key.removesuffix(",none")
    answers: Any = [
        [s.get(metric) for s in samples if s["filter"] == filtered] for _, samples in runs
    ]
    a_mean = task.task.aggregation().get(metric, mean) is mean
    error = None
    if a_mean and len(answers[0]) > 1 and not any(None in run for run in answers):
        by_question = np.mean(answers, axis=0)  # (n,) of (R, n)
        error = mean_stderr(by_question.tolist()) * (100.0 if metric in SHARES else 1.0)
    return {
        "score": means.pop(name),
        "standard_error": error,
        "metric": name,
        "questions": len(answers[0]),
        "num_fewshot": list(task.num_fewshot),
        "score_by_num_fewshot": dict(zip(map(str, task.num_fewshot), scores[name], strict=True)),
        "other_metrics": means,
        "task": task.task.task_name,
        "version": task.task.VERSION,
        "data": task.data,
        "data_sha256": task.data_sha256,
    }


def _run(
    model: Any, task: EvaluationTask, num_fewshot: int, limit: int | None
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Returns lm-eval's scores of a task, and what it knows of each question; or says why not."""
    from lm_eval.evaluator import evaluate

    name = task.task.task_name
    torch.manual_seed(SEED)  # for tasks that sample
    task.task.set_config("num_fewshot", num_fewshot)
    task.task.set_fewshot_seed(SEED)
    try:
        found = evaluate(model, {"tasks": {name: task.task}}, limit=limit, bootstrap_iters=0)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        # Such as an answer that is longer than the model's context.
        raise DataError(
            f"Expected questions of {task.label} that lm-eval can ask with {num_fewshot} examples, "
            f"found {type(error).__name__}: {one_line(error)}"
        ) from error
    return found["results"][name], found["samples"][name]
