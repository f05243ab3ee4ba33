"""Domains of too little text are measured with what is nearest to them in the tree."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tiny import random_store

from bydore_pyro.data.index import DOMAIN_TOKENS
from bydore_pyro.data.pools import Pooled, gathered, pooled, pools_of
from bydore_pyro.data.store import TokenStore, nothing_counted
from bydore_pyro.data.variants import cut_store

LENGTH = 32


def tokens_by_name(tokens: dict[str, int]) -> dict[str, int]:
    return {name.replace("__", "/"): count for name, count in tokens.items()}


def store_of(**tokens: int) -> TokenStore:
    """A store of domains with so many training tokens each; `__` stands for '/'."""
    sizes = tokens_by_name(tokens)
    store = random_store(list(sizes))
    entries = {name: nothing_counted() for name in sizes}
    for name, entry in entries.items():
        for side, count in (("train", sizes[name]), ("validation", 6400)):
            entry[side] |= {"tokens": count, "sha256": f"{name} {side}", "ends_sha256": side}
    store.index["domains"] = entries
    return cut_store(store, sizes)


@pytest.mark.parametrize(
    ("tokens", "pools"),
    [
        ({"a__x": 90, "a__y": 200}, {}),
        # Siblings of the same fate.
        ({"a__x": 30, "a__y": 40, "a__z": 999, "b": 999}, {"a/*": ["a/x", "a/y"]}),
        # Too little even together: with the smallest of the others below the same path,
        ({"a__x": 9, "a__y": 99, "a__z": 98, "b": 64}, {"a/*": ["a/x", "a/z"]}),
        # or further up, first with those that were left there too.
        ({"a__b__x": 9, "a__c__y": 60, "a__z": 99, "d": 99}, {"a/*": ["a/b/x", "a/c/y"]}),
        ({"a__x": 9, "b__y": 9, "c": 80, "d": 70, "e": 90}, {"*": ["a/x", "b/y", "d"]}),
        # A pool takes in what has nobody else.
        ({"a__b__x": 40, "a__b__y": 40, "a__z": 9, "d": 99}, {"a/*": ["a/z", "a/b/x", "a/b/y"]}),
        # A name that is no path stands nowhere in a tree.
        ({"x": 9, "y": 9, "z": 99}, {}),
    ],
)
def test_what_is_too_little_is_pooled(tokens: dict[str, int], pools: dict[str, list[str]]) -> None:
    store = store_of(**tokens)
    found: Pooled = pooled(store, None, LENGTH)
    assert {pool: list(shares) for pool, shares in found.pools.items()} == pools
    assert pools_of(found.store) == pools
    stated = dict.fromkeys(tokens_by_name(tokens), 10)
    counted = dataclasses.replace(found.store, index={**found.store.index, DOMAIN_TOKENS: stated})
    for pool, own in pools.items():
        assert counted.size(pool) == 10 * len(own), "as much as is stated of its domains"
        assert counted.stands_for_other_text(pool)
    members = {name for own in pools.values() for name in own}
    assert {*found.names} == {*store.names} - members | {*pools}
    if not pools:
        assert found.store is store
    for shares in found.pools.values():
        assert sum(shares.values()) == pytest.approx(1)
        size = sum(len(store.train[name]) for name in shares)
        assert shares == {name: len(store.train[name]) / size for name in shares}
    again = pooled(found.store, found.names, LENGTH)
    assert (again.names, again.pools) == (found.names, found.pools)
    assert pooled(found.store, None, LENGTH).names == found.names


def test_a_pool_holds_its_domains_text() -> None:
    store = store_of(a__x=30, a__y=40, b=999)
    found, names, _ = pooled(store, ["b", "a"], LENGTH)
    assert names == ("b", "a/*")
    both = np.concatenate([store.train["a/x"], store.train["a/y"]])
    np.testing.assert_array_equal(np.asarray(found.train["a/*"]), both)
    assert found.train["a/*"].ends.tolist() == [30, 70]
    assert found.index["domains"]["a/*"]["train"]["tokens"] == 70
    other = store_of(a__x=30, a__z=40, b=999)
    hashes = {
        pooled(s, None, LENGTH).store.index["domains"]["a/*"]["train"]["sha256"]
        for s in (store, other)
    }
    assert len(hashes) == 2
    assert found.sha256 == store.sha256, "the text is the same"
    assert gathered({"b": 1, "a/x": 2, "a/y": 3}, {"a/*": {"a/x": 0.4, "a/y": 0.6}}) == {
        "b": 1,
        "a/*": 5,
    }
