"""Domains that are measured together: small ones, with their nearest relatives.

Names are paths, such as `web/legal/high`. What cannot be measured alone is measured with its
siblings of the same fate, as `web/legal/*`. Where these are too little too, the smallest of the
other domains below `web/legal` join them; where there are none, those further up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bydore_pyro import files
from bydore_pyro.data.index import SPLITS
from bydore_pyro.data.store import SIDES, Text, TokenStore, nothing_counted, selected

FEWEST = 2  # sequences of a domain that is measured alone


class Pooled(NamedTuple):
    """A store that has its pools as domains too; the names to train on; and the domains of each
    pool among these names, with their shares of its tokens."""

    store: TokenStore
    names: tuple[str, ...]
    pools: dict[str, dict[str, float]]


def pooled(store: TokenStore, wanted: Sequence[str] | None, length: int) -> Pooled:
    """Pools the domains that have a path for a name and fewer than two sequences.

    Args:
        store: May have pools already, which stay.
        wanted: Domains, or what `selected` takes for such; all that have training text when None.
        length: Tokens in a sequence.

    Raises:
        DataError: When a domain is unknown.
    """
    known = pools_of(store)
    alone = [name for name in store.names if name not in known]
    names = [name for name in alone if len(store.train[name])]
    if wanted is not None:
        each = ([one] if one in known else selected([one], alone) for one in wanted)
        names = [name for some in each for name in some]
    found = _pools({name: len(store.train[name]) for name in names}, FEWEST * length)
    place = {name: pool for pool, members in found.items() for name in members}
    for pool, members in found.items():
        store = _with_pool(store, pool, members)
    if place:
        names = list(dict.fromkeys(place.get(name, name) for name in names))
    shares = {
        pool: {name: len(store.train[name]) / len(store.train[pool]) for name in members}
        for pool, members in pools_of(store).items()
        if pool in names
    }
    return Pooled(store, tuple(names), shares)


def gathered(values: Mapping[str, float], pools: Mapping[str, Iterable[str]]) -> dict[str, float]:
    """Returns numbers by domain, in which each pool has the sum over its domains."""
    pool_of = {name: pool for pool, members in pools.items() for name in members}
    found: dict[str, float] = {}
    for name, value in values.items():
        pool = pool_of.get(name, name)
        found[pool] = found.get(pool, 0.0) + value
    return found


def with_branches(store: TokenStore, names: Iterable[str]) -> TokenStore:
    """Returns a store in which each name that is a branch is one domain: all below it.

    Raises:
        DataError: When there is nothing below one.
    """
    for name in names:
        if name not in store.names:
            alone = (one for one in store.names if one not in pools_of(store))
            store = _with_pool(store, name, selected([name], alone))
    return store


def pools_of(store: TokenStore) -> dict[str, list[str]]:
    """Returns the domains of each pool of a store."""
    return store.index.get("pools", {})


def _pools(sizes: Mapping[str, int], least: int) -> dict[str, list[str]]:
    """Returns the domains of each pool, for domains' tokens."""
    small = {name for name, size in sizes.items() if size < least and "/" in name}
    left, members = dict(sizes), {name: [name] for name in sizes}
    above = {name[:at] for name in small for at, letter in enumerate(name) if letter == "/"}
    for branch in [*sorted(above, key=lambda path: (-path.count("/"), path)), ""]:
        below = [name for name in left if not branch or name.startswith(f"{branch}/")]
        own = [name for name in below if name in small]
        others = sorted((n for n in below if n not in small), key=lambda n: left[n])
        if own and sum(left[name] for name in own) < least:
            own += others[:1]
        if (total := sum(left[name] for name in own)) < least:
            continue
        small -= {*own}
        pool = f"{branch}/*".removeprefix("/")
        found = [one for name in own for one in members.pop(name)]
        for name in own:
            del left[name]
        left[pool], members[pool] = total, found
    return {pool: found for pool, found in members.items() if pool not in sizes}


def _with_pool(store: TokenStore, pool: str, members: Sequence[str]) -> TokenStore:
    """Returns a store with some domains as one domain too; nothing is copied."""
    entries, entry = store.index["domains"], nothing_counted()
    added: dict[str, Any] = {}
    for side in SIDES:
        texts = getattr(store, side)
        if {*members} <= {*texts}:  # nothing is judged in a store made by hand
            added[side] = {**texts, pool: Text.joined([texts[name] for name in members])}
    for side in SPLITS:
        own = [entries[name][side] for name in members]
        entry[side] = {key: sum(one[key] for one in own) for key in entry[side]}
        for key in ("sha256", "ends_sha256"):
            entry[side][key] = files.content_hash([one.get(key) for one in own])
    pools = {**pools_of(store), pool: [*members]}
    index = {**store.index, "domains": {**entries, pool: entry}, "pools": pools}
    return dataclasses.replace(store, index=index, **added)
