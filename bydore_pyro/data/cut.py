"""A token store with less training text of some domains: text that runs out, made on purpose."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

import numpy as np

from bydore_pyro.data.store import TokenStore, check_needed

__all__ = ["cut_store"]


def cut_store(store: TokenStore, most: Mapping[str, int], seed: int | None = None) -> TokenStore:
    """Returns a store with no more than so many training tokens of some domains.

    Documents stay whole but for the last one taken, which fills the size up. Of two sizes with the
    same seed, the smaller one's text is the beginning of the larger one's. A domain that has no
    more than its number of tokens stays as it is.

    Args:
        store: The whole text.
        most: Training tokens that are left, by domain.
        seed: Of the order in which a domain's documents are taken; the store's own order when None.

    Raises:
        DataError: When there is no such domain.
    """
    check_needed(most, store.names)
    train, ends = dict(store.train), dict(store.train_documents)
    for name, size in most.items():
        if size < len(train[name]):
            order = None if seed is None else [seed, *name.encode()]
            train[name], ends[name] = _beginning(train[name], ends[name], size, order)
    identity = f"{store.sha256} {sorted(most.items())}" + (f" {seed}" if seed is not None else "")
    index = {**store.index, "sha256": hashlib.sha256(identity.encode()).hexdigest()}
    return dataclasses.replace(store, train=train, train_documents=ends, index=index)


def _beginning(
    tokens: np.ndarray, ends: np.ndarray, size: int, seed: list[int] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The first `size` tokens of documents in a seeded order, and where the documents end."""
    order = np.arange(len(ends))
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order)
    starts = np.concatenate([[0], ends[:-1]])
    total = np.cumsum((ends - starts)[order])
    count = int(np.searchsorted(total, size)) + 1
    kept = np.minimum(total[:count], size)
    if seed is None:
        return tokens[:size], kept  # as it lies on the disk, without a copy
    parts = [tokens[starts[document] : ends[document]] for document in order[:count]]
    return np.concatenate(parts)[:size], kept
