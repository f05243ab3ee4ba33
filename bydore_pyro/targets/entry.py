"""What an entry of ``--validation`` says: a domain, a file or a task, and how much it counts.

As text, options behind a comma belong to that entry alone::

    NAME                NAME=.3
    FILE                FILE=.3                   FILE,prompt_column=q,answer_column=a=.3
    task:NAME           task:NAME,shots=5=.2      task:NAME,score=choice

A share stands at the end, behind the last "=". A file of YAML, or one of JSON that begins with
``{"targets"``, lists entries by name; paths start from its folder::

    targets:
      arc:   {file: arc.jsonl, share: .3, score: choice}
      gsm:   {file: gsm8k.jsonl, prompt_column: question, answer_column: answer}
      code:  {task: mbpp, shots: 3}
      docs:  {share: .2}              # a domain of the data
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bydore_pyro import data
from bydore_pyro.errors import DataError, listed, one_line
from bydore_pyro.files import yaml_or_json
from bydore_pyro.targets.labels import First
from bydore_pyro.targets.request import Score
from bydore_pyro.targets.rows import Columns, task_name

TASK = "task:"  # before the name of a task of lm-eval
OF_FILES = ("text_column", "prompt_column", "answer_column", "labels_from")
OPTIONS = ("name", *OF_FILES, "shots", "score")
LISTED = ("file", "task", "share")  # further keys of an entry in a list
LISTS = (".yaml", ".yml")  # endings of lists
OPTION = re.compile(r",(\w+)=")
SCORES: tuple[Score, ...] = ("answer", "choice")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A target as it is named.

    Attributes:
        name: Of the target; the domain's where neither a file nor a task is named.
        share: How much it counts, above 0.
        file: That holds it, as it was named.
        task: Of lm-eval, or a group of tasks.
        text_column: Of the file's plain text.
        prompt_column: Of what stands before the answers.
        answer_column: Of the answers.
        labels_from: What the first choice is called where labels are numbers.
        shots: Examples before each question of the task; 0 where None.
        score: What is scored.

    Raises:
        ValueError: When two of them do not go together, or a value cannot be.
    """

    name: str
    share: float = 1.0
    file: str | None = None
    task: str | None = None
    text_column: str | None = None
    prompt_column: str | None = None
    answer_column: str | None = None
    labels_from: First | None = None
    shots: int | None = None
    score: Score = "answer"

    def __post_init__(self) -> None:
        data.check_name(self.name)
        where = f"the target '{self.name}'"
        if not 0 < self.share <= sys.float_info.max:
            raise ValueError(f"Expected a share above 0 for {where}, found {self.share}")
        if self.task == "":
            raise ValueError(f"Expected the name of a task for {where}, found none")
        if self.file and self.task:
            raise ValueError(f"Expected a file or a task for {where}, found both")
        if self.score not in SCORES:
            raise ValueError(
                f"Expected score=answer or score=choice for {where}, found {self.score}"
            )
        if self.labels_from not in (None, 0, 1):
            raise ValueError(f"Expected labels_from=0 or 1 for {where}, found {self.labels_from}")
        if self.shots is not None and self.shots < 0:
            raise ValueError(f"Expected shots >= 0 for {where}, found {self.shots}")
        of_rows = bool(self.file) and data.is_row_file(Path(self.file or ""))
        needed = {
            "a file of rows": (not of_rows, OF_FILES),
            "a task": (not self.task, ("shots",)),
            "a file of rows or a task": (not (of_rows or self.task), ("score",)),
        }
        for what, (missing, options) in needed.items():
            given = [o for o in options if getattr(self, o) != _DEFAULTS[o]]
            if missing and given:
                raise ValueError(f"Expected {what} with {given[0]}, found {where} without")
        if self.text_column and self.score == "choice":
            raise ValueError(f"Expected text_column or score=choice for {where}, found both")
        _ = self.columns

    @property
    def columns(self) -> Columns:
        """The columns of the file, as `read_task` takes them."""
        return Columns(
            text=self.text_column,
            prompt=self.prompt_column,
            answer=self.answer_column,
            labels_from=self.labels_from,
        )

    @classmethod
    def of(cls, entry: str) -> Self:
        """Reads an entry that is no list.

        Raises:
            ValueError: When it names no target, an option that there is not, or no number as share.
        """
        target, options, share = _parts(entry)
        if (target, share) != (entry, 1.0) and Path(target).suffix in LISTS:
            raise ValueError(
                f"Expected a list of targets without options and share, which stand in it, found "
                f"'{entry}'"
            )
        given: dict[str, Any] = {"share": share}
        for key, value in options:
            if key not in OPTIONS:
                raise ValueError(
                    f"Expected options of a target ({', '.join(OPTIONS)}), found '{key}' in "
                    f"'{entry}'"
                )
            if key in given or not value:
                found = "it twice" if key in given else "nothing"
                raise ValueError(f"Expected a value for {key}, found {found} in '{entry}'")
            given[key] = _number(value, key, entry) if key in ("shots", "labels_from") else value
        if target.startswith(TASK):
            given |= {"task": target.removeprefix(TASK)}
            if not given["task"]:
                raise ValueError(f"Expected a name after {TASK}, found none in '{entry}'")
        elif _is_file(target):
            given |= {"file": target}
        elif "name" in given:
            raise ValueError(f"Expected a file or a task with a name, found '{entry}'")
        return cls(**{"name": _name_of(target), **given})

    def __str__(self) -> str:
        """The entry as `of` reads it."""
        target = self.file or (f"{TASK}{self.task}" if self.task else self.name)
        given = [
            f",{key}={getattr(self, key)}"
            for key in OPTIONS
            if getattr(self, key) != (_name_of(target) if key == "name" else _DEFAULTS[key])
        ]
        text = target + "".join(given)
        # A column's name may hold "=", behind which a share is looked for.
        held = "=" in (given[-1].partition("=")[2] if given else "")
        share = repr(float(self.share)).removesuffix(".0")
        return text if self.share == 1 and not held else f"{text}={share}"

    def anywhere(self) -> Self:
        """Returns an entry whose file is found from any working directory."""
        if self.file is None:
            return self
        path = self.file if data.is_remote(self.file) else str(Path(self.file).absolute())
        return dataclasses.replace(self, file=path)


