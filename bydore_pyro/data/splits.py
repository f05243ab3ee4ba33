"""What names say: which files are the sides of a split, ``train`` and ``validation``, by names
beside each other; and which names a domain can have.

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
from bydore_pyro.errors import DataError

Word = Literal["train", "validation", "test"]
WORDS: dict[Word, str] = {
    "train": r"train(ing|val)?|trn",
    "validation": r"valid(ation)?|val|dev(el|elopment)?|eval(uation)?|(held|hold)[-_. ]?out",
    "test": r"(dev)?test(s|ing|dev)?|tst",
}
# A word of a name: between its ends and these characters; ``val2017``, ``dev set``, ``split=test``.
BETWEEN = r"[-_.=+()\[\]]"
AROUND = " -_.=+()[]"
NAMED = re.compile(
    rf"(?:^|(?<={BETWEEN}))(?:split[-_=])?(?:"
    + "|".join(f"(?P<{word}>{pattern})" for word, pattern in WORDS.items())
    + rf")(?:[-_ ]?(?:set|split|data))?\d*(?={BETWEEN}|$)",
    re.IGNORECASE,
)
NUMBERS = re.compile(r"\d+|(?<![a-z])of(?![a-z])", re.IGNORECASE)  # of parts of a file
# Endings of files that are cut into splits, beside those of rows: a `train.py` is a program.
PLAIN = {"", ".txt", ".text", ".raw", ".tok", ".tokens", ".bpe"}
#: What is said of files that are called so.
CALLED = "read as the rest of the domain (called like a held-out split, no train beside it)"


class Named(NamedTuple):
    """What the names of a file and of the folders above it say.

    Attributes:
        side: Of the split; None where no name decides.
        levels: The parts of the path that name a side, counted from 0.
        others: What each of these parts says beside it: "law" of ``law_train``.
        called: Of data that is not held out, a name of held-out text that does not decide, or None.
    """

    side: Word | None = None
    levels: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    called: str | None = None


def check_name(name: str) -> None:
    """Refuses a domain's name, or path of names, that files, options or JSON could not carry.

    Raises:
        DataError: When it is no UTF-8, is empty, is longer than 200 bytes, holds '=' or a null
            byte, or has '', '.', '..' or '*' between slashes.
    """
    text = name.encode(errors="replace")
    of_path = {"", ".", "..", "*"}.isdisjoint(name.split("/"))
    if not of_path or len(text) > 200 or text.decode() != name or "=" in name or "\0" in name:
        raise DataError(
            "Expected a domain's name of at most 200 bytes without '=', or a path of such names, "
            f"found {name!r}"
        )


def domain_of(name: str) -> str:
    """Returns what a folder or file calls a domain: of a hive's ``cluster=1``, ``cluster-1``."""
    return name.replace("=", "-")


def word_of(name: str) -> Word | None:
    """Returns the side of a split that a name of a file or folder holds, the first of several:
    ``validation_matched.jsonl``, ``wiki.valid``, ``law-test-00000-of-00001.parquet``."""
    found = NAMED.search(name)
    word: Word | None = found.lastgroup if found else None  # type: ignore[assignment]
    return word


def without_word(name: str) -> str:
    """Returns what a name holds beside the word for a side, numbers of parts and an ending; all of
    it without such a word: ``law`` of ``law_train-00000-of-00002``, nothing of ``train.jsonl``."""
    return "_".join(filter(None, _around(name)))


def _around(name: str) -> tuple[str, str]:
    """What stands before and behind the word for a side; before it all of a name without one."""
    match = NAMED.search(name)
    if match is None:
        return name, ""
    behind = NUMBERS.sub("", name[match.end() :].partition(".")[0])
    return name[: match.start()].strip(AROUND), behind.strip(AROUND)


def domain_parts(parts: Sequence[str], named: Named) -> list[str]:
    """Returns the parts of a path that name a domain: the words that name sides are left out, as
    ``train`` and the ``train`` of ``law_train``."""
    others = dict(zip(named.levels, named.others, strict=True))
    return [own for level, part in enumerate(parts) if (own := others.get(level, part))]


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
) -> dict[str, tuple[Word, str]]:
    """The sides that the names in a folder decide, and what else these say; none where none of them
    is ``train``."""
    words = _by_name(inside)
    alone = all(name in words or is_notice(Path(name)) for name in inside)
    found: dict[str, Word] = {}
    for name, word in words.items():
        files = inside[name]
        is_folder = any(len(file) > depth + 1 for file in files)
        if 2 * sum(file in data for file in files) > len(files) or (is_folder and alone):
            found[name] = word
    if "train" not in found.values():
        return {}
    if {*found.values()} == {"train"}:  # a folder called `training_manuals` alone is no side
        found = {name: word for name, word in found.items() if not without_word(name)}
    around = {name: _around(name) for name in found}
    words_of: dict[tuple[str, str], set[Word]] = defaultdict(set)
    for name, word in found.items():
        words_of[around[name]].add(word)
    # What stands behind counts where a name of another side says the same, as in `train_law` and
    # `val_law`, but not in `validation_matched`.
    others = {name: own[: len(words_of[own])] for name, own in around.items()}
    return {name: (word, "_".join(filter(None, others[name]))) for name, word in found.items()}


def _by_name(names: Iterable[str]) -> dict[str, Word]:
    """The side that each name holds, if any; of ``train_test`` beside a ``train`` the held-out one,
    of one that stands alone the training text."""
    held = {name: [match.lastgroup for match in NAMED.finditer(name)] for name in names}
    beside = any(set(words) == {"train"} for words in held.values())
    found: dict[str, Word] = {}
    for name, words in held.items():
        if words:
            held_out = next((word for word in words if word != "train"), "train")
            found[name] = held_out if beside or "train" not in words else "train"  # type: ignore[assignment]
    return found


def _named(
    file: tuple[str, ...],
    named: Mapping[tuple[str, ...], Mapping[str, tuple[Word, str]]],
    is_data: bool,
) -> Named:
    found = {
        level: named[file[:level]][part]
        for level, part in enumerate(file)
        if part in named[file[:level]]
    }
    words = [word for word, _ in found.values()]
    side: Word | None = next(
        (word for word in words if word != "train"), "train" if words else None
    )
    called = None
    if is_data and side in ("train", None):
        rest = (part for level, part in enumerate(file) if level not in found)
        called = next((part for part in rest if word_of(part) in ("validation", "test")), None)
    return Named(side, tuple(found), tuple(other for _, other in found.values()), called)


def sides_beside(names: Iterable[str]) -> tuple[str, str] | None:
    """Returns a ``train`` and a held-out side of the same thing among the names in a folder:
    ``train`` and ``test``, ``law_train.jsonl`` and ``law_valid_seen.jsonl``; None without such."""
    found: dict[str, dict[tuple[Word, str], str]] = defaultdict(dict)
    for name in names:
        if word := word_of(name):
            before, behind = _around(name)
            found[before].setdefault((word, behind), name)
    for own in found.values():
        for (word, after), name in own.items():
            for (other, behind), held_out in own.items():
                same = after == behind or not after or not behind
                if word == "train" != other and same:
                    return name, held_out
    return None
