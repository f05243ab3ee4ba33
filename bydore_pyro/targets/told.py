"""What a user reads of a target that is a task: its size, what is lost, what is trained on, noise.

References:
    OLMo 3 (arXiv 2512.13961) and olmix leave binary tasks out of their targets, because models in
    training change from one answer to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bydore_pyro import data
from bydore_pyro.errors import listed
from bydore_pyro.files import Number
from bydore_pyro.targets.request import Task
from bydore_pyro.targets.scored import Cuts, Scored

FEW_ANSWERS = 200
SHORT_ANSWER = 10  # bytes
FEW_NAMES = 5
SEVERAL = 5  # tasks; of more each has one line
BINARY = (
    "it has two possible answers. The loss is noisy, because models in training change from one "
    "answer to the other"
)
BLANK = "\n\n"  # between examples, in what lm-eval and OLMES render


@dataclass(frozen=True, kw_only=True)
class Told:
    """A task as a target.

    Attributes:
        source: Where it comes from and how it was read.
        score: "answer" or "choice".
        split: Of the benchmark; None where it is not known.
        shots: Examples before each question; None where it is not known.
        questions: That are scored.
        answer_bytes: Mean bytes of UTF-8 of the right answers.
        contexts_cut: Questions that lose their beginning, to fit in a sequence.
        answers_cut: Questions of which an answer loses its beginning.
        left_out: Rows that are not scored, by reason.
        compared: Questions that were compared with the training text; None where none was.
        read: Share of the training text with which they were compared.
        standing: Questions that stand in training text, by domain.
        standing_in_any: Questions that stand in one domain or more.
        dropped: Whether the training documents in which they stand are left out.
        requests_sha256: Of what is asked.
        cautions: What makes its loss noisy.
    """

    source: str = ""
    score: str = "answer"
    split: str | None = None
    shots: int | None = None
    questions: int = 0
    answer_bytes: Number = 0.0
    contexts_cut: int = 0
    answers_cut: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    compared: int | None = None
    read: Number = 1.0
    standing: Mapping[str, int] = field(default_factory=dict)
    standing_in_any: int = 0
    dropped: bool = False
    requests_sha256: str = ""
    cautions: tuple[str, ...] = ()


def told_of(
    task: Task,
    scored: Scored,
    cut: Cuts,
    overlap: data.Overlap | None = None,
    *,
    dropped: bool = False,
) -> Told:
    """Returns what a user is told of a task.

    Args:
        task: The questions as they were read.
        scored: The same as text.
        cut: What sequences lose of it.
        overlap: What it shares with the training text, under the task's name; None where they were
            not compared.
        dropped: Whether the training documents in which questions stand are left out.
    """
    size = _answer_bytes(scored.text)
    standing = {} if overlap is None else overlap.standing[task.name]
    by_size = sorted(standing.items(), key=lambda item: -int(item[1].sum()))
    return Told(
        source=task.source,
        score=task.score,
        split=task.split,
        shots=task.shots,
        questions=cut.questions,
        answer_bytes=size,
        contexts_cut=cut.contexts,
        answers_cut=cut.answers,
        left_out=dict(scored.left_out),
        compared=None if overlap is None else int(overlap.compared[task.name].sum()),
        read=1.0 if overlap is None else overlap.share,
        standing={domain: int(own.sum()) for domain, own in by_size},
        standing_in_any=int(np.any([*standing.values()], 0).sum()) if standing else 0,
        dropped=dropped,
        requests_sha256=scored.requests_sha256,
        cautions=tuple(_cautions(cut.questions, size, binary=_is_binary(task))),
    )


def _answer_bytes(text: data.Text) -> float:
    """Mean bytes of right answers."""
    if text.answers is None:
        raise ValueError("Expected a text with answers, actual plain text")
    sums = np.append(0, np.cumsum(text.answers.sizes))
    each = sums[text.ends] - sums[text.starts]
    right = text.answers.right
    return float(np.mean(each if right is None else each[right.astype(bool)]))


def _is_binary(task: Task) -> bool:
    """Whether all questions offer two answers, or the same two are right of all of them."""
    offered = {len(request.answers) for request in task.requests}
    if offered != {1}:
        return offered == {2}
    return len({request.answers[0].strip() for request in task.requests}) == 2 < len(task.requests)


def _cautions(questions: int, size: float, *, binary: bool) -> Iterable[str]:
    if questions < FEW_ANSWERS:
        yield (
            f"it has {questions} answers. The mean of fewer than {FEW_ANSWERS} is noisy: its "
            f"standard error is {questions**-0.5:.0%} of the standard deviation between answers"
        )
    if binary:
        yield BINARY
    if size < SHORT_ANSWER:
        yield (
            f"its answers have {size:.1f} bytes on average. With fewer than {SHORT_ANSWER} the "
            "loss is noisy, because it rests on a token or two of each answer"
        )


def lines_of_all(told: Mapping[str, Told]) -> list[str]:
    """Returns what a user reads of tasks: all of up to `SEVERAL`; of more a line each, and then
    what holds for several of them. Cautions begin with "warning"."""
    if len(told) <= SEVERAL:
        return [line for name, one in told.items() for line in lines_of(name, one)]
    lines = [_short_line(name, one) for name, one in told.items()]
    if any(one.contexts_cut or one.answers_cut for one in told.values()):
        lines.append("a larger --sequence_length keeps more of the questions that are cut")
    if any(one.standing and not one.dropped for one in told.values()):
        lines.append("--drop_copies leaves out the training documents that contain questions")
    noisy = {
        f"fewer than {FEW_ANSWERS} answers": [
            name for name, one in told.items() if one.questions < FEW_ANSWERS
        ],
        "two possible answers": [name for name, one in told.items() if BINARY in one.cautions],
        f"answers of fewer than {SHORT_ANSWER} bytes on average": [
            name for name, one in told.items() if one.answer_bytes < SHORT_ANSWER
        ],
    }
    for kind, names in noisy.items():
        if names:
            few = listed([f"'{name}'" for name in names], FEW_NAMES)
            lines.append(f"warning: the loss of targets with {kind} is noisy: {few}")
    return lines


def _short_line(name: str, told: Told) -> str:
    stand = f"{told.standing_in_any:,} also stand in training text"
    parts = [
        _size_of(told),
        *_cut(told),
        f"left out: {_left_out(told)}" * bool(told.left_out),
        (stand + ", left out of it" * told.dropped) * bool(told.standing_in_any),
    ]
    source = f" ({told.source})" * bool(told.source)
    return f"target '{name}': {'; '.join(filter(None, parts))}{source}"


def lines_of(name: str, told: Told) -> list[str]:
    """Returns what a user reads of a task, a line each; cautions begin with "warning"."""
    lines = [f"target '{name}': {_size_of(told)}" + (f" ({told.source})" * bool(told.source))]
    if losses := _cut(told):
        lines.append(
            f"target '{name}': {' and '.join(losses)}, to fit in a sequence; "
            "a larger --sequence_length keeps more"
        )
    if told.left_out:
        lines.append(f"target '{name}': left out: {_left_out(told)}")
    if told.compared is not None:
        lines.append(f"target '{name}': {_of_standing(told, told.compared)}")
    return [*lines, *(f"warning: target '{name}': {caution}" for caution in told.cautions)]


def _size_of(told: Told) -> str:
    """Returns in words how many questions of what kind a task has."""
    shots = None if told.shots is None else f"{told.shots} shot" + "s" * (told.shots != 1)
    split = None if told.split is None else f"split {told.split}"
    parts = [
        f"{told.questions:,} questions",
        *(part for part in (split, shots) if part),
        f"right answers of {told.answer_bytes:.1f} bytes on average",
        *(["scored by the share of the right choice"] if told.score == "choice" else []),
    ]
    return ", ".join(parts)


def _cut(told: Told) -> list[str]:
    """Returns in words what is lost to fit in a sequence."""
    found = [f"{told.contexts_cut:,} questions lose their beginning"] * bool(told.contexts_cut)
    return found + [f"{told.answers_cut:,} lose the beginning of an answer"] * bool(
        told.answers_cut
    )


def _left_out(told: Told) -> str:
    return listed([f"{n:,} {reason}" for reason, n in told.left_out.items()], FEW_NAMES)


def _of_standing(told: Told, compared: int) -> str:
    short = told.questions - compared
    of = f"{compared:,} questions" + (f" ({short:,} are too short to compare)" * bool(short))
    text = "the training text" if told.read == 1 else f"{told.read:.0%} of the training text"
    if not told.standing:
        return f"none of {of} also stands in {text}"
    places = [f"{count:,} in '{domain}'" for domain, count in told.standing.items()]
    line = f"{told.standing_in_any:,} of {of} also stand in {text}: "
    line += listed(places, FEW_NAMES)
    if told.dropped:
        return f"{line}; the training documents that contain them are left out"
    return f"{line}; --drop_copies leaves out the training documents that contain them"


def without_examples(task: Task) -> Task:
    """Returns a task without the examples before its questions, to compare it with other text:
    these are five of six parts of a context of five shots.

    In what lm-eval and OLMES render, a blank line ends each example. Of a context of ``p``
    paragraphs and ``k`` shots, the last ``p / (k + 1)`` are the question, rounded, one at least.
    """
    if not task.shots:
        return task
    requests = tuple(
        replace(one, context=_question_of(one.context, task.shots)) for one in task.requests
    )
    return replace(task, requests=requests)


def texts_of(task: Task) -> list[str]:
    """Returns each question with its first right answer, without the examples before it: what
    training text should not contain (`data.StandingIn`, `bydore prepare --without`)."""
    requests = without_examples(task).requests
    return [one.context + one.answers[one.right[0]] for one in requests]


def _question_of(context: str, shots: int) -> str:
    body = context.rstrip()
    parts = body.split(BLANK)
    own = max(1, round(len(parts) / (shots + 1)))
    return BLANK.join(parts[-own:]) + context[len(body) :]
