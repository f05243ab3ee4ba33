"""Held-out text: two documents of three are for targets, the third judges finished models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bydore_pyro.data.tokens import LazyTokens
from bydore_pyro.utils import DataError, content_hash

if TYPE_CHECKING:
    from bydore_pyro.data.store import Tokens, TokenStore

__all__ = ["HeldOut", "held_out_counts", "with_judged"]

HeldOut = Literal["validation", "judged"]  # sides of a store
EVERY = 3  # one document of so many is judged
EDGE = 1e-6  # shares that are normalised again differ by less


def with_judged(store: TokenStore, names: Iterable[str] | None = None) -> TokenStore:
    """Returns a store in which every third held-out document is no longer validation but judged.

    Documents are the independent ones. A domain that has judged text already stays as it is; one of
    fewer than three held-out documents gets none. Nothing is copied.

    Args:
        store: What is read from its files.
        names: Domains; when they are named, which changes the store's hash, only these are parted.
    """
    parts: dict[str, Any] = {
        part: dict(getattr(store, part))
        for part in ("validation", "validation_documents", "judged", "judged_documents", "files")
    }
    texts, ends, judged, judged_ends, files = parts.values()
    new = [n for n in (store.names if names is None else names) if not len(judged.get(n, ()))]
    for name in new:
        own = np.arange(len(ends[name])) % EVERY == EVERY - 1
        whole = texts[name], ends[name]
        texts[name], ends[name] = _documents(*whole, ~own)
        judged[name], judged_ends[name] = _documents(*whole, own)
        files["judged", name] = files.get(("validation", name), [])
    if names is not None and new:
        sha256 = content_hash([store.sha256, *new])
        parts["index"] = {**store.index, "sha256": sha256}
    return dataclasses.replace(store, **parts)


def _documents(tokens: Tokens, ends: np.ndarray, chosen: np.ndarray) -> tuple[Tokens, np.ndarray]:
    """Returns some documents of an array, one behind the other, and where they end."""
    if chosen.all() or not chosen.any():
        return (tokens, ends) if chosen.all() else (tokens[:0], ends[:0])
    own = np.cumsum(np.diff(ends, prepend=0)[chosen])
    own.flags.writeable = False
    shift = ends[chosen] - own

    def take(positions: np.ndarray) -> np.ndarray:
        return tokens[positions + shift[np.searchsorted(own, positions, "right")]]

    return LazyTokens(take, tokens.dtype, (0, int(own[-1]))), own


def held_out_counts(
    store: TokenStore, shares: Mapping[str, float], length: int, most: int, fewest: int = 1
) -> dict[str, int]:
    """Returns how many sequences of each domain's validation text a target is made of.

    Args:
        store: The tokens.
        shares: Of the target, by domain; they are normalised.
        length: Tokens in a sequence, ``T``.
        most: Sequences in all.
        fewest: Sequences in all.

    Raises:
        DataError: When there are fewer, or a share is of less than one sequence.
    """
    total, held_out = sum(shares.values()), {n: len(store.validation[n]) // length for n in shares}
    parts = {name: share / total for name, share in shares.items()}
    limit = int(min(most, *(held_out[name] / part for name, part in parts.items())) + EDGE)
    counts = {name: round(part * limit - EDGE) for name, part in parts.items()}
    if (found := sum(counts.values())) < fewest:
        raise DataError(
            f"Expected at least {fewest} validation sequences of {length} tokens, found {found} "
            f"(held-out sequences: {held_out}); --validation_fraction holds out more, and so do "
            "files named validation"
        )
    for name, count in counts.items():
        if not count:
            raise DataError(
                f"Expected a validation share of at least one in {2 * limit} for '{name}', "
                f"found {parts[name]:.2g}"
            )
    return counts
