"""Bits per byte of right answers under a model, and its accuracy where there are choices.

::

    b = 1/n sum_i nll_i / (bytes_i ln 2)      the mean over questions, of right answers

A choice counts as the model's if it is the most likely one; for the accuracy by bytes, if it is the
most likely one per byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bydore_pyro import data, proxy, targets
from bydore_pyro.errors import DataError, NonFiniteError
from bydore_pyro.evaluation.config import EvaluationConfig


@dataclass(frozen=True, eq=False)
class Questions:
    """A task as a model reads it.

    Attributes:
        name: Of the task, as a target.
        text: Scored on the right answers.
        choices: Scored on all choices, one after the other; None where there are none.
        about: Where they come from: `source`, `split`, `shots`, `left_out`, `requests_sha256`.
    """

    name: str
    text: data.Text
    choices: data.Text | None
    about: Mapping[str, Any]


def read_questions(
    entry: targets.Entry, tokenizer: Path, config: EvaluationConfig
) -> dict[str, Questions]:
    """Returns the tasks that an entry of `--tasks` names, each by its label.

    Tasks of lm-eval are asked the questions on which it scores models.

    Args:
        entry: A file, or a task of lm-eval.
        tokenizer: Its folder.
        config: Where lm-eval's data lies, and how many questions are asked.

    Returns:
        Nothing of a file of plain text.

    Raises:
        DataError: As `targets.read_task`, `targets.tasks_of` and `targets.text_of`.
    """
    if entry.task is not None:
        found = targets.tasks_of(
            entry.task,
            shots=entry.shots or 0,
            score=None,
            data_dir=config.data_dir,
            hub=config.hub,
            judged=True,
        )
        shots = f", {entry.shots} shots" if entry.shots else ""
        return {
            f"{one.name}{shots}": _questions(
                entry.name if len(found) == 1 else f"{entry.name}/{one.name}",
                one,
                one,
                tokenizer,
                config.limit,
            )
            for one in found
        }
    path, columns = Path(entry.file or ""), entry.columns
    if columns == targets.Columns() and config.text_column != "text":
        return {}
    task = targets.read_task(path, columns, name=entry.name)
    if task is None:
        return {}
    compared = task
    with suppress(DataError):  # not all of its questions have choices
        compared = targets.read_task(path, columns, name=entry.name, score="choice") or task
    return {str(path): _questions(entry.name, task, compared, tokenizer, config.limit)}


def _questions(
    name: str, task: targets.Task, compared: targets.Task, tokenizer: Path, limit: int | None
) -> Questions:
    """A task as text, and its choices as another."""
    task, compared = (replace(one, requests=one.requests[:limit]) for one in (task, compared))
    if task.score == "choice":
        task = replace(task, score="answer", requests=tuple(map(_right_alone, task.requests)))
    kind = np.dtype(np.uint32)
    scored = targets.text_of(task, tokenizer, kind)
    choices = None
    if compared.score == "choice":
        choices = targets.text_of(compared, tokenizer, kind).text
    about = {
        "source": task.source,
        "split": task.split,
        "shots": task.shots,
        "left_out": scored.left_out,
        "requests_sha256": scored.requests_sha256,
    }
    return Questions(name, scored.text, choices, about)


def _right_alone(request: targets.Request) -> targets.Request:
    right = request.answers[request.right[0]]
    return replace(request, answers=(right,), right=(0,))


def answer_scores(model: Any, questions: Questions, length: int, batch_size: int) -> dict[str, Any]:
    """Returns how well a model answers the questions of a task.

    Args:
        model: Of transformers, causal.
        questions: Of a task.
        length: Tokens of a question with its answer; of a longer one the beginning is left out.
        batch_size: Sequences in a batch.

    Returns:
        `bits_per_byte` and its `_standard_error` over questions (None of a single one), how many
        `questions`, how many of them `cut` and how many answers `answers_cut`, mean `answer_bytes`,
        what is known `about` them; where there are choices `accuracy` and `accuracy_per_byte`, in
        percent, with their errors.

    Raises:
        DataError: When no answer fits.
        NonFiniteError: When a loss is NaN or infinite.
    """
    text = questions.text
    lost = targets.cuts(text, length, questions.name)
    nats, sizes = answer_losses(model, text, length, batch_size)
    bits, error = _mean(nats / sizes / math.log(2))
    found = {
        "bits_per_byte": bits,
        "bits_per_byte_standard_error": error,
        "questions": lost.questions,
        "cut": lost.contexts + lost.answers,
        "answers_cut": lost.answers,
        "answer_bytes": float(sizes.mean()),
        **questions.about,
    }
    answers = None if questions.choices is None else questions.choices.answers
    if questions.choices is None or answers is None or answers.right is None:
        return found
    nats, sizes = answer_losses(model, questions.choices, length, batch_size)
    for name, losses in (("accuracy", nats), ("accuracy_per_byte", nats / sizes)):
        right, error = _mean(100.0 * _answered(losses, answers.questions, answers.right))
        found |= {name: right, f"{name}_standard_error": error}
    return found


def _mean(values: np.ndarray) -> tuple[float, float | None]:
    """The mean of values and its standard error, None of a single one."""
    count = len(values)
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else None


def _answered(losses: np.ndarray, questions: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether the choice of the least loss is a right one, for each question; the first of several
    such choices counts, as in lm-eval."""
    order = np.lexsort((np.arange(len(losses)), losses, questions))
    _, first = np.unique(questions[order], return_index=True)
    return right[order[first]].astype(float)


def answer_losses(
    model: Any, text: data.Text, length: int, batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the loss of each answer of a text, or of each choice ``(n,)``, nats, and its bytes.

    Args:
        model: Of transformers, causal.
        text: With `data.Text.answers`.
        length: Tokens of a question with its answer at most.
        batch_size: Sequences in a batch.

    Raises:
        NonFiniteError: When a loss is NaN or infinite; names the place of the document.
    """
    from tqdm import tqdm

    answers = text.answers
    if answers is None:
        raise ValueError("Expected a text with answers, actual plain text")
    longest = int(np.diff(text.ends, prepend=0).max()) + 1
    asked = data.answered_sequences(text, max(2, min(length, longest)), np.unique(text.questions))
    unit = math.log(2) if asked.unit == data.PER_BYTE else 1.0
    counts = asked.token_weights  # (N, T - 1)
    sizes = 1 / (unit * counts.amax(1).double().numpy())  # bytes of what is scored
    scored = counts > 0
    last = scored.shape[1] - scored.flip(1).int().argmax(1)  # tokens that are read, less one
    measured, device = proxy.MeasuredModel(model), next(model.parameters()).device
    order = torch.argsort(last, descending=True, stable=True)  # what memory they need, at once
    losses = np.empty(len(order))
    with tqdm(total=len(order), desc="answers", mininterval=0.5, disable=None) as bar:
        for rows in order.split(batch_size):
            width = int(last[rows].max())
            batch = asked.tokens[rows, : width + 1].to(device)
            found = measured.evaluate_tokens(batch, "answers", len(rows)).double().cpu()
            nats = data.weighted(found, scored[rows, :width].double())
            losses[rows.numpy()] = nats.numpy()
            bar.update(len(rows))
    if not np.isfinite(losses).all():
        place = int((~np.isfinite(losses)).argmax())
        raise NonFiniteError(f"Expected a finite loss, found {losses[place]} of answer {place + 1}")
    return losses, sizes.round()
