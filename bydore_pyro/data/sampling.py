"""A sample of a domain: the parts of all its files that are read, how much is taken, and how many
tokens the domain has in all.

A part is a source around a source: it yields fewer documents of the same file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data.documents import CorpusConfig, Document, Source, Split
from bydore_pyro.data.kinds import can_be_entered
from bydore_pyro.data.streams import Part, row_groups

PARTS = 64  # that a sample is made of, at least, where there is so much text
LEAST = 2**15  # bytes of a part
MOST = 8 * PARTS  # parts of a domain: text may be an eighth of a file
Groups = Sequence[tuple[int, int, int]]  # of `row_groups`
PACKED = 8  # times as large as compressed text it may be
MORE = 1.1  # of what cannot be entered, a part holds so much more than its share


class Taken:
    """The bytes that have been taken of each domain and side, and whether they are enough.

    Args:
        corpus: How much is taken at most.
        cap: Most text of a source's domain, or of all domains that its rows name, in bytes; the
            corpus's, of each domain, when None.
    """

    def __init__(self, corpus: CorpusConfig, cap: float | None = None) -> None:
        self._corpus, self._cap = corpus, cap
        # With no domain, all of a side.
        self._bytes: Counter[tuple[str | None, Split]] = Counter()

    def add(self, domain: str, split: Split, size: int) -> None:
        """Counts bytes that are taken."""
        for name in (domain, None):
            self._bytes[name, split] += size

    @property
    def total(self) -> int:
        """All bytes that were taken."""
        return self._bytes[None, "train"] + self._bytes[None, "validation"]

    def is_full(self, domain: str | None, split: Split) -> bool:
        """Whether there is enough text of a domain, or of all, on a side."""
        return self._bytes[domain, split] >= self._corpus.most_bytes(split, self._cap)

    def is_enough(self, source: Source) -> bool:
        """Whether the domains of a source need no more of it."""
        names: tuple[str | None, ...] = (source.domain,)
        if source.domain is None and self._cap is None:
            names = source.file.domains
        sides: tuple[Split, ...] = (source.side,) if source.side else ("train", "validation")
        return bool(names) and all(self.is_full(name, side) for name in names for side in sides)

    def leaves_out(self, source: Source, document: Document) -> bool:
        """Whether there is enough text on the document's side; what has no text is counted."""
        domain = document.domain if self._cap is None else source.domain
        no_text = document.left_out in ("skipped", "empty")
        return not no_text and self.is_full(domain, document.split)


def part_of(source: Source, part: Part) -> Source:
    """Returns the documents of a part of a source's file as a source."""
    return replace(source, size=part.size, documents=partial(source.documents, part=part))


def in_parts(
    sources: Sequence[Source], config: CorpusConfig, cap: float | None = None
) -> list[Source]:
    """Cuts the large files of a sampled domain into parts, and shuffles the parts.

    A part is a range of bytes, of a Parquet file the beginning of a row group, and of a compressed
    file its beginning, because reading cannot begin elsewhere: the sample is then spread over
    the files. What is left of row groups and compressed files is read last, if ever. Every document
    is as likely as every other in a file that can be entered, and in others nearly so.

    Args:
        sources: In reading order.
        config: How much is taken.
        cap: As for `Taken`; without it files whose rows name domains stay whole.
    """
    found: list[Source] = []

    def key(source: Source) -> tuple[bool, str | None]:
        return source.side == "validation", source.domain

    for (held_out, domain), own in groupby(sources, key):
        files, most = list(own), config.cap if cap is None else cap
        if held_out:
            most = config.most_bytes("validation", cap)
        if (domain is not None or cap is not None) and sum(map(_most_text, files)) > most:
            rng = np.random.default_rng([config.data_seed, 1, *(domain or "").encode()])
            files = _drawn(files, most, rng)
        found += files
    return found


