"""Which choice a label means: a letter, the choice's own mark or text, or a number from 0 or 1.

A label can often be read in several ways. A reading counts if it fits the whole file; where two
fit and disagree, the file is refused.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bydore_pyro.errors import DataError

#: What the first of the choices is called, where labels are numbers.
First = Literal[0, 1]
HIDDEN = ("", "-1", "?")  # what benchmarks write where they withhold the right answer
LETTER = re.compile(r"\(?([A-Za-z])[).:]?")


@dataclass(frozen=True, slots=True)
class Question:
    """A question as a row holds it.

    Attributes:
        offered: The context and the text of each choice, or of the right answer alone; none where
            the right answer is not known.
        right: Places of the right ones; None where the label says it.
        label: As the row holds it.
        choices: As the row writes them.
        marks: What the row calls each of them, such as "A"; none where it does not.
        note: How it was read where there is another way, in words.
    """

    offered: tuple[tuple[str, str], ...]
    right: tuple[int, ...] | None = None
    label: Any = None
    choices: tuple[Any, ...] = ()
    marks: tuple[str, ...] = ()
    note: str = ""


Reading = Callable[[Question, Any], int | None]


def _by_mark(question: Question, label: Any) -> int | None:
    plain = _plain(label)
    return question.marks.index(plain) if plain in question.marks else None


def _by_letter(question: Question, label: Any) -> int | None:
    letter = LETTER.fullmatch(_plain(label))
    place = string.ascii_uppercase.index(letter[1].upper()) if letter else len(question.offered)
    return place if place < len(question.offered) else None


def _by_text(question: Question, label: Any) -> int | None:
    # A number is the text of a choice only where choices are numbers too.
    alike = [
        isinstance(choice, str) == isinstance(label, str) and _plain(choice) == _plain(label)
        for choice in question.choices
    ]
    return alike.index(True) if any(alike) else None


def _from(first: int) -> Reading:
    def read(question: Question, label: Any) -> int | None:
        number = re.fullmatch(r"(\d{1,3})(\.0)?", _plain(label))
        place = int(number[1]) - first if number else -1
        return place if 0 <= place < len(question.offered) else None

    return read


#: By what they are called in messages, the surest first.
READINGS: dict[str, Reading] = {
    "a choice's own label": _by_mark,
    "a letter": _by_letter,
    "a choice's text": _by_text,
    "a number from 0": _from(0),
    "a number from 1": _from(1),
}
NUMBERS = list(READINGS)[3:]


def is_hidden(label: Any) -> bool:
    """Whether a label says that the right answer is withheld, as in test splits."""
    return (
        label is None
        or label == []
        or (not isinstance(label, list | dict) and _plain(label) in HIDDEN)
    )


def means_a_choice(question: Question) -> bool:
    """Whether a question's label can be read at all."""
    return any(_places(question, reading) is not None for reading in READINGS.values())


def right_answers(
    questions: Sequence[tuple[str, Question]], first: First | None
) -> tuple[list[tuple[int, ...]], str]:
    """Returns the places of the right choices of each question, and how labels were read, in words.

    Args:
        questions: Each with its place in the file, and a label.
        first: What the first choice is called where labels are numbers; None where it is not known.

    Raises:
        DataError: When a label means no choice, or labels can be read in two ways.
    """
    wanted = [n for n in READINGS if n not in NUMBERS or first in (None, NUMBERS.index(n))]
    fitting: dict[str, list[tuple[int, ...]]] = {name: [] for name in wanted}
    for place, question in questions:
        read = {name: _places(question, READINGS[name]) for name in fitting}
        fitting = {n: [*found, read[n]] for n, found in fitting.items() if read[n] is not None}  # type: ignore[list-item]
        if not fitting:
            raise DataError(
                f"Expected a label that means one of {len(question.offered)} choices ("
                f"{', '.join(wanted)}, the same in all rows), found {question.label!r:.60}, {place}"
            )
    how, right = next(iter(fitting.items()))
    if how in NUMBERS or how == "a choice's text":
        for other, differing in fitting.items():
            for (place, question), one, two in zip(questions, right, differing, strict=True):
                if one != two:
                    raise DataError(
                        f"Expected labels that can be read in one way, found {question.label!r:.60}"
                        f", which is {how} or {other} (labels_from=0 or labels_from=1 says what "
                        f"the first choice is called; letters are never in doubt), {place}"
                    )
    return right, how


def _plain(label: Any) -> str:
    """A label as text; nothing that a label means where it is no plain value."""
    if isinstance(label, bool):
        return str(int(label))
    return str(label).strip() if isinstance(label, str | int | float) else "?"


def _places(question: Question, reading: Reading) -> tuple[int, ...] | None:
    """What a reading makes of a label, or of a list of them; None where it does not fit, as a list
    that says of each choice whether it is right."""
    labels = question.label if isinstance(question.label, list) else [question.label]
    found = []
    for label in labels:
        place = reading(question, label)
        if place is None:
            return None
        found.append(place)
    in_doubt = len(found) > 1 and len(found) == len(question.offered) and _are_flags(labels)
    return None if in_doubt else tuple(dict.fromkeys(found))


def _are_flags(labels: list[Any]) -> bool:
    """Whether labels may say of each choice whether it is right."""
    return all(_plain(label) in ("0", "1", "0.0", "1.0") for label in labels)
