"""Rows of questions as people write them, recognised by the names of their columns.

Three renderings: text *as it stands*; a *chat*; and ``Question: ...``, ``Answer: ...`` with what
must be read before it above. Choices are rendered one by one, as answers, without their letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bydore_pyro import data
from bydore_pyro.errors import DataError, listed
from bydore_pyro.targets.chats import RENDERED, Turn, answers_in, is_chat, turns_of
from bydore_pyro.targets.labels import First, Question, is_hidden

Columns = Mapping[str, Any]  # of a row
Placed = list[tuple[str, Columns]]  # rows with their places
Read = Callable[[Columns], list[Question]]

QUESTIONS = ("question", "question_stem", "query", "goal", "ctx", "problem", "prompt")
CONTINUED = ("question_stem", "ctx", "prompt")  # no "Question:" before these
PASSAGES = ("passage", "context", "article", "support", "background", "story", "paragraph")
CHOICES = ("choices", "options", "endings", "candidates")
LABELS = (
    "answerKey",
    "answer_key",
    "label",
    "gold",
    "cop",
    "correct_option",
    "correct_choice",
    "correct_answer",
    "answer",
    "answer_index",
    "answer_idx",
    "gold_index",
    "correct",
    "target",
)
WITHIN = ("text", "value", "input_text", "spans")  # where mappings hold the right answers
SEVERAL = "the first of several right answers"
# One column a choice: `sol1` and `sol2`, `answerA`, `opa`, `A`.
EACH = re.compile(r"(?P<stem>option|choice|sol|answer|ending|candidate|op|)_?(?P<mark>[0-9A-Ha-h])")
CHOICE_RENDERED = "each choice as an answer, without its letter"
RENDERED_QUESTION = "rendered as 'Question: ... Answer: ...'"
AS_IT_STANDS = "as they stand"
OR_CHAT = f"{AS_IT_STANDS}; messages, if any, {RENDERED}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How rows hold questions.

    Attributes:
        what: It, in words.
        keys: The columns by which it is recognised.
        further: Those that may stand beside them.
        read: Returns the questions of a row; none of one whose right answer is not known.
        first: What the first of the choices is called where labels are numbers, if that is known.
    """

    what: str
    keys: tuple[str, ...]
    read: Read
    further: tuple[str, ...] = ()
    first: First | None = None


def layouts_of(columns: Iterable[str]) -> list[Layout]:
    """Returns how rows with these columns can be read: none where they hold plain text, several
    where a file is both."""
    known = set(columns)
    fitting = [one for one in (*PAIRS, *_asked(known)) if known.issuperset(one.keys)]
    if not fitting and known.issuperset(QUESTION_AND_TEXT.keys):
        return [QUESTION_AND_TEXT]
    covers = [{*one.keys, *one.further} for one in fitting]
    return [
        one
        for one in fitting
        if not any(
            other is not one and set(one.keys) < covered and not set(other.keys) < set(one.keys)
            for other, covered in zip(fitting, covers, strict=True)
        )
    ]


def of_columns(prompt: str | None, answer: str) -> Layout:
    """Returns the layout of columns that options name; a column of a chat needs no prompt."""

    def read(row: Columns) -> list[Question]:
        found = data.column_of(row, answer, "answer_column")
        if prompt is None and is_chat(found):
            return _chat(answer, row)
        if prompt is None:
            raise DataError(
                f"Expected messages in column '{answer}' without a prompt_column, found "
                f"{type(found).__name__}"
            )
        asked = data.column_of(row, prompt, "prompt_column")
        return _pair({prompt: asked, answer: found}, prompt, answer, " ")

    keys = (answer,) if prompt is None else (prompt, answer)
    what = f"{_named(keys)} {OR_CHAT}, a space between texts without one"
    return Layout(what=what, keys=keys, read=read)


def of_choices(prompt: str, answer: str, columns: Iterable[str]) -> Layout | None:
    """Returns the layout of columns that options name beside columns of choices, of which the
    answer says which is right; None where there are no choices.

    Args:
        prompt: Column of what stands before the choices, as it stands.
        answer: Column of the label.
        columns: Of the rows.
    """
    each = next(iter(_choice_columns({*columns} - {prompt, answer})), None)
    if each is None:
        return None

    def read(row: Columns) -> list[Question]:
        context = text(data.column_of(row, prompt, "prompt_column"), prompt)
        return _offered(row, context, each, data.column_of(row, answer, "answer_column"))

    keys = (prompt, *each, answer)
    return Layout(what=f"{_named(keys)} ({CHOICE_RENDERED})", keys=keys, read=read)


