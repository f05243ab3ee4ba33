"""Files to documents: what is a document, on which side of the split, and in which order.

A `File` is what is listed. A `Source` is an iterator of documents that know their side;
`sources_of` alone decides the sides. Whoever reads text of another kind makes `File`s.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bydore_pyro.command_line import Checked, option
from bydore_pyro.data.remote import size_and_time
from bydore_pyro.data.rows import Row
from bydore_pyro.data.streams import Part
from bydore_pyro.errors import DataError

Split = Literal["train", "validation"]

# A file above this share of a domain's cap always trains where files are split: as validation it
# would be most of it.
LARGEST_VALIDATION_FILE = 0.05
# A domain of which fewer files would be held out is split piece by piece: text of few files is
# unlike the training text, and shows how well a model does on them rather than on the domain.
FEWEST_HELD_OUT = 30
SMALL_PIECE = 3_000  # characters
# Text is not cut so near to its beginning, and a shorter end stays with the piece before it.
SHORT_END = 200  # characters
LeftOut = Literal["skipped", "empty", "too_short", "in_targets"]


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
class File:
    """What is listed: a file of text or of rows, or what is read like one.

    Attributes:
        name: Its path on any machine.
        domain: The domain that it feeds; None where each row names its own.
        read: Yields its rows, or those of a `Part` that is given.
        size: Bytes; 0 where unknown.
        version: Changes when the file changes: its time.
        path: Its place; None for what is no file.
        side: That names or a list give it; None where the seed draws the side.
        of_rows: Whether its rows are texts of their own, each on a side; else it is one text.
        domains: The domains that rows may name, where these are known.
        misleading: Whether it is called like a held-out split, and this does not decide.
    """

    name: str
    domain: str | None
    read: Callable[..., Iterator[Row]]
    size: int = 0
    version: int = 0
    path: Path | None = None
    side: Split | None = None
    of_rows: bool = False
    domains: tuple[str, ...] = ()
    misleading: bool = False

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


class Document(NamedTuple):
    """A text between two ends of text; `text` is None of one that is left out.

    Attributes:
        domain: That it belongs to.
        split: The side that it is on.
        text: Stripped.
        row: Number of its row or piece; the documents of one are not independent.
        row_bytes: Bytes of the text of its row, or of the file whose piece it is, in the first
            document of it; None in others.
        reached: Of its `Row`.
        left_out: Why there is no text.
        note: Of its `Row`.
    """

    domain: str | None
    split: Split
    text: str | None
    row: int
    row_bytes: int | None = None
    reached: int = 0
    left_out: LeftOut | None = None
    note: str | None = None


@dataclass(frozen=True)
class Source:
    """The documents of a file, or of a part of it.

    Attributes:
        file: Where they come from.
        side: That all of them are on; None where they are on both.
        size: Bytes of the file that are read; 0 where unknown.
        documents: Yields them, or those of a `Part` of the file that is given.
    """

    file: File
    side: Split | None
    size: int
    documents: Callable[..., Iterator[Document]]

    @property
    def name(self) -> str:
        """The file's path on any machine."""
        return self.file.name

    @property
    def domain(self) -> str | None:
        """The domain that it feeds; None where each row names its own."""
        return self.file.domain


