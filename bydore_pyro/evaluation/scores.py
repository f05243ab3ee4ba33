"""One task of lm-eval run on a model: its score, and the standard error over questions."""

from __future__ import annotations

import logging
import math
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any

import numpy as np
import torch

from bydore_pyro.evaluation.task_files import replaced
from bydore_pyro.evaluation.tasks import FAILURES, EvaluationTask
from bydore_pyro.utils import DataError

__all__ = ["TaskLog", "kept_random_state", "quiet", "score_task", "standard_error", "wrapped"]

IN_PERCENT = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em", "f1")
PREFERRED = ("acc_norm", "acc", "exact_match")  # of a task's metrics, where none is asked for
BOOTSTRAP_DRAWS = 200


class TaskLog(logging.Handler):
    """Counts what lm-eval warns of, instead of printing a line for every question.

    Attributes:
        cut: Requests whose beginning did not fit the model's context; requests that differ in
            their last token alone count once.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.cut = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Counts a warning."""
        self.cut += "exceeds model's maximum length" in record.getMessage()


@contextmanager
def quiet() -> Iterator[TaskLog]:
    """Counts lm-eval's warnings while the block runs; progress bars show on a terminal alone."""
    logger, log = logging.getLogger("lm_eval"), TaskLog()
    level, propagate = logger.level, logger.propagate
    with ExitStack() as stack:
        if not sys.stderr.isatty():
            sink = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(redirect_stderr(sink))
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        logger.addHandler(log)
        try:
            yield log
        finally:
            logger.removeHandler(log)
            logger.propagate = propagate
            logger.setLevel(level)


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Gives Python, NumPy and torch their random states back when the block ends."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  (lm-eval seeds it)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


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
        log: What `quiet` yields.

    Returns:
        The task's part of what `evaluate_model` returns.

    Raises:
        DataError: When lm-eval cannot make requests of the data, or not score the answers.
    """
    from lm_eval.api.metrics import mean

    rows: list[Mapping[str, Any]] = []  # of each run, lm-eval's scores by "metric,filter"
    answers: list[list[Any]] = []  # of each run, the metric of each question
    requests = 0
    key = ""
    for number in task.num_fewshot:
        row, samples = _run(model, task, number, limit, seed)
        key = _reported(row, task.metric)
        metric, _, filtered = key.partition(",")
        samples = [sample for sample in samples if sample["filter"] == filtered]
        rows.append(row)
        answers.append([sample.get(metric) for sample in samples])
        requests += sum(len(sample["arguments"]) for sample in samples)
    aggregate = task.task.aggregation().get(metric, mean)
    deviation = standard_error(answers, None if aggregate is mean else aggregate, seed)
    scores = {k: _mean([_in_unit(k, row[k]) for row in rows]) for k in rows[0] if _is_metric(k)}
    return {
        "score": scores.pop(key),
        "standard_error": _in_unit(key, deviation),
        "unit": "percent" if metric in IN_PERCENT else "as lm-eval gives it",
        "metric": key.removesuffix(",none"),
        "questions": len(answers[0]),
        "num_fewshot": list(task.num_fewshot),
        "score_by_num_fewshot": {
            str(number): _in_unit(key, row[key])
            for number, row in zip(task.num_fewshot, rows, strict=True)
        },
        "other_metrics": {k.removesuffix(",none"): score for k, score in scores.items()},
        "requests": requests,
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

    try:
        return _evaluate(model, task.task, num_fewshot, limit, seed)
    except (*FAILURES, TemplateError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise DataError(
            f"Expected questions of {task.label} that lm-eval can ask with {num_fewshot} examples: "
            f"{reason}"
        ) from error


def _evaluate(
    model: Any, task: Any, num_fewshot: int, limit: int | None, seed: int
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    from lm_eval import evaluator
    from lm_eval.tasks import TaskManager

    task.set_config("num_fewshot", num_fewshot)
    with ExitStack() as stack:
        # Reports on the machine: they take longer than a small task, and git complains of folders.
        for name in ("add_env_info", "get_git_commit_hash"):
            if hasattr(evaluator, name):
                stack.enter_context(replaced(evaluator, name, lambda *_: None))
        found = evaluator.simple_evaluate(
            model=model,
            tasks=[task],
            # An index of no tasks: without one, all of lm-eval's 15,000 files are read each time.
            task_manager=TaskManager(include_defaults=False),
            limit=limit,
            bootstrap_iters=0,  # `standard_error` is ours
            log_samples=True,
            random_seed=seed,
            numpy_random_seed=seed,
            torch_random_seed=seed,
            fewshot_random_seed=seed,
        )
    samples = sorted(found["samples"][task.task_name], key=lambda sample: sample["doc_id"])
    return found["results"][task.task_name], samples


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
        if not np.isfinite(by_question).all():
            return None
        return float(by_question.std(ddof=1)) / math.sqrt(n)
    generator = np.random.default_rng(seed)
    draws = []
    for _ in range(BOOTSTRAP_DRAWS):
        drawn = generator.integers(n, size=n)
        draws.append(np.mean([aggregate([run[i] for i in drawn]) for run in answers]))
    return _finite(float(np.std(draws, ddof=1)))


def _is_metric(key: str) -> bool:
    return "," in key and "_stderr," not in key


def _reported(row: Mapping[str, Any], metric: str | None) -> str:
    """Chooses among lm-eval's "metric,filter"."""
    keys = [key for key in row if _is_metric(key)]
    if not keys:
        raise ValueError("no metric")
    for name in (metric, *PREFERRED):
        for key in keys:
            if key.partition(",")[0] == name:
                return key
    return keys[0]


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