def _named(keys: Sequence[str]) -> str:
    *before, last = (f"'{key}'" for key in keys)
    return f"the columns {', '.join(before)} and {last}" if before else f"the column {last}"


def _chat(column: str, row: Columns) -> list[Question]:
    return [Question((one,), (0,)) for one in answers_in(turns_of(row[column], column))]


def _pair(row: Columns, prompt: str, answer: str, between: str = "") -> list[Question]:
    """A prompt and what completes it: texts as they stand, or messages.

    Where neither has white space at the border, `between` is put there.
    """
    asked, found, note = row[prompt], row[answer], ""
    if not is_chat(found):
        found, note = _first_of(found)
    if found is None or row.get("label") is False:  # TRL's mark of a bad completion
        return []
    if is_chat(asked) or is_chat(found):
        before = turns_of(asked, prompt) if is_chat(asked) else [Turn("user", text(asked, prompt))]
        behind = (
            turns_of(found, answer) if is_chat(found) else [Turn("assistant", text(found, answer))]
        )
        return [Question((one,), (0,)) for one in answers_in([*before, *behind], len(before))]
    asked, found = text(asked, prompt), text(found, answer)
    touch = asked[-1:].strip() and found[:1].strip()
    return [Question(((asked, between + found if touch else found),), (0,), note=note)]


def _instruction(
    row: Columns, asked: Sequence[str], answer: str, system: str = ""
) -> list[Question]:
    """A chat of one turn, of an instruction, what it is about, and the response."""
    if row[answer] is None:
        return []
    parts = [text(row[name], name) for name in asked if row.get(name)]
    turns = [Turn("user", "\n\n".join(parts)), Turn("assistant", text(row[answer], answer))]
    if row.get(system):
        turns.insert(0, Turn("system", text(row[system], system)))
    return [Question((one,), (0,)) for one in answers_in(turns)]


def _code(row: Columns, asked: str) -> list[Question]:
    """What a function does, the tests that it must pass, and its code."""
    tests = row["test_list"] if isinstance(row["test_list"], list) else [row["test_list"]]
    lines = [text(row[asked], asked), *(text(one, "test_list") for one in tests)]
    return [Question((("".join(f"{one}\n" for one in lines), text(row["code"], "code")),), (0,))]


def asked(question: str, passage: str = "") -> str:
    """Returns a question as it is rendered, without its answer."""
    return f"{passage.strip()}\nQuestion: {question}\nAnswer:".lstrip()


def text(value: Any, column: str) -> str:
    """Returns a value of a column as text; a number as it is written.

    Raises:
        DataError: When it is something else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise DataError(f"Expected text or a number in column '{column}', found {value}")
        value = str(value)
    return data.checked_text(value, column)


def _about(row: Columns) -> str:
    """What a row wants to be read before its question."""
    return "\n".join(text(row[name], name) for name in PASSAGES if row.get(name))


def _answered(row: Columns, question: str, answer: str) -> list[Question]:
    """A question with its answer: text, several right ones, or yes and no."""
    context = asked(text(row[question], question), _about(row))
    found, note = _first_of(row[answer])
    if found is None:
        return []
    if isinstance(found, bool) or (answer == "answer" and "passage" in row and _truth(found)):
        return _yes_no(context, found if isinstance(found, bool) else _truth(found) == "true")
    return [Question(((context, f" {text(found, answer).lstrip()}"),), (0,), note=note)]


def _first_of(found: Any) -> tuple[Any, str]:
    """A right answer, of several the first, which a note says; None where there is none."""
    within = [key for key in WITHIN if isinstance(found, Mapping) and key in found]
    found = found[within[0]] if within else found
    if not isinstance(found, list):
        return found, ""
    return (found[0] if found else None), SEVERAL if len(found) > 1 else ""


def _truth(value: Any) -> str:
    lower = value.strip().lower() if isinstance(value, str) else ""
    return lower if lower in ("true", "false") else ""


def _yes_no(context: str, right: Any) -> list[Question]:
    offered = ((context, " no"), (context, " yes"))
    return [] if is_hidden(right) else [Question(offered, label=int(right))]


def _judged(row: Columns) -> list[Question]:
    """BoolQ as SuperGLUE has it: a label in place of the answer."""
    context = asked(text(row["question"], "question"), _about(row))
    return _yes_no(context, row["label"])


def _between(row: Columns) -> list[Question]:
    """WinoGrande: what fills the gap of a sentence is read, what follows is scored."""
    before, gap, behind = text(row["sentence"], "sentence").partition("_")
    if not gap:
        raise DataError(f"Expected a gap '_' in column 'sentence', found {before!r:.60}")
    options = [text(row[name], name) for name in ("option1", "option2")]
    if is_hidden(row["answer"]):
        return []
    offered = tuple((before + option, behind) for option in options)
    return [Question(offered, label=row["answer"], choices=tuple(options))]


def _distracted(row: Columns) -> list[Question]:
    """SciQ: the right answer and wrong ones, each in its column."""
    context = asked(text(row["question"], "question"), _about(row))
    names = ("distractor1", "distractor2", "distractor3", "correct_answer")
    if not row["correct_answer"]:
        return []
    return [Question(tuple((context, f" {text(row[n], n)}") for n in names), (3,))]


def _chosen(row: Columns, question: str, columns: Sequence[str], label: str) -> list[Question]:
    """A question with choices, in one column or in a column each."""
    return _offered(row, _context(row, question), columns, row[label], plain=question != "ctx")


def _offered(
    row: Columns, context: str, columns: Sequence[str], label: Any, *, plain: bool = True
) -> list[Question]:
    """The choices of a row behind a context; unless they are plain, with WikiHow's headings."""
    if is_hidden(label):
        return []
    choices, marks = _choices(row, columns)
    texts = [text(one, columns[0]) for one in choices]
    texts = [one.lstrip() if plain else _without_headings(one) for one in texts]
    offered = tuple((context, f" {one}") for one in texts)
    return [Question(offered, label=label, choices=tuple(choices), marks=marks)]


