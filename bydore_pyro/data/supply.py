"""How much text there is of each domain: of a store, of a run's record of it, of a user's own rows.

A store may hold a sample, cuts documents and drops copies. What a trainer reads that has the text
itself is counted apart (`supply_of_rows`) from what one reads that has the tokens
(`supply_of_text`). What a user states of the corpus (`with_domain_tokens`) counts before both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from bydore_pyro.data.index import DOMAIN_TOKENS, UNITS
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError, listed
from bydore_pyro.mixture import Supply, supply_from

SHOWN = 10  # names in a message


def stated_tokens(
    entries: Sequence[str], names: Collection[str], others: Collection[str] = ()
) -> dict[str, float]:
    """Returns the tokens that are stated of domains.

    Args:
        entries: What `supply_from` takes.
        names: The domains that need some.
        others: Domains that may have some.

    Raises:
        DataError: When one of the names has none; names them. Or see `supply_from`.
    """
    stated = supply_from(entries, [*names, *others])
    if lacking := [name for name in names if name not in stated]:
        raise DataError(
            f"Expected --domain_tokens of every domain, found none of {listed(lacking, SHOWN)}"
        )
    return {n: one.tokens for n, one in stated.items() if n in names or n in others}


def with_domain_tokens(
    store: TokenStore, entries: Sequence[str], names: Collection[str]
) -> TokenStore:
    """Returns a store whose domains count with the tokens that are stated of them, in natural
    weights and in epochs. Its text and its hash stay.

    Args:
        store: It may hold a sample of the text.
        entries: What `supply_from` takes; none change nothing.
        names: The domains that are trained on.

    Raises:
        DataError: See `stated_tokens`.
    """
    if not entries:
        return store
    tokens = stated_tokens(entries, names, [name for name in store.names if name not in names])
    return dataclasses.replace(store, index={**store.index, DOMAIN_TOKENS: tokens})


def supply_of_rows(index: Mapping[str, Any], names: Collection[str]) -> dict[str, Supply]:
    """Returns a user's own rows or files, by domain: their number, and the tokens in all of them.

    A store cuts and drops text, so its documents are not the user's. ``D`` rows or files of ``B``
    bytes, as they were before, hold ``T = B t / b`` tokens, by the ``t`` tokens in ``b`` bytes of
    the training text, end-of-text tokens included.

    Args:
        index: A token store's index, or a run's manifest.
        names: Of the domains.

    Raises:
        DataError: When a domain is not there or has no training text, or when its rows or files
            were not counted: those of shards, of a domain with rows and text files, and of stores
            and runs of earlier versions.
    """
    return {name: _rows(index, name) for name in names}


def _rows(index: Mapping[str, Any], name: str) -> Supply:
    try:
        train = index["domains"][name]["train"]
        rate = train["tokens"] / train["bytes"] if train["tokens"] else 0.0
        if not rate:
            raise DataError(f"Expected training text of '{name}', found none")
        unit = index.get(UNITS, {})[name]
        found = Supply(rate * unit["bytes"], unit["count"], unit["of"])
        if not (0 < found.tokens / unit["count"] < math.inf and isinstance(found.kind, str)):
            raise ValueError
        if stated := index.get(DOMAIN_TOKENS, {}).get(name):
            found = Supply(stated).with_documents_of(found)
    except DataError:
        raise
    except (KeyError, TypeError, ZeroDivisionError, ValueError):
        raise DataError(
            f"Expected the number of rows or files that '{name}' has, found none, so that "
            "shares of documents are unknown: shards have no such number, nor have domains of "
            "both rows and text files, nor stores and runs of earlier versions (bydore prepare "
            "counts, then --data STORE); --samples sequences needs none"
        ) from None
    return found


def supply_of(index: Mapping[str, Any], names: Collection[str]) -> dict[str, Supply]:
    """Returns a user's own rows or files where they were counted, else the training text.

    Args:
        index: A token store's index, or a run's manifest.
        names: Of the domains; those without training text are left out.
    """
    found = supply_of_text(index, names)
    for name in found:
        with suppress(DataError):
            found[name] = _rows(index, name)
    return found


def supply_of_text(index: Mapping[str, Any], names: Collection[str]) -> dict[str, Supply]:
    """Returns the training text by domain, as it is stated; else, of a sampled one, all that the
    sample was drawn from.

    Documents are counted where `supply_of_rows` has their mean length.

    Args:
        index: A token store's index, or a run's manifest.
        names: Of the domains; those without training text are left out.
    """
    found = {}
    for name in names:
        train = index.get("domains", {}).get(name, {}).get("train", {})
        tokens = index.get(DOMAIN_TOKENS, {}).get(name)
        tokens = tokens or (train.get("in_all") or train).get("tokens", 0)
        if not tokens:
            continue
        found[name] = Supply(tokens)
        with suppress(DataError):
            found[name] = Supply(tokens).with_documents_of(_rows(index, name))
    return found
