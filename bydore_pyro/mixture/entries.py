"""Weights in entries: lists of a name with a number, and trees in which groups are shared out.

An entry of a tree has entries of its own, whose numbers sum to 1 (or 100): shares of the entry's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bydore_pyro.errors import listed
from bydore_pyro.mixture.listed import (
    COMMENT,
    EXAMPLE,
    SHOWN,
    Listed,
    keys_of,
    number_of,
    paired,
)
from bydore_pyro.mixture.names import names_of_paths
from bydore_pyro.mixture.units import Unit

#: What an entry is called by, first what is a name of its own.
NAMES = ("domain", "source_name", "name", "id", "dataset", "hf_dataset", "path", "prefix", "source")
PATHS = ("path", "prefix", "id", "hf_dataset")  # of these, what are paths
#: What the number of an entry is called, and its unit.
NUMBERS: dict[str, Unit] = {
    **dict.fromkeys(("weight", "proportion", "probability", "prob", "share"), "tokens"),
    **dict.fromkeys(("ratio", "target_ratio", "percentage", "percent"), "tokens"),
    **dict.fromkeys(("sampling_weight", "sample_weight"), "tokens"),
    **dict.fromkeys(("epochs", "repeat", "repetitions"), "epochs"),
    "fraction": "documents",
}
#: What the entries of an entry are called.
INSIDE = ("mixture", "mix", "sources", "datasets", "domains", "children", "subsets", "components")
ROUNDED = 0.005  # how far rounded shares may sum from 1

Calls = tuple[tuple[str, tuple[str, ...]], ...]  # what all entries are called, by what key


class _Entry(NamedTuple):
    """A name with its number, as it stands in a file, and the entries that share it out."""

    name: str
    number: Any
    unit: Unit
    inside: Any


def has_numbers(value: Any) -> bool:
    """Whether a value is a list or mapping of entries, of which one has a number."""
    entries = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and any(
        isinstance(one, dict) and not {*one}.isdisjoint(NUMBERS) for one in entries
    )


def weights_of_entries(found: Any, place: str) -> Listed:
    """Reads entries with names and numbers, in a list or by name.

    Args:
        found: The list, or the mapping.
        place: Where it stands, for messages.

    Raises:
        ValueError: When an entry has no name or number, numbers are of several units, or those of
            a group do not sum to 1.
    """
    entries, calls, left_out = _entries(found, place)
    remarks = (f"left out as no domain: {listed(left_out, SHOWN)}",) if left_out else ()
    units = {entry.unit for entry in entries}
    if len(units) != 1:
        raise ValueError(f"numbers of {' and of '.join(sorted(units)) or 'nothing'} in {place}")
    (unit,), tree = units, any(entry.inside for entry in entries)
    names, numbers, cut = [one.name for one in entries], [one.number for one in entries], ""
    if tree:
        leaves = [leaf for one in entries for leaf in _leaves(one, "", _number(one))]
        names, numbers = [name for name, _ in leaves], [number for _, number in leaves]
    elif calls and calls[0][0] in PATHS:
        names, cut = names_of_paths(names)
    return Listed(
        paired(names, numbers),
        declared=tree,
        cut=cut,
        unit=unit,
        remarks=remarks,
        others=() if tree else calls[1:],
    )


def _number(entry: _Entry) -> float:
    return number_of(entry.number, entry.name)


def _leaves(entry: _Entry, above: str, share: float) -> list[tuple[str, float]]:
    """Returns the entries below one that have none of their own, with their shares of it."""
    inner = not above or entry.name.startswith(f"{above}/")
    name = entry.name if inner else f"{above}/{entry.name}"
    if not entry.inside:
        return [(name, share)]
    inside, _, _ = _entries(entry.inside, f"the group '{name}'")
    numbers = [_number(one) for one in inside]
    total = math.fsum(numbers)
    if min(abs(total - 1), abs(total / 100 - 1)) > ROUNDED:
        pairs = zip(inside, numbers, strict=True)
        parts = listed([f"{one.name} {number:g}" for one, number in pairs], SHOWN)
        raise ValueError(
            f"the group '{name}' that sums to {total:.6g} instead of 1 ({parts}): its rest is not "
            "spread over the others"
        )
    return [
        leaf
        for one, number in zip(inside, numbers, strict=True)
        for leaf in _leaves(one, name, share * number / total)
    ]


def _entries(found: Any, place: str) -> tuple[list[_Entry], Calls, list[str]]:
    """Returns entries; what all are called by, the best first; and the names of comments."""
    if isinstance(found, dict):
        left_out = [key for key in found if COMMENT.fullmatch(key)]
        rows = {key: one for key, one in found.items() if key not in left_out}
        return [_entry(n, one, f"'{n:.60}' of {place}") for n, one in rows.items()], (), left_out
    comments = [one for one in found if isinstance(one, dict) and _is_comment(one)]
    listing = [one for one in found if one not in comments]
    if not all(isinstance(one, dict) for one in listing):
        raise ValueError(f"entries beside others in {place}: {EXAMPLE}")
    calls = _calls(listing, place)
    named = enumerate(zip(calls[0][1], listing, strict=True), 1)
    entries = [_entry(name, one, f"entry {number}") for number, (name, one) in named]
    return entries, calls, [key for one in comments for key in one]


def _is_comment(entry: Mapping[str, Any]) -> bool:
    return bool(entry) and all(isinstance(key, str) and COMMENT.fullmatch(key) for key in entry)


def _entry(name: str, entry: Any, place: str) -> _Entry:
    if not isinstance(entry, dict):
        return _Entry(name, entry, "tokens", None)
    keys = [key for key in NUMBERS if key in entry]
    if len(keys) > 1:
        raise ValueError(f"{' and '.join(map(repr, keys))} in {place}: keep one of them")
    if not keys:
        raise ValueError(f"no 'weight' in {place}, but {keys_of(entry)}: {EXAMPLE}")
    inside: Any = next((entry[k] for k in INSIDE if isinstance(entry.get(k), dict | list)), None)
    if inside is None:  # olmix has them beside the number
        groups = {key: one for key, one in entry.items() if isinstance(one, dict)}
        inside = groups if has_numbers(groups) else None
    return _Entry(name, entry[keys[0]], NUMBERS[keys[0]], inside)


def _calls(entries: Sequence[Mapping[str, Any]], place: str) -> Calls:
    """Returns by which keys all entries are called, with different names."""
    known: dict[str, tuple[str, ...]] = {}
    for key in NAMES:
        names = [one.get(key) for one in entries]
        texts = tuple(name for name in names if isinstance(name, str) and name)
        if texts and len(texts) == len(names):
            known[key] = texts
    found = tuple((key, names) for key, names in known.items() if len({*names}) == len(names))
    if found or len(known) == 1:
        return found or tuple(known.items())
    if known:  # a data set and its subset
        keys = [*reversed(known)]
        rows = zip(*(known[key] for key in keys), strict=True)
        return (("/".join(keys), tuple("/".join(row) for row in rows)),)
    for number, one in enumerate(entries, 1):
        if not any(isinstance(one.get(key), str) and one[key] for key in NAMES):
            raise ValueError(f"no 'domain' in entry {number}, but {keys_of(one)}: {EXAMPLE}")
    raise ValueError(f"no key that names all entries of {place}: {EXAMPLE}")
