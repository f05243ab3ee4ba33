"""Held-out text of two sides: of validation text targets are made, judged text judges models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError, listed

HeldOut = Literal["validation", "judged"]  # sides of a store
EDGE = 1e-6  # shares that are normalised again differ by less


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
            f"(held-out sequences: {held_out}); {_advice(store, shares)}"
        )
    for name, count in counts.items():
        if not count:
            raise DataError(
                f"Expected a validation share of at least one in {2 * limit} for '{name}', "
                f"found {parts[name]:.2g}"
            )
    return counts


def _advice(store: TokenStore, names: Iterable[str]) -> str:
    """Returns how a target gets more text: of a file of rows all is held out already."""
    if files := [name for name in names if not len(store.train[name])]:
        return f"rows of more text in {listed(files)} make more"
    return "--validation_fraction holds out more, and so do files named validation beside train"