_DEFAULTS = {each.name: each.default for each in dataclasses.fields(Entry)}


def entries_of(text: str) -> list[Entry]:
    """Returns what an entry of ``--validation`` names: one target, or those of a list in a file.

    Raises:
        DataError: When the list cannot be read.
        ValueError: When a target of it, or the entry, says what cannot be.
    """
    path = Path(text)
    if not _is_list(path):
        return [Entry.of(text)]
    try:
        content = yaml_or_json(path.read_text("utf-8"))
    except DataError as error:
        raise DataError(f"{error} in {path}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"Expected a list of targets, found {path}: {one_line(error)}") from None
    targets = content.get("targets") if isinstance(content, Mapping) else None
    if not isinstance(targets, Mapping) or not targets or len(content) > 1:
        found = listed(map(str, content), 5) if isinstance(content, Mapping) else "no mapping"
        advice = ""
        if isinstance(content, Mapping) and "domains" in content:
            advice = (
                " (a list of domains belongs to --data; here each would be NAME: {file: FILE, "
                "text_column: COLUMN})"
            )
        raise DataError(f"Expected 'targets:' with names, found {found}{advice} in {path}")
    return [_listed(name, given, path) for name, given in targets.items()]


def _listed(name: Any, given: Any, path: Path) -> Entry:
    """A target of a list."""
    given = {} if given is None else given
    allowed = (*LISTED, *(one for one in OPTIONS if one != "name"))
    if not isinstance(name, str) or not isinstance(given, Mapping) or set(given) - {*allowed}:
        found = listed(map(str, given), 8) if isinstance(given, Mapping) else repr(given)
        raise DataError(
            f"Expected a name in words with some of {', '.join(allowed)}, found {found} for "
            f"{name!r:.60} in {path}"
        )
    for key, value in given.items():
        number = key in ("share", "shots", "labels_from")
        kind: Any = (int, float) if key == "share" else int if number else str
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DataError(
                f"Expected {'a number' if number else 'text'} as {key} of '{name}', found "
                f"{value!r:.60} in {path}"
            )
    own = dict(given)
    if "file" not in own and "task" not in own and (_is_file(name) or name.startswith(TASK)):
        raise DataError(
            f"Expected file: or task: in the target '{name}', which is no name of a domain, in "
            f"{path}"
        )
    if (file := own.get("file")) is not None:
        if not _is_file(file):
            raise DataError(
                f"Expected a file of rows or of text (.txt) for '{name}', found {file} in {path}"
            )
        own["file"] = file if data.is_remote(file) else str(path.parent / file)
    try:
        entry = Entry(**{"name": name, **own})
        again = Entry.of(str(entry))
    except ValueError as error:
        raise DataError(f"{error} in {path}") from None
    if again != entry:
        raise DataError(f"Expected no ',WORD=' in what names a target, found {entry} in {path}")
    return entry


def _parts(entry: str) -> tuple[str, list[tuple[str, str]], float]:
    """The target of an entry, its options and its share."""
    for found in OPTION.finditer(entry):
        target = entry[: found.start()]
        if _is_file(target) or target.startswith(TASK) or found[1] in OPTIONS:
            _, *pieces = OPTION.split(entry[found.start() :])
            last, share = _shared(pieces[-1], entry)
            return target, list(zip(pieces[::2], [*pieces[1:-1:2], last], strict=True)), share
    target, share = (entry, 1.0) if _is_file(entry) else _shared(entry, entry)
    return target, [], share


def _shared(text: str, entry: str) -> tuple[str, float]:
    """What stands before the share at the end of a text, and the share; 1 without any."""
    if "=" not in text:
        return text, 1.0
    text, _, share = text.rpartition("=")
    try:
        value = float(share)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"Expected a share above 0 behind the last '=', found '{entry}'")
    return text, value


def _name_of(target: str) -> str:
    """What a target is called that is not named otherwise."""
    if target.startswith(TASK):
        return target.removeprefix(TASK)
    return task_name(target) if _is_file(target) else target


def _number(value: str, key: str, entry: str) -> int:
    if not re.fullmatch(r"\d{1,4}", value):
        raise ValueError(f"Expected a whole number as {key}, found {value!r:.60} in '{entry}'")
    return int(value)


def _is_file(target: str) -> bool:
    """Whether a target names a file of rows or of text."""
    return data.name_of_validation_file(target) is not None


def _is_list(path: Path) -> bool:
    """Whether a file lists targets: of YAML, or of JSON that begins so."""
    if path.suffix in LISTS:
        return True
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return re.match(rb'\s*\{\s*"targets"', file.read(100)) is not None
