"""The contract of every format: a reader reports what it found, and one function compares.

A reader maps files to an `Inventory`; it judges nothing but whether it can read them. `checked`
compares what is declared with what is found, finds the width of numbers where no file says it
(`widths.py`), finds the documents where no file says where they end, and leaves padding out. `once`
and `require_alike` compare the files of all shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bydore_pyro import data
from bydore_pyro.errors import DataError
from bydore_pyro.shards.widths import Known, in_vocabulary, of_width, require_width, resembles, some

AT_ONCE = 2**22  # tokens that are looked at at once


class Claim(NamedTuple):
    """What a file says, what there is (None: as many as the tokens), and which file says so."""

    what: str
    declared: int
    found: int | None
    place: Path


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What a reader found.

    Attributes:
        tokens: ``(N,)``; or, where no file says their width, a function of their bytes.
        ends: Where documents end: exclusive, ascending to N; None where no file tells.
        files: What is read as long as the store is open, the one of tokens first.
        beside: What was read once, or belongs to it and need not be read.
        claims: What the files declare.
        ended: Whether its writer ended; None where the format does not say.
        index: The file that says where documents end, if it is there; None where there never is
            one of its own.
        open_end: Whether a last document may be missing among the ends, if it has no separator.
        tokenizer: The name that the files give their tokenizer.
    """

    tokens: data.Tokens | Callable[[int], data.Tokens]
    ends: np.ndarray | None = None
    files: tuple[Path, ...]
    beside: tuple[Path, ...] = ()
    claims: Sequence[Claim] = ()
    ended: bool | None = None
    index: Path | None = None
    open_end: bool = False
    tokenizer: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Shard(data.Text):
    """The text of a shard that holds what it should.

    Attributes:
        padding: Tokens that are left out.
        scanned: Whether documents were found by their separator.
        width: Bytes of a token, where no file says it and the tokens do; else None.
        resembles: What the tokens look like, if it is something else than text.
    """

    padding: int = 0
    scanned: bool = False
    width: int | None = None
    resembles: str = ""


def checked(found: Inventory, known: Known) -> Shard:
    """Compares an inventory with itself and with the tokenizer.

    Raises:
        DataError: Names the first file that is not finished, declares what is not there, holds
            tokens that the tokenizer has not, or whose width or documents cannot be told.
    """
    place = found.files[0]
    if found.ended is False:
        raise DataError(f"Expected a finished shard, found one that is not: {place}")
    _require_claims(found, None)
    if callable(found.tokens):
        tokens = of_width(found.tokens, known, place)
        width = tokens.dtype.itemsize if known.width is None else None
    else:
        tokens, width = found.tokens, None
    _require_claims(found, len(tokens))
    sample = some(tokens)
    require_width(sample, known, place)
    like = resembles(sample, known, place)
    tokens = in_vocabulary(tokens, known, place)
    whole = _whole(tokens, found, known)
    return replace(whole, width=width, resembles=like)


def _require_claims(found: Inventory, tokens: int | None) -> None:
    """Compares what files declare with what there is; their tokens only where they are counted."""
    for claim in found.claims:
        there = tokens if claim.found is None else claim.found
        if there is not None and claim.declared != there:
            raise DataError(
                f"Expected {claim.declared} {claim.what}, as {claim.place} says, found "
                f"{there}: {found.files[0]}"
            )


def _whole(tokens: data.Tokens, found: Inventory, known: Known) -> Shard:
    """The tokens of a shard without padding, and where its documents end."""
    ends = found.ends
    if ends is None:
        return _without(tokens, *_scanned(tokens, known), scanned=True)
    last = int(ends[-1]) if len(ends) else 0
    if found.open_end and last < len(tokens):
        _, more = _scanned(tokens[last:], known)
        if len(more) > 1 or tokens[np.array([len(tokens) - 1])][0] == known.separator:
            raise _other_ends(last, tokens, found)
        ends, last = np.append(ends, len(tokens)), len(tokens)
    if last != len(tokens) or (np.diff(ends, prepend=0) <= 0).any():
        raise _other_ends(last, tokens, found)
    return _without(tokens, *_without_fillers(tokens, ends, known))


def _other_ends(last: int, tokens: data.Tokens, found: Inventory) -> DataError:
    return DataError(
        f"Expected ends of documents that ascend to {len(tokens)}, the tokens of {found.files[0]}, "
        f"found others up to {last}: {found.files[-1]}"
    )


