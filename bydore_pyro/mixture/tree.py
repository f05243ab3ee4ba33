"""What a reader is shown of many domains: the largest, the branches that they lie in, and the rest.

Names are paths: `web/legal/high` lies in the branches `web` and `web/legal`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from bydore_pyro import files
from bydore_pyro.mixture.mixture import MOST_SHOWN, Mixture


def below(names: Collection[str]) -> dict[str, list[int]]:
    """Returns the places of the names below each path, if it stands for several but not for all.

    Of `web/legal/high` these are `web` and `web/legal`.
    """
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        for path in _above(name):
            places.setdefault(path, []).append(place)
    return {path: own for path, own in sorted(places.items()) if 1 < len(own) < len(names)}


class Row(NamedTuple):
    """A domain, a branch (all domains below a path), or the rest, not shown one by one.

    Attributes:
        name: Of the domain or branch; "the rest (5 domains)".
        places: Of the domains that it stands for.
        kind: Which of the three.
        depth: How many of the branches shown it lies in.
    """

    name: str
    places: tuple[int, ...]
    kind: Literal["domain", "branch", "rest"]
    depth: int = 0

    @property
    def label(self) -> str:
        """The name, indented by its depth."""
        return "  " * self.depth + self.name


def shown_rows(names: Sequence[str], weights: Sequence[float], most: int = MOST_SHOWN) -> list[Row]:
    """Returns the rows of a table or picture of domains: the largest first, below their branches.

    It shows the `most` largest domains, as many branches and all branches above either, and last
    the other domains as one row. A branch of one domain alone, or of all, is none (`below`).

    Args:
        names: Of K domains.
        weights: What they are ordered by ``(K,)``: weights, or other numbers >= 0 that add up.
        most: How many.
    """
    values, branches = np.asarray(weights, dtype=float), below(names)
    order = np.argsort(-values, kind="stable").tolist()
    leading, hidden = order[:most], order[most:]
    sums = {path: float(values[places].sum()) for path, places in branches.items()}
    largest = sorted(sums, key=lambda path: -sums[path])[:most]
    shown = {up for name in (*(names[k] for k in leading), *largest) for up in _above(name)}
    shown = {path for path in (*shown, *largest) if path in branches}

    def parents(name: str) -> list[str]:
        return [up for up in _above(name) if up in shown]

    rows = [Row(names[k], (k,), "domain", len(parents(names[k]))) for k in leading]
    rows += [Row(path, tuple(branches[path]), "branch", len(parents(path))) for path in shown]

    # A row stands behind the branches that it lies in, among its siblings by size.
    def key(row: Row) -> list[tuple[float, int]]:
        way = [(-sums[up], branches[up][0]) for up in parents(row.name)]
        return [*way, (-float(values[[*row.places]].sum()), row.places[0])]

    rows.sort(key=key)
    if hidden:
        name = f"the rest ({len(hidden)} domain{'s' * (len(hidden) > 1)})"
        rows.append(Row(name, tuple(hidden), "rest"))
    return rows


@dataclass(frozen=True, kw_only=True)
class Group:
    """Domains that stand for each other: what they have together is known better than what each
    has. The interval is that of their sum."""

    domains: tuple[str, ...]
    low: files.Number
    high: files.Number


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Intervals (94 % HDI) of sums of weights, which do not follow from those of single weights.

    Attributes:
        branches: Of all domains below a path, by path; empty where they are not known.
        rest: Of all domains but the 20 with the largest (free) weights; None where that is none, or
            not known.
        groups: Of domains that stand for each other, the largest weight first.
    """

    branches: Mapping[str, tuple[files.Number, files.Number]] = field(default_factory=dict)
    rest: tuple[files.Number, files.Number] | None = None
    groups: tuple[Group, ...] = ()


def interval_of(mixture: Mixture, row: Row, sums: Sums | None = None) -> tuple[float, float] | None:
    """Returns the interval of a row's weight, two shares in [0, 1]; None where it is not known."""
    if row.kind == "domain":
        return None if mixture.hdi is None else mixture.hdi[row.places[0]]
    if sums is None or row.kind == "branch":
        return None if sums is None else sums.branches.get(row.name)
    weights = np.array(mixture.free_weights or mixture.weights)
    hidden = np.argsort(-weights, kind="stable")[MOST_SHOWN:].tolist()
    return sums.rest if {*row.places} == {*hidden} else None


def _above(name: str) -> list[str]:
    """Returns the paths above a name, the topmost first."""
    return [name[:at] for at, letter in enumerate(name) if letter == "/"]
