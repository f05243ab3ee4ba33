"""Sources to documents: order, cuts, caps, and the split into training and validation.

Whoever reads text of another kind makes `SourceFile`s, whose `read` yields rows; the rest follows.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bydore_pyro.command_line import Checked, option
from bydore_pyro.data.parts import Part
from bydore_pyro.data.remote import size_and_time
from bydore_pyro.data.rows import Row
from bydore_pyro.errors import DataError

Split = Literal["train", "validation"]
Taken = Mapping[tuple[str | None, Split], int]  # bytes by domain and side

# A file above this share of a domain's cap always trains where files are split: as validation it
# would be most of it.
LARGEST_VALIDATION_FILE = 0.05
# A domain of which fewer files would be held out is split piece by piece: text of few files is
# unlike the training text, and shows how well a model does on them rather than on the domain.
FEWEST_HELD_OUT = 30
SMALL_PIECE = 3_000  # characters
# Text is not cut so near to its beginning, and a shorter end stays with the piece before it.
SHORT_END = 200  # characters
LeftOut = Literal["skipped", "empty", "too_short"]


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Checked):
    """What becomes a document, and how much text is taken.

    Raises:
        ValueError: When an option is out of its range, or `shortest_document` exceeds
            `longest_document`.
    """

    data_seed: int = option(
        0, "Seed of the order of the files and of the validation split.", least=0
    )
    domain_megabytes: float = option(
        4.0, "Maximum text of each domain, in MB of UTF-8; 0 means no limit.", least=0
    )
    validation_fraction: float = option(
        0.1,
        "Share of the text to hold out for validation. Text files are held out file by file, "
        "and rows row by row; large text files, and domains of few files, are held out piece by"
        " piece.",
        above=0,
        below=1,
    )
    shortest_document: int | None = option(
        None,
        "Documents with fewer characters are left out and counted. Default: 1, which leaves out "
        "none with text; 200 of the environment.",
        least=1,
    )
    longest_document: int = option(
        20_000, "Documents with more characters are cut into pieces.", least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest > self.longest_document:
            raise ValueError(
                f"Expected shortest_document <= longest_document, actual {self.shortest} "
                f"and {self.longest_document}"
            )

    @property
    def cap(self) -> float:
        """The most text of one domain, in bytes."""
        return self.domain_megabytes * 1e6 or math.inf

    @property
    def shortest(self) -> int:
        """The fewest characters of a document."""
        return self.shortest_document or 1

    @property
    def piece(self) -> int:
        """The most characters of a piece of a file: enough that it is not dropped as too short."""
        return max(SMALL_PIECE, 2 * self.shortest)

    def most_bytes(self, split: Split, cap: float | None = None) -> float:
        """Returns the most bytes of one domain on a side of the split, out of `cap` bytes."""
        held_out = self.validation_fraction
        share = held_out if split == "validation" else 1 - held_out
        return share * (self.cap if cap is None else cap)


@dataclass(frozen=True)
class SourceFile:
    """One source of text, most often a file.

    Attributes:
        name: Its path on any machine.
        domain: The domain that it feeds; None where each row names its own.
        read: Yields its rows, or those of a part of it that is given.
        size: Bytes; 0 where unknown.
        version: Changes when the file changes: its time.
        split: The side that it is on; when None it is drawn from the seed.
        by_row: Whether the side is drawn row by row, or for the whole file.
        by_piece: Whether it is drawn piece by piece; `in_reading_order` decides it.
        domains: The domains that rows may name, where these are known.
        path: Where it lies, None for what is no file.
        part: The part of it that is read; None for all of it.
        length: Bytes of the part; 0 where unknown.
        left_out: Why it is not read, and only counted; None where it is read.
        called: The name that calls it held-out text, where this does not decide.
    """

    name: str
    domain: str | None
    read: Callable[..., Iterator[Row]]
    size: int = 0
    version: int = 0
    split: Split | None = None
    by_row: bool = False
    by_piece: bool = False
    domains: tuple[str, ...] = ()
    path: Path | None = None
    part: Part | None = None
    length: int = 0
    left_out: str | None = None
    called: str | None = None

    def rows(self) -> Iterator[Row]:
        """Yields the rows of the part, or all."""
        return self.read() if self.part is None else self.read(self.part)

    def reached(self, rows: int) -> int:
        """Returns the bytes of the first `rows` rows of a row group; 0 where unknown."""
        part = self.part
        if part is None or part.group is None or part.end is None:
            return 0
        return round(self.length * rows / max(1, part.end - part.start))

    def require_unchanged(self) -> None:
        """Checks that size and time are still those of the listing.

        Raises:
            DataError: When they are not.
        """
        if self.path is None or not self.size:  # nothing is read
            return
        found = None
        with suppress(OSError):
            found = size_and_time(self.path)
        if found != (self.size, self.version):
            raise DataError(f"Expected {self.path} not to change while it is read, found a change")

    @property
    def is_whole(self) -> bool:
        """Whether one side of the split is drawn for the whole source."""
        return self.split is None and not self.by_row and not self.by_piece


class Document(NamedTuple):
    """A text between two ends of text; `text` is None of one that is left out.

    Attributes:
        domain: That it belongs to.
        split: The side that it is on.
        text: Stripped.
        row: Number of its row.
        reached: Of its `Row`.
        left_out: Why there is no text.
        note: Of its `Row`.
    """

    domain: str | None
    split: Split
    text: str | None
    row: int
    reached: int = 0
    left_out: LeftOut | None = None
    note: str | None = None


def in_reading_order(sources: Iterable[SourceFile], config: CorpusConfig) -> list[SourceFile]:
    """Returns the sources domain by domain, shuffled by the seed.

    Validation files come first, so that a document on both sides is dropped from training, and for
    the same reason the domains of few files, which are split piece by piece, come next.
    """
    shuffled: list[SourceFile] = []
    in_order = sorted(sources, key=lambda source: (source.domain or "", source.name))
    for domain, own in groupby(in_order, lambda source: source.domain or ""):
        files = list(own)
        rng = np.random.default_rng([config.data_seed, *domain.encode()])
        shuffled += [files[i] for i in rng.permutation(len(files))]
    few = _of_few_files(shuffled, config)
    dealt = [replace(s, by_piece=True) if s.is_whole and s.domain in few else s for s in shuffled]

    def place(source: SourceFile) -> int:
        if split_of_file(source, config) == "validation":
            return 0
        return 1 if source.domain in few else 2

    return sorted(dealt, key=place)


def _of_few_files(sources: Sequence[SourceFile], config: CorpusConfig) -> set[str | None]:
    """The domains whose files are split piece by piece: too few whole files would be held out.

    Not those whose files feed another domain too, where a file's pieces are others: it would lie on
    both sides. Nor those of which every file is a piece at most, where nothing would be gained.
    """
    feeds = Counter(name for name, _ in {(s.name, s.domain) for s in sources})
    held_out: Counter[str | None] = Counter()
    taken: Counter[str | None] = Counter()
    for source in sources:
        name, size = source.domain, source.size
        if split_of_file(source, config) != "validation" or 0 < size < config.shortest:
            continue
        if taken[name] < config.most_bytes("validation"):
            held_out[name] += 1
            taken[name] += size
    whole = [s for s in sources if s.is_whole and s.domain is not None]
    length = min(config.piece, LARGEST_VALIDATION_FILE * config.cap)
    few = {s.domain for s in whole if s.size > length and held_out[s.domain] < FEWEST_HELD_OUT}
    return few - {s.domain for s in whole if feeds[s.name] > 1}


def split_of_file(source: SourceFile, config: CorpusConfig) -> Split | None:
    """Returns the side that a whole file is on, or None where its rows or pieces are split.

    A file lies on one side in every domain that it feeds (a Python file feeds its source and its
    docstrings), so no validation text is seen in training under another name.
    """
    if not source.is_whole:
        return source.split
    if source.size > LARGEST_VALIDATION_FILE * config.cap:
        return "train"
    return _drawn(source.name, config)


def documents_of(
    source: SourceFile, config: CorpusConfig, taken: Taken, cap: float | None = None
) -> Iterator[Document]:
    """Yields the documents of a source until its domains need no more.

    Rows and pieces are split by a hash of their text, so the same text always lies on the same
    side.

    Args:
        source: Where they come from.
        config: What becomes a document.
        taken: Bytes that were taken, by domain and side. The caller keeps them up to date, and by
            None those of all domains that rows name.
        cap: Most text of the source's domain, or of all domains that its rows name, in bytes; the
            config's, of each domain, when None.

    Raises:
        DataError: When the source has no domain and a row of it names none.
    """
    of_file = split_of_file(source, config)
    sides: tuple[Split, ...] = (of_file,) if of_file else ("train", "validation")
    names: tuple[str | None, ...] = (source.domain,)
    if source.domain is None and cap is None:
        names = source.domains

    def is_full(domain: str | None, side: Split) -> bool:
        place = domain if cap is None else source.domain
        return taken.get((place, side), 0) >= config.most_bytes(side, cap)

    def is_done() -> bool:
        return bool(names) and all(is_full(name, side) for name in names for side in sides)

    if is_done():
        return  # and the file stays shut
    for row in in_pieces(source.rows(), config) if source.by_piece else source.rows():
        if is_done():
            return
        domain = source.domain or row.domain
        if row.text is None:
            yield Document(domain, "train", None, row.number, left_out="skipped")
            continue
        if domain is None:
            raise DataError(
                f"Expected a domain in every row, found none: {source.name}, row {row.number}"
            )
        side = of_file or _drawn(row.text, config)
        if not row.text.strip():
            yield Document(domain, side, None, row.number, left_out="empty", note=row.note)
            continue
        earliest = max(config.shortest, min(SHORT_END, config.longest_document // 2))
        for text in _cut(row.text, config.longest_document, earliest, 1):
            if is_full(domain, side):
                break
            if len(text) >= config.shortest:
                yield Document(domain, side, text, row.number, row.reached, None, row.note)
            elif text:
                yield Document(domain, side, None, row.number, left_out="too_short", note=row.note)


def _drawn(text: str, config: CorpusConfig) -> Split:
    """The side that a hash of the text and the seed draws."""
    digest = hashlib.sha256(f"{config.data_seed}:".encode() + text.encode()).digest()
    held_out = int.from_bytes(digest[:8], "big") < config.validation_fraction * 2**64
    return "validation" if held_out else "train"


def in_pieces(rows: Iterable[Row], config: CorpusConfig) -> Iterator[Row]:
    """Yields the pieces of rows as rows, numbered from 1; cuts in the second half of a piece where
    a line ends there."""
    number, length, least = 0, config.piece, max(SHORT_END, config.shortest)
    for row in rows:
        pieces: Iterable[str | None] = [row.text]
        if row.text is not None and row.text.strip():
            pieces = _cut(row.text.strip(), length, length // 2, least)
        for text in pieces:
            number += 1
            yield Row(number, text, row.domain, 0, row.note if number == 1 else None)


def _cut(text: str, longest: int, earliest: int, least: int) -> Iterator[str]:
    """Cuts a text at the last line break between `earliest` and `longest` characters, if any.

    Parts are stripped, so that the same part has the same hash wherever it stands. An end of fewer
    than `least` characters stays with the part before it.
    """
    start = 0
    while start < len(text):
        end = start + longest
        if len(text) - end < least:
            end = len(text)
        else:
            end = text.rfind("\n", start + earliest, end) + 1 or end
        yield text[start:end].strip()
        start = end
