"""Which files are the sides of a split, by names beside each other: ``train`` and ``validation``.

A name alone says little: `eval.py` is a program, `dev/` a folder of sources, `test.txt` a note. It
names a side only where a ``train`` stands beside it, in the same folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from bydore_pyro.data.kinds import COMPRESSED, is_notice, is_row_file

Word = Literal["train", "validation", "test"]
WORDS: dict[Word, str] = {
    "train": r"train(ing|val)?",
    "validation": r"valid(ation)?|val|dev(el|elopment)?|eval(uation)?|(held|hold)[-_. ]?out",
    "test": r"(dev)?test(s|ing)?",
}
# A word of a name: between its ends, dots, hyphens and underscores; ``val2017``, ``devset``.
NAMED = re.compile(
    r"(?:^|(?<=[-_.]))(?:"
    + "|".join(f"(?P<{word}>{pattern})" for word, pattern in WORDS.items())
    + r")(?:[-_]?(?:set|split|data))?\d*(?=[-_.]|$)",
    re.IGNORECASE,
)
NUMBERS = re.compile(r"\d+|(?<![a-z])of(?![a-z])", re.IGNORECASE)  # of parts of a file
# Endings of files that are cut into splits, beside those of rows: a `train.py` is a program.
PLAIN = ("", ".txt", ".text", ".raw", ".tok", ".tokens", ".bpe")


#: What is said of files that are called so.
CALLED = "read as the rest of the domain (called like a held-out split, no train beside it)"


class Named(NamedTuple):
    """What the names of a file and of the folders above it say.

    Attributes:
        side: Of the split; None where no name decides.
        levels: The parts of the path that name a side, counted from 0.
        called: Of rows or plain text, a name of held-out text that does not decide, or None.
    """

    side: Word | None = None
    levels: tuple[int, ...] = ()
    called: str | None = None


def word_of(name: str) -> Word | None:
    """Returns the side of a split that a name of a file or folder holds, the first of several:
    ``validation_matched.jsonl``, ``wiki.valid``, ``law-test-00000-of-00001.parquet``."""
    found = NAMED.search(name)
    word: Word | None = found.lastgroup if found else None  # type: ignore[assignment]
    return word


def without_word(name: str) -> str:
    """Returns a name without its words for sides, and without what divides them from the rest."""
    return NAMED.sub("", name).strip("-_.")


def is_text(file: Sequence[str]) -> bool:
    """Whether a file is of a kind of text that is cut into splits: rows and plain text."""
    path = Path(file[-1])
    if is_row_file(path):
        return True
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    ending = path.suffix.lower()
    return ending in PLAIN or ending[1:2].isdigit() or word_of(ending) is not None


def named_sides(
    paths: Iterable[Sequence[str]], is_data: Callable[[Sequence[str]], bool] = is_text
) -> list[Named]:
    """Returns what names say of the sides of files.

    A word for held-out text decides where a ``train`` stands in the same folder. Files of data, and
    folders of such files, name sides; other folders only if nothing else lies beside them, and
    other files never, so that a tree of programs is not taken for a split. The topmost name for
    held-out text decides, also below a ``train``.

    Args:
        paths: The parts of each file's path below the folder that holds them all.
        is_data: Whether a file is of a kind that is cut into splits, by the parts of its path.
    """
    files = [tuple(path) for path in paths]
    beside: dict[tuple[str, ...], dict[str, list[tuple[str, ...]]]] = defaultdict(dict)
    for file in files:
        for level, part in enumerate(file):
            beside[file[:level]].setdefault(part, []).append(file)
    data = {file for file in files if file and is_data(file)}
    named = {folder: _words(len(folder), inside, data) for folder, inside in beside.items()}
    return [_named(file, named, file in data) for file in files]


def _words(
    depth: int, inside: Mapping[str, Sequence[tuple[str, ...]]], data: Collection[tuple[str, ...]]
) -> dict[str, Word]:
    """The sides that the names in a folder decide; none where none of them is ``train``."""
    words = {name: word for name in inside if (word := word_of(name))}
    alone = all(name in words or is_notice(Path(name)) for name in inside)
    found = {}
    for name, word in words.items():
        files = inside[name]
        is_folder = any(len(file) > depth + 1 for file in files)
        if 2 * sum(file in data for file in files) > len(files) or (is_folder and alone):
            found[name] = word
    return found if "train" in found.values() else {}


def _named(
    file: tuple[str, ...], named: Mapping[tuple[str, ...], Mapping[str, Word]], is_data: bool
) -> Named:
    sides = {level: named[file[:level]].get(part) for level, part in enumerate(file)}
    found = {level: side for level, side in sides.items() if side}
    if found:
        held_out = (side for side in found.values() if side != "train")
        return Named(next(held_out, "train"), tuple(found))
    called = (part for part in file if word_of(part) in ("validation", "test"))
    return Named(called=next(called, None) if is_data else None)


def sides_beside(names: Iterable[str]) -> tuple[str, str] | None:
    """Returns a ``train`` and a held-out side of the same thing among the names in a folder:
    ``train`` and ``test``, ``law_train.jsonl`` and ``law_valid_seen.jsonl``; None without such."""
    found: dict[str, list[tuple[Word, str, str]]] = defaultdict(list)
    for name in names:
        if (match := NAMED.search(name)) and (word := word_of(name)):
            after = NUMBERS.sub("", name[match.end() :].partition(".")[0]).strip("-_")
            found[name[: match.start()].strip("-_.")].append((word, after, name))
    for own in found.values():
        for word, after, name in own:
            for other, behind, held_out in own:
                same = after == behind or not after or not behind
                if word == "train" != other and same:
                    return name, held_out
    return None