def _context(row: Columns, question: str) -> str:
    found = text(row[question], question)
    if question == "ctx" and row.get("activity_label"):
        return f"{row['activity_label']}: {_without_headings(found)}"
    about = _about(row)
    if question in CONTINUED:
        return f"{about}\n{found}".lstrip()
    return asked(found, about)


def _without_headings(found: str) -> str:
    """A text of HellaSwag without what WikiHow's editor put into brackets."""
    return re.sub(" {2,}", " ", re.sub(r"\[\w+\]", "", found.replace(" [title]", "."))).strip()


def _choices(row: Columns, columns: Sequence[str]) -> tuple[list[Any], tuple[str, ...]]:
    """The choices of a row, as it writes them, and their marks."""
    if missing := [name for name in columns if name not in row]:
        raise DataError(f"Expected a column '{missing[0]}', found {listed(map(str, row), 8)}")
    found = row[columns[0]]
    texts: Any = found
    marks: Any = []
    if len(columns) > 1:
        given = list(columns)
        while given and row[given[-1]] in (None, ""):  # the last are empty where choices are fewer
            given.pop()
        texts = [row[name] for name in given]
        marks = [match["mark"] for name in given if (match := EACH.fullmatch(name))]
        marks = marks if "".join(marks).isalpha() else []
    elif isinstance(found, Mapping) and "text" in found:
        texts, marks = found["text"], found.get("label")
    elif isinstance(found, Mapping):
        marks = [key for key, value in found.items() if value is not None]
        texts = [found[key] for key in marks]
    elif isinstance(found, list) and found and all(isinstance(one, Mapping) for one in found):
        texts = [one.get("text") for one in found]
        marks = [one["label"] for one in found if one.get("label") is not None]
    if not isinstance(texts, list) or len(texts) < 2:
        shown = f"{len(texts)} of them" if isinstance(texts, list) else type(texts).__name__
        raise DataError(
            f"Expected a list of two or more choices in column '{columns[0]}', found {shown}"
        )
    one_each = isinstance(marks, list) and len(marks) == len(texts)
    return texts, tuple(map(str, marks)) if one_each else ()


def _asked(columns: set[str]) -> list[Layout]:
    """The layouts of questions with choices, by what their columns are called."""
    label = next((name for name in LABELS if name in columns), None)
    question = next((name for name in QUESTIONS if name in columns), None)
    if label is None or question is None or "premise" in columns:
        return []
    return [
        Layout(
            what=f"{_named((question, *each, label))} ({CHOICE_RENDERED})",
            keys=(question, *each, label),
            further=(*LABELS, *PASSAGES, *QUESTIONS, "solution"),
            read=partial(_chosen, question=question, columns=each, label=label),
            first=_first({question, *each, label} | (columns & {"subject"})),
        )
        for each in _choice_columns(columns - {label})
    ]


