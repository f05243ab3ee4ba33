"""A task: questions, each with its right answer, or with all answers that it offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from bydore_pyro.files import content_hash

#: What is scored: the bits per byte of right answers, or the share of the right one among all.
Score = Literal["answer", "choice"]


@dataclass(frozen=True, slots=True)
class Request:
    """A question.

    White space between the two belongs to the answers.

    Attributes:
        context: What stands before every answer; "" for nothing.
        answers: The right one; or all that are offered, where a task scores choices.
        right: Places of the right answers.
        place: Where it stands, such as "row 3", for messages.
    """

    context: str
    answers: tuple[str, ...]
    right: tuple[int, ...] = (0,)
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """The questions of a task, in their order.

    Attributes:
        name: Of the target.
        requests: At least one.
        score: What is scored.
        source: Where they come from and how they were read, in words, for the user.
        split: Of the benchmark; None where it is not known.
        shots: Examples before each question; None where it is not known.
        left_out: How many rows were left out, by reason in words ("unconditional copies").
    """

    name: str
    requests: tuple[Request, ...]
    score: Score = "answer"
    source: str = ""
    split: str | None = None
    shots: int | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


def requests_sha256(requests: Iterable[Request]) -> str:
    """Returns the hash of what is asked: contexts, answers, and which of these are right."""
    return content_hash([[one.context, one.answers, one.right] for one in requests])


def bordered(request: Request) -> Request:
    """Moves white space from the end of a question to its answers, as lm-eval does; an answer
    without text stays empty."""
    context = request.context.rstrip()
    space = request.context[len(context) :]
    answers = tuple(space + one if one.strip() else "" for one in request.answers)
    return replace(request, context=context, answers=answers)
