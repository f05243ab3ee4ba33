"""Chooses the parts of all its files that a domain's sample is read from, by the seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from bydore_pyro.data.documents import CorpusConfig, SourceFile, split_of_file
from bydore_pyro.data.kinds import can_be_entered
from bydore_pyro.data.parts import Part, row_groups

PARTS = 64  # that a sample is made of, at least, where there is so much text
LEAST = 2**15  # bytes of a part
MOST = 8 * PARTS  # parts of a domain: text may be an eighth of a file
Groups = Sequence[tuple[int, int, int]]  # of `row_groups`
PACKED = 8  # times as large as compressed text it may be
MORE = 1.1  # of what cannot be entered, a part holds so much more than its share


def in_parts(
    sources: Sequence[SourceFile], config: CorpusConfig, cap: float | None = None
) -> list[SourceFile]:
    """Cuts the large files of a sampled domain into parts, and shuffles the parts.

    A part is a range of bytes, of a Parquet file the beginning of a row group, and of a compressed
    file its beginning, because reading cannot begin elsewhere: the sample is then spread over
    the files. What is left of row groups and compressed files is read last, if ever. Every document
    is as likely as every other in a file that can be entered, and in others nearly so.

    Args:
        sources: In reading order.
        config: How much is taken.
        cap: As for `documents_of`; without it files whose rows name domains stay whole.
    """
    found: list[SourceFile] = []

    def key(source: SourceFile) -> tuple[bool, str | None]:
        return split_of_file(source, config) == "validation", source.domain

    for (held_out, domain), own in groupby(sources, key):
        files, most = list(own), config.cap if cap is None else cap
        if held_out:
            most = config.most_bytes("validation", cap)
        if (domain is not None or cap is not None) and sum(map(_most_text, files)) > most:
            rng = np.random.default_rng([config.data_seed, 1, *(domain or "").encode()])
            files = _drawn(files, most, rng)
        found += files
    return found


def _drawn(files: Sequence[SourceFile], most: float, rng: np.random.Generator) -> list[SourceFile]:
    """Draws the parts of a domain's files, as many as may be needed."""
    piece, total = max(LEAST, int(most / PARTS)), sum(s.size for s in files)
    large = {n for n, s in enumerate(files) if s.path and s.by_row and _most_text(s) > piece}
    if not large:
        return [*files]
    counts, groups = np.ones(len(files), np.int64), {}
    packed = [n for n in sorted(large) if not can_be_entered(files[n].path or Path())]
    for n in large.difference(packed):
        counts[n] = -(-files[n].size // piece)
    if len(packed) > MOST:  # not every file is opened to count its row groups
        counts[packed] = 0
        packed = rng.permutation(packed)[:MOST].tolist()
    for n in packed:
        groups[n] = row_groups(files[n].path or Path())
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
            first.append(replace(file, part=Part(start, start + length), length=length))
        else:
            parts = _beginning(
                file, groups[n], number, lambda size: max(piece, most * size / total)
            )
            first.append(parts[0])
            rest += parts[1:]
    return first + rest


def _most_text(source: SourceFile) -> int:
    """Estimates the most text, in bytes, that a source holds."""
    return source.size * (1 if source.path is None or can_be_entered(source.path) else PACKED)


def _beginning(
    file: SourceFile, groups: Groups, number: int, share: Callable[[float], float]
) -> list[SourceFile]:
    """A compressed file or a row group in two parts, of which the first holds its share."""
    if not groups:
        end = int(MORE * share(file.size))
        return [replace(file, part=Part(0, end)), replace(file, part=Part(end, None))]
    count, packed, plain = groups[number]
    size = file.size * packed / sum(group[1] for group in groups)  # the file's end belongs to all
    end = min(count, math.ceil(MORE * share(size) / plain * count)) if plain else count
    cuts = {0: end, end: count} if end < count else {0: count}
    return [
        replace(file, part=Part(a, b, number), length=round(size * (b - a) / max(1, count)))
        for a, b in cuts.items()
    ]


def bytes_listed(sources: Sequence[SourceFile], config: CorpusConfig) -> dict[str, int]:
    """Returns the bytes of each domain's files that are not held out; "" has those of rows.

    A domain is left out where the size of a source is unknown.
    """
    sizes: dict[str, int] = {}
    unknown = {s.domain or "" for s in sources if not s.size and s.path is None}
    for source in sources:
        if split_of_file(source, config) != "validation" and (source.domain or "") not in unknown:
            sizes[source.domain or ""] = sizes.get(source.domain or "", 0) + source.size
    return sizes