def _choice_columns(columns: set[str]) -> list[tuple[str, ...]]:
    """The columns that hold choices: one of all, or one each."""
    offered: list[tuple[str, ...]] = [(name,) for name in CHOICES if name in columns]
    stems: dict[str, list[str]] = {}
    for name in sorted(columns):
        if match := EACH.fullmatch(name):
            stems.setdefault(match["stem"], []).append(name)
    for names in stems.values():
        marks = [match["mark"] for name in names if (match := EACH.fullmatch(name))]
        begun = next(
            (
                one
                for one in ("0123456789", "123456789", "ABCDEFGH", "abcdefgh")
                if marks == [*one[: len(marks)]]
            ),
            None,
        )
        if len(names) > 1 and begun:
            offered.append(tuple(names))
    return offered


# Benchmarks whose labels are known to be numbers from 0 or 1.
KNOWN: tuple[tuple[set[str], First], ...] = (
    ({"question", "subject", "choices", "answer"}, 0),  # MMLU
    ({"ctx", "endings", "label"}, 0),  # HellaSwag
    ({"goal", "sol1", "sol2", "label"}, 0),  # PIQA
    ({"question", "answerA", "answerB", "answerC", "label"}, 1),  # Social IQA
)


def _first(columns: set[str]) -> First | None:
    return next((first for known, first in KNOWN if known == columns), None)


def _pairs() -> list[Layout]:
    found = []
    for prompt, answer in (
        ("prompt", "completion"),
        ("context", "continuation"),
        ("prompt", "canonical_solution"),
    ):
        keys, read = (prompt, answer), partial(_pair, prompt=prompt, answer=answer)
        found.append(Layout(what=f"{_named(keys)} {OR_CHAT}", keys=keys, read=read))
    for column in ("messages", "conversations"):
        what = f"the assistant's turns of '{column}' ({RENDERED})"
        found.append(Layout(what=what, keys=(column,), read=partial(_chat, column)))
    for instruction, answer, system, *inputs in (
        ("instruction", "output", "system", "input", "context"),
        ("instruction", "response", "system", "input", "context"),
        ("prompt", "response", "system"),
        ("query", "response", "system"),
        ("question", "response", "system_prompt"),
        ("input", "output", "system"),
        ("inputs", "targets", "system"),
    ):
        found.append(
            Layout(
                what=f"{_named((instruction, answer))} as a chat ({RENDERED})",
                keys=(instruction, answer),
                further=(*inputs, system),
                read=partial(
                    _instruction, asked=(instruction, *inputs), answer=answer, system=system
                ),
            )
        )
    for question, answer in (
        ("question", "answer"),
        ("question", "answers"),
        ("question", "solution"),
        ("problem", "solution"),
    ):
        further = () if answer == "answers" else ("answer",)
        found.append(
            Layout(
                what=f"{_named((question, answer))} ({RENDERED_QUESTION})",
                keys=(question, answer),
                further=(*further, *PASSAGES),
                read=partial(_answered, question=question, answer=answer),
                first=0,
            )
        )
    found += [
        Layout(
            what=f"the columns '{prompt}', 'test_list' and 'code' {AS_IT_STANDS}",
            keys=(prompt, "code", "test_list"),
            read=partial(_code, asked=prompt),
        )
        for prompt in ("text", "prompt")
    ]
    return found


PAIRS = (
    *_pairs(),
    Layout(
        what=f"{_named(('question', 'passage', 'label'))} ({RENDERED_QUESTION}), yes or no",
        keys=("question", "passage", "label"),
        read=_judged,
        first=0,
    ),
    Layout(
        what="the columns 'sentence', 'option1', 'option2' and 'answer'; what follows is scored",
        keys=("sentence", "option1", "option2", "answer"),
        read=_between,
        first=1,
    ),
    Layout(
        what="the columns 'question', 'correct_answer' and 'distractor1' to 'distractor3' "
        f"({CHOICE_RENDERED})",
        keys=("question", "correct_answer", "distractor1", "distractor2", "distractor3"),
        further=("support",),
        read=_distracted,
    ),
)
# Only where nothing else answers the question.
QUESTION_AND_TEXT = Layout(
    what=f"{_named(('question', 'text'))} ({RENDERED_QUESTION})",
    keys=("question", "text"),
    read=partial(_answered, question="question", answer="text"),
)
