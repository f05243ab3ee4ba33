"""A file of rows as a task: prompts and answers, chats, benchmarks as the hub has them, requests
that an evaluation wrote.

How a file is read follows from its columns; all its rows are of one kind.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from bydore_pyro import data
from bydore_pyro.errors import DataError, listed
from bydore_pyro.targets.labels import First, Question, means_a_choice, right_answers
from bydore_pyro.targets.layouts import (
    QUESTION_AND_TEXT,
    SEVERAL,
    Layout,
    Placed,
    layouts_of,
    of_choices,
    of_columns,
)
from bydore_pyro.targets.rendered import OLMES, SAMPLES, Found, olmes_questions, sample_questions
from bydore_pyro.targets.request import Request, Score, Task

TEXT = "text"  # the column of plain text
IDS = ("id", "question_id", "task_id", "qid")  # of a row, in benchmarks
WITHOUT_ANSWER = "rows without a right answer, as of test splits"
UNREADABLE = "rows that could not be read"
SAMPLES_FILE = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT.*")  # lm-eval's
OF_SHOTS = re.compile(r"(.*_)?\d+(shot|way)")  # OLMES' folder of a task's requests
KNOWN = (
    "prompt and completion, messages, conversations, instruction and output, context and "
    "continuation, question and answer, question, choices and answer, OLMES' requests, lm-eval's "
    "samples"
)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file are read, where their names do not say it.

    Attributes:
        text: Of plain text: nothing is a question then.
        prompt: Of what stands before the answers; a dot selects a nested column.
        answer: Of the answers, or of chats.
        labels_from: What the first choice is called where labels are numbers, 0 or 1.

    Raises:
        ValueError: When they name text and answers, or a prompt without answers.
    """

    text: str | None = None
    prompt: str | None = None
    answer: str | None = None
    labels_from: First | None = None

    def __post_init__(self) -> None:
        if self.text is not None and (self.prompt, self.answer) != (None, None):
            raise ValueError("Expected text_column or answer_column, found both")
        if self.prompt is not None and self.answer is None:
            raise ValueError("Expected answer_column beside prompt_column, found none")
        if self.prompt is not None and self.prompt == self.answer:
            raise ValueError(f"Expected two columns, found '{self.prompt}' as both")

    @property
    def named(self) -> bool:
        """Whether they name a column."""
        return (self.text, self.prompt, self.answer) != (None, None, None)


def task_name(path: str | Path) -> str:
    """Returns what a file calls its task.

    It is its name up to the first dot; of lm-eval's samples the task's; of OLMES' requests that of
    the folders of the task and its shots.
    """
    path = Path(path)
    stem = path.name.split(".")[0]
    if samples := SAMPLES_FILE.fullmatch(stem):
        stem = samples[1]
    elif stem == "requests" and OF_SHOTS.fullmatch(path.parent.name):
        stem = "_".join(filter(None, [path.parent.parent.name, path.parent.name]))
    return stem.replace("=", "-")


