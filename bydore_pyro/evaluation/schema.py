"""What the data of the paper's benchmarks hold: the columns of each, and which values these take.

lm-eval trusts its data. COPA's labels "0" and -1 both mean the second choice to it, and a label
that is no choice counts as a wrong answer: a file with other labels gets another score in silence.
So every value is checked before anything is scored.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bydore_pyro.utils import DataError

__all__ = ["COLUMNS", "Values", "check_rows"]

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values that a column may take.

    Args:
        text: Which they are, in words.
        hold: Says of a value and its row whether it is one of them. The columns named before it
            have been checked.
    """

    text: str
    hold: Callable[[Any, Row], bool]


def _one_of(*options: int | str) -> Values:
    """These and no others: neither 1.0 nor "1" stands for 1."""
    words = [f'"{option}"' if isinstance(option, str) else str(option) for option in options]
    return Values(
        text=f"{', '.join(words[:-1])} or {words[-1]}",
        hold=lambda value, row: any(type(value) is type(o) and value == o for o in options),
    )


def _is_texts(value: Any, least: int, most: int = 26) -> bool:
    """Whether a value is a list of `least` to `most` texts."""
    return (
        isinstance(value, list)
        and least <= len(value) <= most
        and all(isinstance(text, str) for text in value)
    )


def _is_listed(value: Any, row: Row) -> bool:
    """Whether a value holds choices as `text`, and what each is called as `label`."""
    return (
        isinstance(value, dict)
        and _is_texts(value.get("text"), 2)
        and _is_texts(value.get("label"), 2)
        and len(value["text"]) == len(value["label"])
    )


def _is_problems(value: Any, row: Row) -> bool:
    """Whether a value is RACE's list of problems, as text; lm-eval asks the last one."""
    try:
        problems = ast.literal_eval(value) if isinstance(value, str) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return (
        isinstance(problems, list)
        and len(problems) > 0
        and all(
            isinstance(problem, dict)
            and isinstance(problem.get("question"), str)
            and problem.get("answer") in ("A", "B", "C", "D")
            and _is_texts(problem.get("options"), "ABCD".index(problem["answer"]) + 1)
            for problem in problems
        )
        and len(problems[-1]["options"]) >= 4
    )


TEXT = Values(text="text", hold=lambda value, row: isinstance(value, str))
FILLED = Values(
    text="text, not empty", hold=lambda value, row: isinstance(value, str) and value != ""
)
BINARY = _one_of(0, 1)
LISTED = Values(text="`text` and `label`, lists of as many texts", hold=_is_listed)
KEY = Values(
    text="one of `choices.label`",
    hold=lambda value, row: isinstance(value, str) and value in row["choices"]["label"],
)

# By lm-eval's name of the task. Where lm-eval reads text and number alike, both are taken.
COLUMNS: Mapping[str, Mapping[str, Values]] = MappingProxyType(
    {
        "social_iqa": {
            **dict.fromkeys(("context", "question", "answerA", "answerB", "answerC"), TEXT),
            "label": _one_of("1", "2", "3", 1, 2, 3),
        },
        "hellaswag": {
            **dict.fromkeys(("activity_label", "ctx_a", "ctx_b"), TEXT),
            "endings": Values(
                text="a list of texts", hold=lambda value, row: _is_texts(value, 2, 10)
            ),
            "label": Values(
                text='the place of the right one in `endings`, from "0" or 0',
                hold=lambda value, row: (
                    type(value) in (int, str) and str(value) in map(str, range(len(row["endings"])))
                ),
            ),
        },
        "piqa": {"goal": TEXT, "sol1": TEXT, "sol2": TEXT, "label": BINARY},
        "openbookqa": {
            "question_stem": TEXT,
            "choices": LISTED,
            "answerKey": Values(
                text=KEY.text,
                hold=lambda value, row: isinstance(value, str) and KEY.hold(value.lstrip(), row),
            ),
        },
        "lambada_standard": {
            "text": Values(
                text="text whose last word, behind a space, is the answer",
                hold=lambda value, row: (
                    isinstance(value, str) and value.rpartition(" ")[2] != "" and " " in value
                ),
            ),
        },
        "sciq": dict.fromkeys(
            ("support", "question", "distractor1", "distractor2", "distractor3", "correct_answer"),
            TEXT,
        ),
        "arc_easy": {"question": TEXT, "choices": LISTED, "answerKey": KEY},
        "copa": {
            "premise": TEXT,
            "question": _one_of("cause", "effect"),
            "choice1": FILLED,
            "choice2": FILLED,
            "label": BINARY,
        },
        "race": {
            "article": TEXT,
            "problems": Values(
                text="the text of a list of `question`, `answer` (A to D) and four `options`; "
                "the last is asked",
                hold=_is_problems,
            ),
        },
        "logiqa": {
            "context": TEXT,
            "question": TEXT,
            "options": Values(
                text="a list of two to four texts", hold=lambda value, row: _is_texts(value, 2, 4)
            ),
            "label": Values(
                text='"a" to "d", the right one of `options`',
                hold=lambda value, row: (
                    isinstance(value, str) and value.strip() in list("abcd"[: len(row["options"])])
                ),
            ),
        },
        "qqp": {"question1": TEXT, "question2": TEXT, "label": BINARY},
        "winogrande": {
            "sentence": Values(
                text="text with a `_`",
                hold=lambda value, row: isinstance(value, str) and "_" in value,
            ),
            "option1": TEXT,
            "option2": TEXT,
            "answer": _one_of("1", "2"),
        },
        "multirc": {"paragraph": TEXT, "question": TEXT, "answer": TEXT, "label": BINARY},
    }
)


def check_rows(columns: Mapping[str, Values], rows: Iterable[tuple[str, Row]]) -> None:
    """Checks the values of rows.

    Args:
        columns: What they must have; further columns may hold anything.
        rows: Each behind the words that say where it stands.

    Raises:
        DataError: When a row lacks a column, or a value is none of the column's.
    """
    for place, row in rows:
        if not row.keys() >= columns.keys():
            raise DataError(
                f"Expected the columns {', '.join(columns)} in {place}, "
                f"found {', '.join(map(str, row))}"
            )
        for column, values in columns.items():
            if not values.hold(row[column], row):
                found = " ".join(repr(row[column]).split())[:100]
                raise DataError(f"Expected {column} = {values.text} in {place}, found {found}")