def sources_of(files: Iterable[File], config: CorpusConfig) -> list[Source]:
    """Decides the side of every file, row or piece; returns the sources in reading order.

    They come domain by domain, shuffled by the seed. Where names give no side, rows are split by a
    hash of their text, so that the same text always lies on the same side. A text file lies on one
    side, by a hash of its name, in every domain that it feeds: a Python file feeds its source and
    its docstrings, and no validation text may be seen in training under another name. Of a domain
    of few files the pieces of files are split like rows.

    Validation files come first, so that a document on both sides is dropped from training, and for
    the same reason the domains of few files come next.
    """
    shuffled: list[File] = []
    in_order = sorted(files, key=lambda file: (file.domain or "", file.name))
    for domain, of_domain in groupby(in_order, lambda file: file.domain or ""):
        own = list(of_domain)
        rng = np.random.default_rng([config.data_seed, *domain.encode()])
        shuffled += [own[i] for i in rng.permutation(len(own))]
    few = _of_few_files(shuffled, config)
    found: tuple[list[Source], ...] = ([], [], [])  # in which order they are read
    for file in shuffled:
        in_pieces = _is_one_side(file) and file.domain in few
        side = None if in_pieces else _side_of(file, config)
        documents = partial(_documents, file, config, side, in_pieces)
        place = 0 if side == "validation" else 1 if file.domain in few else 2
        found[place].append(Source(file, side, file.size, documents))
    return [source for sources in found for source in sources]


def _is_one_side(file: File) -> bool:
    """Whether the seed draws one side for the whole file."""
    return file.side is None and not file.of_rows


def _side_of(file: File, config: CorpusConfig) -> Split | None:
    """The side that a whole file is on; None where its rows are split."""
    if not _is_one_side(file):
        return file.side
    if file.size > LARGEST_VALIDATION_FILE * config.cap:
        return "train"
    return _drawn(file.name, config)


def _of_few_files(files: Sequence[File], config: CorpusConfig) -> set[str | None]:
    """The domains whose files are split piece by piece: too few whole files would be held out.

    Not those whose files feed another domain too, where a file's pieces are others: it would lie on
    both sides. Nor those of which every file is a piece at most, where nothing would be gained.
    """
    feeds = Counter(name for name, _ in {(f.name, f.domain) for f in files})
    held_out: Counter[str | None] = Counter()
    taken: Counter[str | None] = Counter()
    for file in files:
        name, size = file.domain, file.size
        if _side_of(file, config) != "validation" or 0 < size < config.shortest:
            continue
        if taken[name] < config.most_bytes("validation"):
            held_out[name] += 1
            taken[name] += size
    whole = [f for f in files if _is_one_side(f) and f.domain is not None]
    length = min(config.piece, LARGEST_VALIDATION_FILE * config.cap)
    few = {f.domain for f in whole if f.size > length and held_out[f.domain] < FEWEST_HELD_OUT}
    return few - {f.domain for f in whole if feeds[f.name] > 1}


def _documents(
    file: File, config: CorpusConfig, side: Split | None, pieces: bool, part: Part | None = None
) -> Iterator[Document]:
    """Yields the documents of a file or of a part of it, with their sides.

    Raises:
        DataError: When the file has no domain and a row of it names none.
    """
    earliest = max(config.shortest, min(SHORT_END, config.longest_document // 2))
    rows = file.read() if part is None else file.read(part)
    for row in in_pieces(rows, config) if pieces else rows:
        domain = file.domain or row.domain
        if row.text is None:
            yield Document(domain, "train", None, row.number, left_out="skipped")
            continue
        if domain is None:
            raise DataError(
                f"Expected a domain in every row, found none: {file.name}, row {row.number}"
            )
        split = side or _drawn(row.text, config)
        of_row = Document(domain, split, None, row.number, reached=row.reached, note=row.note)
        stripped = row.text.strip()
        size = row.whole if pieces else len(stripped.encode())
        if not stripped:
            yield of_row._replace(left_out="empty", row_bytes=size)
            continue
        for text in _cut(row.text, config.longest_document, earliest, 1):
            if len(text) >= config.shortest:
                yield of_row._replace(text=text, row_bytes=size)
            elif text:
                yield of_row._replace(left_out="too_short", row_bytes=size)
            else:
                continue
            size = None


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
        whole = None if row.text is None else len(row.text.strip().encode())
        if whole and row.text is not None:
            pieces = _cut(row.text.strip(), length, length // 2, least)
        for text in pieces:
            number += 1
            note = row.note if number == 1 else None
            yield Row(number, text, row.domain, note=note, whole=whole)
            whole = None


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
