"""Documents of a target that stand in the training text too, and a store without them.

Two documents are copies if their tokens are the same, but for the last one, which ends them:
`prepare` drops the same copies, of text, within one store. Files of rows, stores that are joined
and shards were not compared by it.

Few documents are read. A training document is a candidate if its length and its first tokens are
those of a document of the target; the candidates alone are compared whole. Of a domain with more
than two million documents of such lengths a part is compared: what is found is then a lower bound.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from bydore_pyro import files
from bydore_pyro.data.index import sha256_of
from bydore_pyro.data.store import Text, TokenStore

BEGIN = 16  # tokens of a document that are compared first
BLOCK = 2**16  # documents of which these are read at once
MOST = 2_000_000  # candidates of a domain that are compared; of more, so many, spread evenly
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, of no pattern: 2^64 divided by the golden ratio


def copies_in(store: TokenStore, target: str, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Returns which held-out documents of a target are training documents of domains.

    Args:
        store: Has the target's held-out text and the domains' training text.
        target: A domain of the store.
        names: The domains that are trained on.

    Returns:
        Booleans ``(n,)``, one a document of the target, by domain; none where no document is.
    """
    text = store.validation[target]
    starts, ends = text.starts, text.ends
    lengths, begins = ends - starts, _begins(text, starts, ends)
    digest = lru_cache(maxsize=None)(lambda i: _digest(text, int(starts[i]), int(ends[i])))
    found = {}
    for name in names:
        there = _digests_among(store.train[name], lengths, begins)
        if not there:
            continue
        copies = np.array([digest(i) in there for i in range(len(ends))], bool)
        if copies.any():
            found[name] = copies
    return found


def _digests_among(text: Text, lengths: np.ndarray, begins: np.ndarray) -> set[bytes]:
    """Hashes of the documents that have one of the lengths and one of the beginnings."""
    near, ends = [np.empty(0, np.int64)], text.ends
    for first in range(0, len(ends), BLOCK):
        before = ends[first - 1] if first else 0
        own = np.diff(ends[first : first + BLOCK], prepend=before)
        near.append(first + np.flatnonzero(np.isin(own, lengths)))
    numbers = np.concatenate(near)
    numbers, found = numbers[:: -(-len(numbers) // MOST) or 1], set()
    for first in range(0, len(numbers), BLOCK):
        own = numbers[first : first + BLOCK]
        starts, stops = np.where(own > 0, ends[own - 1], 0).astype(np.int64), ends[own]
        for i in np.flatnonzero(np.isin(_begins(text, starts, stops), begins)):
            found.add(_digest(text, starts[i], stops[i]))
    return found


def _begins(text: Text, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A hash of the first tokens of each document ``(n,)``."""
    hashes = np.zeros(len(starts), np.uint64)
    last = np.maximum(ends - 2, starts)  # the token before the one that ends it
    places = np.minimum(starts[:, None] + np.arange(BEGIN), last[:, None])
    begins = np.asarray(text[places]).astype(np.uint64)
    begins[ends - starts == 1] = 0  # of one that is empty
    for column in begins.T:
        hashes = (hashes + column + np.uint64(1)) * FACTOR
    return hashes


def _digest(text: Text, start: int, end: int) -> bytes:
    own = np.asarray(text[int(start) : int(end) - 1]).astype("<u8")
    return hashlib.sha256(own.tobytes()).digest()


def without_documents(store: TokenStore, name: str, gone: np.ndarray) -> TokenStore:
    """Returns a store without some held-out documents of a domain, booleans ``(n,)``; nothing is
    copied."""
    left = store.validation[name].only(~gone)
    entry = store.index["domains"][name]
    side = entry["validation"] | {
        "tokens": len(left),
        "documents": len(left.ends),
        "independent_documents": len(left.ends),
        "sha256": files.content_hash(
            [entry["validation"]["sha256"], np.flatnonzero(gone).tolist()]
        ),
        "ends_sha256": hashlib.sha256(left.ends.tobytes()).hexdigest(),
    }
    entry = {**entry, "validation": side, "in_training_dropped": int(gone.sum())}
    domains, index = {**store.index["domains"], name: entry}, store.index
    sha256 = sha256_of(domains, store.tokenizer_sha256, store.vocabulary, index["dtype"])
    return dataclasses.replace(
        store,
        validation={**store.validation, name: left},
        index={**index, "domains": domains, "sha256": sha256},
    )