def read_task(
    path: Path,
    columns: Columns | None = None,
    *,
    name: str | None = None,
    score: Score = "answer",
    on_error: Literal["stop", "skip"] = "stop",
) -> Task | None:
    """Returns the task that a file of rows holds; None where it holds plain text.

    Args:
        path: Of a file that `data.is_row_file` knows.
        columns: Where their names do not say how it is to be read.
        name: Of the task; by default what the file calls it.
        score: What is scored.
        on_error: Whether rows that cannot be read are left out, and counted.

    Raises:
        DataError: When the file cannot be read, is of two kinds, mixes them, holds two rows of one
            id, a chat without an assistant's turn, or no right answers.
    """
    columns = columns or Columns()
    if columns.text is not None or not data.is_row_file(path):
        return None
    left_out: Counter[str] = Counter()
    rows: Placed = []
    for place, row in data.read_columns(path, on_error):
        if row is None:
            left_out[UNREADABLE] += 1
        else:
            rows.append((place, {name: _known(value) for name, value in row.items()}))
    if not rows:
        raise DataError(f"Expected rows, found none in {path}")
    try:
        reader = _reader(rows, columns)
        if reader is None and score == "choice":
            raise DataError(
                "Expected questions with choices, which score=choice compares, found plain text, "
                f"{rows[0][0]}"
            )
        if reader is None:
            return None
        questions = reader.read(rows, left_out, on_error)
        right, how = _right(questions, columns, reader)
        requests = tuple(
            _request(place, one, places, score)
            for (place, one), places in zip(questions, right, strict=True)
        )
    except DataError as error:
        raise DataError(f"{error} of {path}") from None
    if not requests:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise DataError(
            f"Expected questions with their right answers, found none ({reasons}): take a split "
            f"whose answers are known, {rows[0][0]} of {path}"
        )
    noted = f", labels read as {how}" if how else ""
    notes = [one.note for _, one in questions]
    if score == "answer" and any(len(places) > 1 for places in right):
        notes.append(SEVERAL)
    for note in dict.fromkeys(filter(None, notes)):
        noted += f"; {note}"
    if TEXT in rows[0][1] and TEXT not in reader.keys:
        noted += f"; the column '{TEXT}' is not read"
    return Task(
        name=name or task_name(path),
        requests=requests,
        score=score,
        source=f"{len(requests)} answers in {len(rows)} rows: {reader.what}{noted}",
        left_out=dict(left_out),
    )


@dataclass(frozen=True)
class _Reader:
    """How a file is read: in words, by which columns, and the function that does it."""

    what: str
    keys: Sequence[str]
    read: Callable[[Placed, Counter[str], str], Found]
    first: First | None = None


def _reader(rows: Placed, columns: Columns) -> _Reader | None:
    """How all rows are read; None where they hold plain text."""
    if columns.answer is not None:
        return _by_layout(_by_columns(rows, columns.prompt, columns.answer))
    kinds: dict[frozenset[str], _Reader | None] = {}
    first: dict[frozenset[str], tuple[str, _Reader]] = {}
    for place, row in rows:
        known = _filled(row)
        if known not in kinds:
            kinds[known] = kind = _kind(known, row, place)
            if kind is not None:
                first.setdefault(frozenset(kind.keys), (place, kind))
    place, row = rows[0]
    if not first and (kind := _kind(frozenset(row), row, place)):
        first[frozenset(kind.keys)] = place, kind  # answers are withheld in all rows
    if not first:
        if TEXT in row:
            return None
        raise DataError(
            f"Expected a column '{TEXT}', or those of questions ({KNOWN}), found "
            f"{listed(map(str, row), 12)}: text_column, or prompt_column and answer_column, "
            f"name others, {place}"
        )
    # What is empty in a row may hide a column: of choices, or of the answer.
    keys, (place, kind) = max(first.items(), key=lambda item: len(item[0]))
    for where, row in rows:
        other = kinds[_filled(row)]
        if not keys <= row.keys() or (other and not keys.issuperset(other.keys)):
            raise DataError(
                f"Expected {listed(kind.keys)} in all rows, as in {place}, found "
                f"{listed(map(str, row), 8)}: put the two kinds into a file each, {where}"
            )
    if kind.keys == QUESTION_AND_TEXT.keys and _holds_its_question(rows):
        return None
    return kind