def _scanned(tokens: data.Tokens, known: Known) -> tuple[data.Runs, np.ndarray]:
    """What is kept of an array, and where documents end in it; all of it is read, block by block.

    Of a run of separators the first is kept, and no pad token.
    """
    edges, ends, count, after = [np.empty((0, 2), data.END)], [np.empty(0, data.END)], 0, False
    for start in range(0, len(tokens), AT_ONCE):
        block = np.asarray(tokens[start : start + AT_ONCE])
        places = np.arange(len(block))
        if known.pad is not None:
            places = places[block != known.pad]
        stops = block[places] == known.separator
        again = stops & np.concatenate([[after], stops[:-1]])[: len(stops)]
        after = bool(stops[-1]) if len(stops) else after
        ends.append(np.flatnonzero(stops[~again]) + (count + 1))
        keeps = np.zeros(len(block) + 2, np.int8)
        keeps[places[~again] + 1] = 1
        count += int(keeps.sum())
        edges.append(np.flatnonzero(np.diff(keeps)).reshape(-1, 2) + start)
    runs, stopped = np.concatenate(edges), np.concatenate(ends)
    if count and (not len(stopped) or stopped[-1] != count):
        stopped = np.append(stopped, count)
    return (runs[:, 0], runs[:, 1]), stopped


def _without_fillers(
    tokens: data.Tokens, ends: np.ndarray, known: Known
) -> tuple[data.Runs, np.ndarray]:
    """What is kept of an array whose documents are told: not those that are one separator behind
    another document, or one pad token; and no pad token where there are any."""
    lengths = np.diff(ends, prepend=0)
    alone = np.flatnonzero(lengths == 1)
    values = np.asarray(tokens[ends[alone] - 1])
    filler = (values == known.separator) & (alone > 0)
    if known.pad is not None:
        filler |= values == known.pad
    keeps = np.ones(len(ends), bool)
    keeps[alone[filler]] = False
    if known.pad is not None and (some(tokens).values == known.pad).any():
        (starts, stops), _ = _scanned(tokens, replace(known, separator=-1))
        before = np.concatenate([[0], np.cumsum(stops - starts)])
        run = np.searchsorted(starts, ends, "left") - 1
        found = before[run] + np.minimum(ends, stops[run]) - starts[run]
        found[run < 0] = 0
        return (starts, stops), found[np.diff(found, prepend=0) > 0]
    starts, stops = (ends - lengths)[keeps], ends[keeps]
    return (starts, stops), np.cumsum(lengths[keeps])


def _without(
    tokens: data.Tokens, runs: data.Runs, ends: np.ndarray, *, scanned: bool = False
) -> Shard:
    padding = len(tokens) - (int(ends[-1]) if len(ends) else 0)
    left = data.kept(tokens, runs) if padding else tokens
    return Shard(left, ends, padding=padding, scanned=scanned)


class Place(NamedTuple):
    """Where a shard counts: its domain and side, and the file that stands for it."""

    domain: str
    side: str
    path: Path


def once(shards: Iterable[tuple[Place, Inventory]]) -> set[Path]:
    """Returns the files that stand for parts of what another shard of the same place holds whole.

    Raises:
        DataError: When a file is read for two shards, one of which is no part of the other.
    """
    held = {place: _files_of_tokens(place.path, found) for place, found in shards}
    parts: set[Path] = set()
    owner: dict[tuple[int, int], Place] = {}
    for place in sorted(held, key=lambda place: -len(held[place])):
        files = held[place]
        owners = {owner[file] for file in files if file in owner}
        whole = next(iter(owners), place)
        is_part = len(owners) == 1 and all(file in owner for file in files)
        if is_part and len(held[whole]) > len(files) and whole[:2] == place[:2]:
            parts.add(place.path)
        elif owners or len({*files}) < len(files):
            raise DataError(
                f"Expected every file of tokens once, found one of {place.path} ({place.domain}, "
                f"{place.side}) also in {whole.path} ({whole.domain}, {whole.side})"
            )
        else:
            owner |= dict.fromkeys(files, place)
    return parts


def _files_of_tokens(path: Path, found: Inventory) -> list[tuple[int, int]]:
    """What identifies the files that hold tokens: not the index that stands for them."""
    files = [file for file in found.files if file != path] if found.files[-1] == path else []
    return [(s.st_dev, s.st_ino) for s in map(Path.stat, files or found.files[:1])]


def require_alike(shards: Iterable[tuple[Place, Inventory]]) -> None:
    """Checks that every shard of a domain has its index, if others have one: one that lost it may
    have been cut.

    Raises:
        DataError: Names the index that is missing.
    """
    indexed: dict[tuple[str, str], Path] = {}
    lacking: dict[tuple[str, str], Path] = {}
    for place, found in shards:
        if found.index is not None:
            kind = place.domain, "".join(found.index.suffixes[-2:])
            (lacking if found.ends is None else indexed).setdefault(kind, found.index)
    for kind, missing in lacking.items():
        if kind in indexed:
            raise DataError(
                f"Expected an index of every shard of '{kind[0]}', as {indexed[kind]}, found no "
                f"{missing}"
            )
