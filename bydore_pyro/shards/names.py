"""What the names of files say of shards: which hold no text, and which are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bydore_pyro import data
from bydore_pyro.errors import DataError

#: What trainers keep beside tokens, one number a token or a document.
NO_TEXT = (
    r"(?:(?:loss|attention|attn|labels?|padding|pad|segment|token|target)_?)?masks?|labels?|"
    r"(?:positions?|pos|segments?|seg|docs?|documents?|token_?type|samples?|sequences?|seq|"
    r"examples?|rows?|shuffle)_?(?:ids?|idxs?|index|indices|indexes)|(?:source|domain)_?ids|"
    r"(?:docs?|documents?|seqs?|sequences?|samples?|rows?|tokens?)_?"
    r"(?:offsets?|lengths?|lens?|boundary|boundaries|ends?|starts?|counts?)|"
    r"positions|offsets|lengths|(?:cu_?)?seq_?lens?|loss_?(?:weights?|scales?)"
)
OF_FILE = re.compile(rf"(?:.*_)?(?:{NO_TEXT})(?:_.*)?")
OF_FOLDER = re.compile(rf"(?:{NO_TEXT})(?:_\d+)?")
ONE_OF = re.compile(r"(?<!\d)(\d+)[-_. ]?of[-_. ]?(\d+)(?!\d)", re.IGNORECASE)
NUMBER = re.compile(r"(\d+)(?=\D*$)")
FEWEST = 3  # numbers in which a gap is seen


def holds_no_text(folders: Iterable[str], name: str) -> bool:
    """Returns whether something else than text is in a file, by its name without its ending, or by
    the name of a folder that it is in: ``part-0.mask``, ``seg_ids_0``, ``LossMask/``. A hive's
    ``source_id=3`` names a domain.
    """
    return bool(OF_FILE.fullmatch(_words(name))) or any(
        OF_FOLDER.fullmatch(data.without_word(_words(folder)))
        for folder in folders
        if "=" not in folder
    )


def _words(name: str) -> str:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


class _Numbered(NamedTuple):
    """A path, the place of one of its names, and the number in it."""

    path: Path
    at: int
    match: re.Match[str]

    def with_number(self, number: int) -> Path:
        """The path of another file of the same numbering."""
        start, stop = self.match.span(1)
        name = self.path.parts[self.at]
        changed = f"{name[:start]}{number:0{stop - start}}{name[stop:]}"
        return Path(*self.path.parts[: self.at], changed, *self.path.parts[self.at + 1 :])


def require_all(files: Iterable[tuple[str, Path]], depth: int) -> None:
    """Checks that of files called ``00001-of-00004`` all are there, on one side of a split or
    shared out between its sides.

    Args:
        files: The domain of each, and its path.
        depth: So many names at the beginning of the paths are not looked at.

    Raises:
        DataError: Names the first that is missing.
    """
    for _, numbers in _numberings(files, ONE_OF, depth):
        one = next(iter(numbers.values()))
        total = int(one.match[2])
        first = 1 if total in numbers and 0 not in numbers else 0
        for number in range(first, first + total):
            if number not in numbers and not (missing := one.with_number(number)).exists():
                raise DataError(
                    f"Expected all {total} shards that {one.path} is one of, found no {missing}; "
                    "a list of domains can name some of them"
                )


def missing_numbers(files: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, Path]]:
    """Yields the domain and path of files that are missing between two others, by their numbers:
    ``part-1`` between ``part-0`` and ``part-2``.

    A few names with numbers, or more gaps than files, are no numbering.
    """
    files = [(domain, path) for domain, path in files if not ONE_OF.search(path.as_posix())]
    for domain, numbers in _numberings(files, NUMBER):
        gaps = max(numbers) - min(numbers) + 1 - len(numbers)
        if len(numbers) >= FEWEST and gaps < len(numbers):
            one = next(iter(numbers.values()))
            between = {*range(min(numbers), max(numbers))} - numbers.keys()
            for missing in map(one.with_number, sorted(between)):
                if not missing.exists():
                    yield domain, missing


def _numberings(
    files: Iterable[tuple[str, Path]], pattern: re.Pattern[str], depth: int = 0
) -> Iterator[tuple[str, dict[int, _Numbered]]]:
    """Yields the files of one numbering by their numbers, with their domain: those of all sides of
    a split together, unless two of them have the same number."""
    sets: dict[tuple[str, ...], dict[tuple[str, ...], dict[int, _Numbered]]] = {}
    for domain, path in files:
        found = _last(path, pattern, depth)
        if found is not None:
            folders, name = path.parts[depth : found.at], path.parts[found.at]
            start, stop = found.match.span(1)
            own = *folders, name[:start], name[stop:]
            alike = (
                domain,
                *(part for part in folders if data.word_of(part) is None),
                data.without_word(name[:start]),
                name[stop:],
            )
            sets.setdefault(alike, {}).setdefault(own, {})[int(found.match[1])] = found
    for (domain, *_), sides in sets.items():
        together = {number: one for side in sides.values() for number, one in side.items()}
        apart = len(together) < sum(map(len, sides.values()))
        for numbers in sides.values() if apart else [together]:
            yield domain, numbers


def _last(path: Path, pattern: re.Pattern[str], depth: int) -> _Numbered | None:
    """Where a pattern is found last in the names of a path."""
    for at in range(len(path.parts) - 1, depth - 1, -1):
        matches = list(pattern.finditer(path.parts[at]))
        if matches:
            return _Numbered(path, at, matches[-1])
    return None