def _drawn(files: Sequence[Source], most: float, rng: np.random.Generator) -> list[Source]:
    """Draws the parts of a domain's files, as many as may be needed."""
    piece, total = max(LEAST, int(most / PARTS)), sum(s.size for s in files)
    large = {
        n for n, s in enumerate(files) if s.file.path and s.file.of_rows and _most_text(s) > piece
    }
    if not large:
        return [*files]
    counts, groups = np.ones(len(files), np.int64), {}
    packed = [n for n in sorted(large) if not can_be_entered(files[n].file.path or Path())]
    for n in large.difference(packed):
        counts[n] = -(-files[n].size // piece)
    if len(packed) > MOST:  # not every file is opened to count its row groups
        counts[packed] = 0
        packed = rng.permutation(packed)[:MOST].tolist()
    for n in packed:
        groups[n] = row_groups(files[n].file.path or Path())
        counts[n] = max(1, len(groups[n]))
    ends = np.cumsum(counts)
    chosen = rng.choice(ends[-1], min(int(ends[-1]), MOST), replace=False)
    first, rest = [], []
    for number in chosen.tolist():
        n = int(np.searchsorted(ends, number, side="right"))
        file, number = files[n], number - int(ends[n] - counts[n])
        if n not in large:
            first.append(file)
        elif n not in groups:
            start, length = number * piece, min(piece, file.size - number * piece)
            first.append(part_of(file, Part(start, start + length, size=length)))
        else:
            parts = _beginning(
                file, groups[n], number, lambda size: max(piece, most * size / total)
            )
            first.append(parts[0])
            rest += parts[1:]
    return first + rest


def _most_text(source: Source) -> int:
    """Estimates the most text, in bytes, that a source holds."""
    path = source.file.path
    return source.size * (1 if path is None or can_be_entered(path) else PACKED)


def _beginning(
    file: Source, groups: Groups, number: int, share: Callable[[float], float]
) -> list[Source]:
    """A compressed file or a row group in two parts, of which the first holds its share."""
    if not groups:
        end = int(MORE * share(file.size))
        return [part_of(file, Part(0, end)), part_of(file, Part(end, None))]
    count, packed, plain = groups[number]
    size = file.size * packed / sum(group[1] for group in groups)  # the file's end belongs to all
    end = min(count, math.ceil(MORE * share(size) / plain * count)) if plain else count
    cuts = {0: end, end: count} if end < count else {0: count}
    return [
        part_of(file, Part(a, b, number, round(size * (b - a) / max(1, count))))
        for a, b in cuts.items()
    ]


def bytes_listed(sources: Sequence[Source]) -> dict[str, int]:
    """Returns the bytes of each domain's files that are not held out; "" has those of rows.

    A domain is left out where the size of a source is unknown.
    """
    sizes: dict[str, int] = {}
    unknown = {s.domain or "" for s in sources if not s.size and s.file.path is None}
    for source in sources:
        name = source.domain or ""
        if source.side != "validation" and name not in unknown:
            sizes[name] = sizes.get(name, 0) + source.size
    return sizes


class Sizes:
    """Sums over the files and parts of files that were read whole: the clusters of a sample.

    Of ``n`` clusters of ``x`` bytes and ``y`` tokens, out of ``X`` bytes:

        tokens = X R,   R = sum y / sum x
        error^2 = X^2 (1 - sum x / X) n / (n - 1) sum (y - R x)^2 / (sum x)^2

    Args:
        state: What `state` returned, to go on from there.

    References:
        Cochran, Sampling Techniques, 1977, section 6.3: the ratio estimate.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {"clusters": {}, "yields": {}}
        self._clusters: dict[str, list[int]] = state["clusters"]  # n, sum x, sum x^2
        self._yields: dict[str, list[int]] = state["yields"]  # sum y, sum xy, sum y^2
        # Of sources since `close`: tokens by domain, and those that are clusters.
        self._tokens: dict[int, Counter[str]] = {}
        self._ended: list[tuple[int, str, int]] = []

    def add(self, number: int, name: str, tokens: int) -> None:
        """Counts tokens of a domain in a source."""
        self._tokens.setdefault(number, Counter())[name] += tokens

    def end(self, number: int, group: str, size: int) -> None:
        """Notes that a source of so many bytes has been read whole, for a domain or for all."""
        self._ended.append((number, group, size))

    def has(self, group: str) -> bool:
        """Whether a source has been noted for a domain or for all."""
        return group in self._clusters or any(own == group for _, own, _ in self._ended)

    def close(self) -> None:
        """Sums up the sources that have ended; every token of them has been counted."""
        for number, group, x in self._ended:
            _add(self._clusters, group, 1, x, x * x)
            for name, y in self._tokens.get(number, {}).items():
                _add(self._yields, name, y, x * y, y * y)
        self._tokens, self._ended = {}, []

    def state(self) -> dict[str, Any]:
        """Returns the sums of the sources that are closed, as plain values."""
        return {"clusters": self._clusters, "yields": self._yields}

    def of(self, name: str, group: str, total: int) -> dict[str, int | None] | None:
        """Estimates a domain's tokens in `total` bytes, and their standard error, None if unknown;
        returns None where nothing was read whole, or all was."""
        n, x, xx = self._clusters.get(group, (0, 0, 0))
        y, xy, yy = self._yields.get(name, (0, 0, 0))
        if not y or x >= total:
            return None
        ratio, error = y / x, None
        if n > 1:
            squares = max(0.0, yy - 2 * ratio * xy + ratio**2 * xx)
            error = round(total / x * math.sqrt((1 - x / total) * n / (n - 1) * squares))
        return {"tokens": round(total * ratio), "standard_error": error}


def _add(sums: dict[str, list[int]], name: str, *terms: int) -> None:
    sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0, 0]), terms, strict=True)]
