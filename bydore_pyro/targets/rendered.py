"""Requests that an evaluation wrote: OLMES' ``requests.jsonl`` and lm-eval's ``samples_*.jsonl``.

They hold the context and the continuation of each choice as a model reads them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bydore_pyro import data
from bydore_pyro.errors import DataError
from bydore_pyro.targets.labels import Question, right_answers
from bydore_pyro.targets.layouts import SEVERAL, Placed, layouts_of

OLMES = ("request", "doc_id", "idx", "label")
SAMPLES = ("arguments", "doc", "target")
UNCONDITIONAL = 1_000_000  # OLMES' number of the first document without its question
# Of a document whose target is none: unit tests, a final answer; each with what stands beside it.
SOLUTIONS = (("canonical_solution", "prompt"), ("code", "test_list"), ("solution", "problem"))
Found = list[tuple[str, Question]]


def olmes_questions(rows: Placed, left_out: Counter[str]) -> Found:
    """Returns the questions of OLMES' requests; counts the rows that are left out.

    A document's rows are its choices, ``label`` is the ``idx`` of the right one; where it is no
    number, the document's only row holds the right answer.

    Raises:
        DataError: When a row stands twice, or none is the right one.
    """
    documents: dict[tuple[Any, Any], dict[int, tuple[str, Mapping[str, Any]]]] = {}
    for place, row in rows:
        number, of_choice = row["doc_id"], row["idx"]
        if not isinstance(number, int) or not isinstance(of_choice, int):
            raise DataError(
                f"Expected numbers as doc_id and idx, found {number!r:.60} and {of_choice!r:.60}, "
                f"{place}"
            )
        if number >= UNCONDITIONAL:
            left_out["unconditional copies (doc_id from 1,000,000)"] += 1
            continue
        of_document = documents.setdefault((str(row.get("task_name")), number), {})
        if of_choice in of_document:
            raise DataError(
                f"Expected each doc_id and idx once, found {number} and {of_choice} at "
                f"{of_document[of_choice][0]} and again: remove one of them, {place}"
            )
        of_document[of_choice] = (place, row)
    return [_olmes(*zip(*sorted(one.items()), strict=True)) for one in documents.values()]


def _olmes(numbers: Sequence[int], rows: Placed) -> tuple[str, Question]:
    place, first = rows[0]
    label = first["label"]
    offered = []
    for where, row in rows:
        if row["label"] != label:
            raise DataError(
                f"Expected one label of a document in all its rows, found {label!r:.60} at {place} "
                f"and {row['label']!r:.60}, {where}"
            )
        request = row["request"]
        if not isinstance(request, Mapping) or request.get("continuation") is None:
            raise DataError(
                "Expected a request with a context and a continuation, found none: only requests "
                f"with their gold answers are scored (bpb or rc, not generation alone), {where}"
            )
        try:
            context = data.checked_text(request.get("context") or "", "request.context")
            answer = data.checked_text(request["continuation"], "request.continuation")
        except DataError as error:
            raise DataError(f"{error}, {where}") from None
        offered.append((context, answer))
    if isinstance(label, float) and label.is_integer():  # as tables write it
        label = int(label)
    if isinstance(label, int) and not isinstance(label, bool):
        if label not in numbers:
            raise DataError(
                f"Expected the right answer, the row with idx {label}, as label says, found "
                f"{', '.join(map(str, numbers))} alone, {place}"
            )
        return place, Question(tuple(offered), (list(numbers).index(label),))
    if len(offered) > 1:
        raise DataError(
            f"Expected a number as label of {len(offered)} choices, found {label!r:.60}, {place}"
        )
    return place, Question(tuple(offered), (0,))


def sample_questions(rows: Placed, left_out: Counter[str]) -> Found:
    """Returns the questions of samples that lm-eval logged; counts the rows that are left out.

    Of choices the target is the number or the text of the right one. Of generated answers it is
    taken as the answer, unless the document holds the solution, which is.

    Raises:
        DataError: When a document stands twice, or its right answer is not known.
    """
    found, seen, first_filter = [], dict[Any, str](), rows[0][1].get("filter")
    for place, row in rows:
        if row.get("filter") != first_filter:
            left_out[f"documents again, under other filters than '{first_filter}'"] += 1
            continue
        number = row.get("doc_id")
        if not isinstance(number, int | str | None):
            raise DataError(f"Expected a number as doc_id, found {number!r:.60}, {place}")
        if number is not None and number in seen:
            raise DataError(
                f"Expected each doc_id once, found {number} at {seen[number]} and again: remove "
                f"one of them, {place}"
            )
        seen[number] = place
        try:
            found.append((place, _sample(row, left_out)))
        except DataError as error:
            raise DataError(f"{error}, {place}") from None
    return found


def _sample(row: Mapping[str, Any], left_out: Counter[str]) -> Question:
    arguments = row["arguments"]
    if isinstance(arguments, Mapping):  # as later versions write them
        arguments = [
            list(one.values()) if isinstance(one, Mapping) else one for one in arguments.values()
        ]
    each = arguments if isinstance(arguments, list) else []
    if not each or not all(isinstance(one, list) and one for one in each):
        raise DataError(f"Expected the arguments of requests, found {row['arguments']!r:.60}")
    context = data.checked_text(each[0][0], "arguments")
    if len(each[0]) < 2:
        raise DataError(
            "Expected a context and what follows it, found a text alone, as of "
            "loglikelihood_rolling: text_column=arguments.gen_args_0.arg_0 reads it as plain text"
        )
    if isinstance(each[0][1], Mapping):  # what is generated
        answer, note = _solution(row)
        touch = context[-1:].strip() and answer[:1].strip()
        return Question(((context, f" {answer}" if touch else answer),), (0,), note=note)
    if not all(len(one) > 1 for one in each):
        raise DataError("Expected a context and what follows it in each argument, found one alone")
    offered = [
        (data.checked_text(one[0], "arguments"), data.checked_text(one[1], "arguments"))
        for one in each
    ]
    half = len(offered) // 2
    alone = offered[half:]
    if (
        half
        and [b for _, b in offered[:half]] == [b for _, b in alone]
        and not any(a.strip() for a, _ in alone)
    ):
        left_out["choices without their question, of acc_mutual_info"] += half
        offered = offered[:half]
    if len(offered) == 1:
        return Question(tuple(offered), (0,))
    return Question(tuple(offered), _right(row, offered))


def _solution(row: Mapping[str, Any]) -> tuple[str, str]:
    """The right answer of a sample whose answer is generated, and a note on where it stands."""
    document, target = row["doc"], row["target"]
    for name, beside in SOLUTIONS:
        if isinstance(document, Mapping) and beside in document and document.get(name):
            text = data.checked_text(document[name], f"doc.{name}")
            return text, f"the document's '{name}', not its target"
    found, note = target, ""
    several = _plain(target) if isinstance(target, str) else target
    if isinstance(several, list):
        found, note = several[0] if several else None, SEVERAL if len(several) > 1 else ""
    if not isinstance(found, str) or not found.strip():
        raise DataError(f"Expected the right answer as target, found {target!r:.60}")
    return data.checked_text(found, "target"), note


def _right(row: Mapping[str, Any], offered: Sequence[tuple[str, str]]) -> tuple[int, ...]:
    """The places of the right choices of a sample."""
    target = row["target"]
    places = _plain(target) if isinstance(target, str) else target
    several = places if isinstance(places, list) else [places]
    texts = [answer.strip() for _, answer in offered]
    by_number = [p for p in several if isinstance(p, int) and 0 <= p < len(offered)]
    by_text = [p for p, answer in enumerate(texts) if answer == str(target).strip()]
    if by_number and len(by_number) == len(several) and by_text in ([], by_number):
        return tuple(by_number)
    if len(by_text) == 1 and not by_number:
        return tuple(by_text)
    document = row["doc"] if isinstance(row["doc"], Mapping) else {}
    for layout in layouts_of(document):
        for question in layout.read(document):
            if len(question.offered) == len(offered):
                if question.right is not None:
                    return question.right
                return right_answers([("doc", question)], layout.first)[0][0]
    raise DataError(
        f"Expected as target the number or the text of one of {len(offered)} choices, found "
        f"{target!r:.60}"
    )


def _plain(written: str) -> Any:
    """What lm-eval wrote as Python writes it, a number or a list; else the text."""
    try:
        return ast.literal_eval(written.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return written
