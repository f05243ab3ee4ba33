"""What is shown of many domains: the largest in their tree, and sums of all others."""

from __future__ import annotations

import dataclasses

import numpy as np

from bydore_pyro.mixture.mixture import MOST_SHOWN, Mixture
from bydore_pyro.mixture.tree import Row, Sums, below, interval_of, shown_rows

NAMES = [f"{a}/{b}/{c}" for a in "xyz" for b in "pqrs" for c in "12345"]  # 60 domains
WEIGHTS = np.random.default_rng(0).dirichlet(np.full(60, 0.3))


def test_few_domains_without_paths_are_only_ordered() -> None:
    assert shown_rows(["a", "b", "c"], [0.2, 0.5, 0.3]) == [
        Row("b", (1,), "domain"),
        Row("c", (2,), "domain"),
        Row("a", (0,), "domain"),
    ]
    rows = shown_rows([str(k) for k in range(25)], [0.0] * 25, most=24)
    assert [row.name for row in rows[:2]] == ["0", "1"], "ties in order"
    assert rows[-1] == Row("the rest (1 domain)", (24,), "rest")


def test_the_tree_shows_the_largest_and_every_sum_is_right() -> None:
    rows = shown_rows(NAMES, WEIGHTS.tolist())
    domains = [row.name for row in rows if row.kind == "domain"]
    largest = sorted(range(60), key=lambda k: -WEIGHTS[k])[:MOST_SHOWN]
    assert {*domains} == {NAMES[k] for k in largest}
    for row in rows[:-1]:
        below = [
            k for k, name in enumerate(NAMES) if name == row.name or name.startswith(f"{row.name}/")
        ]
        assert [*row.places] == below
        assert row.depth == row.name.count("/"), "every branch has several domains"
        assert row.label == "  " * row.depth + row.name
    assert {*rows[-1].places} == {*range(60)} - {*largest}
    assert rows[-1].name == "the rest (40 domains)"
    # All 15 branches fit; each row stands below its branch, after larger siblings.
    assert len(rows) == 20 + 15 + 1
    sums = [float(WEIGHTS[[*row.places]].sum()) for row in rows]
    for place, row in enumerate(rows[:-1]):
        parent, _, _ = row.name.rpartition("/")
        above = [one.name for one in rows[:place]]
        assert not parent or parent in above
        siblings = [k for k, one in enumerate(rows[:-1]) if one.name.rpartition("/")[0] == parent]
        assert [sums[k] for k in siblings] == sorted((sums[k] for k in siblings), reverse=True)


def test_intervals_of_domains_branches_and_the_rest() -> None:
    weights = tuple((WEIGHTS / WEIGHTS.sum()).tolist())
    mixture = Mixture(
        names=tuple(NAMES),
        weights=weights,
        hdi=tuple((w / 2, min(1.0, 2 * w)) for w in weights),
    )
    rows = {row.name: row for row in shown_rows(NAMES, weights)}
    sums = Sums(branches={"x": (0.1, 0.9)}, rest=(0.0, 0.5))
    rest = rows["the rest (40 domains)"]
    assert interval_of(mixture, rows["x"], sums) == (0.1, 0.9)
    assert interval_of(mixture, rows["y"], sums) is None, "it is not known"
    assert interval_of(mixture, rest, sums) == (0.0, 0.5)
    assert interval_of(mixture, rest) is interval_of(mixture, rows["x"]) is None
    first = next(row for row in rows.values() if row.kind == "domain")
    assert interval_of(mixture, first) == mixture.hdi[first.places[0]]
    other = shown_rows(NAMES, weights, most=30)[-1]
    assert interval_of(mixture, other, sums) is None, "another rest"
    bare = dataclasses.replace(mixture, hdi=None)
    assert interval_of(bare, first) is None
    # Caps move weights; the interval stays that of the domains that were the smallest before.
    capped = mixture.capped(dict.fromkeys(NAMES, 0.03))
    assert interval_of(capped, rest, sums) == (0.0, 0.5)


def test_paths_stand_for_what_is_below() -> None:
    assert below(["a/b/c", "a/b/d", "a/e", "f", "g/h"]) == {"a": [0, 1, 2], "a/b": [0, 1]}
    assert below(["a/b", "a/c"]) == {}, "all of them"
