"""One task of lm-eval run on a model: its score, and the standard error over questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bydore_pyro.evaluation.surroundings import TaskLog, replaced
from bydore_pyro.evaluation.tasks import FAILURES, EvaluationTask
from bydore_pyro.utils import DataError

__all__ = ["score_task", "standard_error", "wrapped"]

IN_PERCENT = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em", "f1")
PREFERRED = ("acc_norm", "acc", "exact_match")  # of a task's metrics, where none is asked for
BOOTSTRAP_DRAWS = 200


def wrapped(model: Any, tokenizer: Any, batch_size: int) -> Any:
    """Returns a language model of transformers as lm-eval takes it."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(
        pretrained=model, tokenizer=tokenizer, batch_size=batch_size, trust_remote_code=False
    )


def score_task(
    model: Any, task: EvaluationTask, limit: int | None, seed: int, log: TaskLog
) -> dict[str, Any]:
    """Runs a task once for each of its numbers of examples.

    Args:
        model: As `wrapped` returns it.
        task: What is run.
        limit: First questions that are asked; None: all.
        seed: Chooses the examples.
        log: What `surroundings.quiet` yields.

    Returns:
        The task's part of what `evaluate_model` returns.

    Raises:
        DataError: When lm-eval cannot make requests of the data, or not score the answers.
    """
    from lm_eval.api.metrics import mean

    runs = [_run(model, task, number, limit, seed) for number in task.num_fewshot]
    keys = [key for key in runs[0][0] if "," in key and "_stderr," not in key]  # "metric,filter"
    wanted = (task.metric, *PREFERRED)
    key = next((k for name in wanted for k in keys if k.partition(",")[0] == name), keys[0])
    metric, _, filtered = key.partition(",")
    samples = [[s for s in samples if s["filter"] == filtered] for _, samples in runs]
    aggregate = task.task.aggregation().get(metric, mean)
    deviation = standard_error(
        [[sample.get(metric) for sample in run] for run in samples],
        None if aggregate is mean else aggregate,
        seed,
    )
    scores = {k: [_in_unit(k, row[k]) for row, _ in runs] for k in keys}
    means = {k: _mean(values) for k, values in scores.items()}
    return {
        "score": means.pop(key),
        "standard_error": _in_unit(key, deviation),
        "unit": "percent" if metric in IN_PERCENT else "as lm-eval gives it",
        "metric": key.removesuffix(",none"),
        "questions": len(samples[0]),
        "num_fewshot": list(task.num_fewshot),
        "score_by_num_fewshot": dict(zip(map(str, task.num_fewshot), scores[key], strict=True)),
        "other_metrics": {k.removesuffix(",none"): score for k, score in means.items()},
        "requests": sum(len(sample["arguments"]) for run in samples for sample in run),
        "requests_cut": log.cut,
        "task": task.task.task_name,
        "version": task.task.VERSION,
        "source": task.source,
        "data": task.data,
        "data_sha256": task.data_sha256,
    }


def _run(
    model: Any, task: EvaluationTask, num_fewshot: int, limit: int | None, seed: int
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Returns lm-eval's scores of a task, and what it knows of each question; or says why not."""
    from jinja2 import TemplateError
    from lm_eval import evaluator
    from lm_eval.tasks import TaskManager

    task.task.set_config("num_fewshot", num_fewshot)
    try:
        # Reports on the machine: they take longer than a small task, and git complains of folders.
        with (
            replaced(evaluator, "add_env_info", lambda *_: None),
            replaced(evaluator, "get_git_commit_hash", lambda *_: None),
        ):
            found = evaluator.simple_evaluate(
                model=model,
                tasks=[task.task],
                # An index of no tasks: without one, all of lm-eval's files are read each time.
                task_manager=TaskManager(include_defaults=False),
                limit=limit,
                bootstrap_iters=0,  # `standard_error` is ours
                log_samples=True,
                random_seed=seed,
                numpy_random_seed=seed,
                torch_random_seed=seed,
                fewshot_random_seed=seed,
            )
    except (*FAILURES, TemplateError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise DataError(
            f"Expected questions of {task.label} that lm-eval can ask with {num_fewshot} examples: "
            f"{reason}"
        ) from error
    name = task.task.task_name
    return found["results"][name], sorted(found["samples"][name], key=lambda s: s["doc_id"])


def standard_error(
    answers: Sequence[Sequence[Any]],
    aggregate: Callable[[Sequence[Any]], float] | None,
    seed: int,
) -> float | None:
    """Returns the standard error over questions of the mean over runs of a score.

    Args:
        answers: A metric's value for every question, ``(R, n)``: R runs over the same n questions.
        aggregate: What makes a run's score of its values; None: their mean, for which the error is
            ``sqrt(sum_i (c_i - c)^2 / (n (n - 1)))`` with ``c_i`` a question's mean over runs. For
            others it is the standard deviation over resampled questions.
        seed: Of the resampling.

    Returns:
        The error in the unit of the score, at least 0; None where there is none, as with one
        question.
    """
    n = len(answers[0])
    if n < 2 or any(len(run) != n for run in answers):
        return None
    if aggregate is None:
        try:
            by_question = np.asarray(answers, dtype=float).mean(0)  # (n,)
        except (TypeError, ValueError):  # a metric that some questions do not have
            return None
        with np.errstate(invalid="ignore"):
            return _finite(float(by_question.std(ddof=1)) / math.sqrt(n))
    generator = np.random.default_rng(seed)
    draws = []
    for _ in range(BOOTSTRAP_DRAWS):
        drawn = generator.integers(n, size=n)
        draws.append(np.mean([aggregate([run[i] for i in drawn]) for run in answers]))
    return _finite(float(np.std(draws, ddof=1)))


def _in_unit(key: str, value: Any) -> float | None:
    """Returns a metric's value in percent where it is a share; None where it is no number."""
    if not isinstance(value, int | float | np.number):
        return None
    return _finite(float(value) * (100.0 if key.partition(",")[0] in IN_PERCENT else 1.0))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) else None