def _known(value: Any) -> Any:
    """A value; None for NaN, which tables hold where a number is missing."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _filled(row: Mapping[str, Any]) -> frozenset[str]:
    """The columns that hold something in a row."""
    return frozenset(name for name, value in row.items() if value is not None)


def _holds_its_question(rows: Placed) -> bool:
    """Whether the text of each row is plain text that repeats the question beside it."""
    holding = [str(row["question"]).strip() in str(row[TEXT]) for _, row in rows]
    if any(holding) and not all(holding):
        place, other = (rows[holding.index(kind)][0] for kind in (True, False))
        raise DataError(
            "Expected texts that answer their questions, or texts that hold them, found both "
            f"({other} answers): prompt_column=question,answer_column=text or text_column=text "
            f"says how they are read, {place}"
        )
    return all(holding)


def _by_columns(rows: Placed, prompt: str | None, answer: str) -> Layout:
    """The layout of columns that options name: of choices, where they stand beside and all labels
    mean one, else of prompts and answers."""
    plain = of_columns(prompt, answer)
    chosen = None if prompt is None else of_choices(prompt, answer, rows[0][1])
    if chosen is None:
        return plain
    try:
        questions = [one for _, row in rows for one in chosen.read(row)]
    except DataError:
        return plain
    return chosen if questions and all(map(means_a_choice, questions)) else plain


def _kind(known: frozenset[str], row: Mapping[str, Any], place: str) -> _Reader | None:
    """How a row with these columns, which hold something, is read.

    Raises:
        DataError: When there are two ways.
    """
    kinds = [_by_layout(one) for one in layouts_of(known)]
    if row.keys() >= {*OLMES}:
        kinds.append(_Reader("OLMES' requests", OLMES, lambda r, left, _: olmes_questions(r, left)))
    if row.keys() >= {*SAMPLES}:
        kinds.append(
            _Reader("lm-eval's samples", SAMPLES, lambda r, left, _: sample_questions(r, left))
        )
    if len(kinds) > 1:
        hints = [_hint(one.keys) for one in kinds]
        raise DataError(
            "Expected columns of one kind of question, found "
            f"{' beside '.join(', '.join(one.keys) for one in kinds)}: "
            f"{' or '.join(filter(None, hints)) or 'leave those of one out'}, {place}"
        )
    return kinds[0] if kinds else None


def _hint(keys: Sequence[str]) -> str:
    """The options that choose a pair of columns or a chat."""
    if len(keys) == 1:
        return f"answer_column={keys[0]}"
    return f"prompt_column={keys[0]},answer_column={keys[1]}" if len(keys) == 2 else ""


def _by_layout(layout: Layout) -> _Reader:
    def read(rows: Placed, left_out: Counter[str], on_error: str) -> Found:
        found: Found = []
        seen: dict[tuple[str, Any], tuple[str, Any]] = {}
        for place, row in rows:
            try:
                _check_ids(row, place, seen)
                questions = layout.read(row)
            except DataError as error:
                if on_error == "stop":
                    raise DataError(f"{error}, {place}") from None
                left_out[UNREADABLE] += 1
                continue
            if not questions:
                left_out[WITHOUT_ANSWER] += 1
            found += [(place, question) for question in questions]
        return found

    return _Reader(layout.what, layout.keys, read, layout.first)


def _check_ids(row: Mapping[str, Any], place: str, seen: dict[Any, tuple[str, Any]]) -> None:
    """Refuses a row with the id of another, unless both are the same: then it is a copy."""
    for name in IDS:
        value = row.get(name)
        if isinstance(value, str | int):
            where, other = seen.setdefault((name, value), (place, row))
            if other != row:
                raise DataError(
                    f"Expected every {name} once, found {value!r:.60} in {where} and again: remove "
                    "one of them, or the column"
                )


def _right(
    questions: Found, columns: Columns, reader: _Reader
) -> tuple[list[tuple[int, ...]], str]:
    """The right answers of all questions, and how labels were read."""
    labelled = [(place, one) for place, one in questions if one.right is None]
    first = reader.first if columns.labels_from is None else columns.labels_from
    places, how = right_answers(labelled, first) if labelled else ([], "")
    read = iter(places)
    return [next(read) if one.right is None else one.right for _, one in questions], how


def _request(place: str, question: Question, right: tuple[int, ...], score: Score) -> Request:
    """A question as it is scored: with the right answer, or with all choices."""
    if score == "answer":
        context, answer = question.offered[right[0]]
        return Request(context, (answer,), place=place)
    if len(question.offered) < 2:
        raise DataError(
            "Expected choices, which score=choice compares, found the right answer alone: "
            f"score=answer scores it, {place}"
        )
    contexts = [context for context, _ in question.offered]
    shared = contexts[0]
    if len(set(contexts)) > 1:  # what differs, from its word on, is part of the answers
        alike = takewhile(lambda letters: len({*letters}) == 1, zip(*contexts, strict=False))
        shared = shared[: len([*alike])]
        shared = shared[: len(shared) - len(re.split(r"\s", shared)[-1])]
    answers = tuple(context[len(shared) :] + answer for context, answer in question.offered)
    return Request(shared, answers, right, place)
