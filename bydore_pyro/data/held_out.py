"""Held-out sequences of a store: of domains, of which targets are made, and of tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch

from bydore_pyro.data.orders import Permutation, SequenceStream
from bydore_pyro.data.scored import Sequences, answered_sequences
from bydore_pyro.data.store import Text, TokenStore
from bydore_pyro.errors import DataError

HeldOut = Literal["validation", "judged"]  # of the first targets are made, the second judges models
EDGE = 1e-6  # shares that are normalised again differ by less
FEWEST_QUESTIONS = 64  # of a task, whatever its share, as far as it has them


def held_out_stream(
    store: TokenStore, name: str, length: int, seed: int, side: HeldOut = "validation"
) -> SequenceStream:
    """Returns a domain's held-out sequences, in a seed's order; judged ones in one for all seeds.

    Raises:
        DataError: When it has none.
    """
    tokens, judged = getattr(store, side).get(name, ()), side == "judged"
    if len(tokens) < length:
        kind = "judged text (every third held-out document)" if judged else "held-out text"
        raise DataError(
            f"Expected {kind} of at least {length} tokens in '{name}', found {len(tokens)}"
        )
    return SequenceStream(store, side, name, length, [0 if judged else seed, 3])


def held_out_size(text: Text, length: int) -> int:
    """Returns how many sequences of so many tokens a text has, or a task questions."""
    if text.answers is None:
        return len(text) // length
    return int(text.questions[-1]) + 1 if len(text) else 0


def held_out_sequences(
    store: TokenStore,
    name: str,
    length: int,
    seed: int,
    most: int,
    side: HeldOut = "validation",
) -> Sequences:
    """Returns held-out sequences of a domain's text, or questions of a task with their answers, in
    a seed's order; judged ones in one for all seeds.

    Args:
        store: The tokens.
        name: Of the domain or the task.
        length: ``T``, tokens in a sequence.
        seed: Of the order.
        most: Sequences or questions, at most.
        side: Of the store.

    Raises:
        DataError: When it has none.
    """
    text: Text | None = getattr(store, side).get(name)
    if text is None or text.answers is None:
        stream = held_out_stream(store, name, length, seed, side)
        rows = stream.rows(0, min(most, stream.count))
        tokens = torch.from_numpy(stream.sequences(rows).astype(np.int64))
        return Sequences(tokens, stream.documents(rows))
    count = held_out_size(text, length)
    order = Permutation(count, [0 if side == "judged" else seed, 3, *text.seed])
    return answered_sequences(text, length, order(np.arange(min(most, count))))


def held_out_counts(
    store: TokenStore, shares: Mapping[str, float], length: int, most: int, fewest: int = 1
) -> dict[str, int]:
    """Returns how many sequences of each domain's validation text a target is made of, and how many
    questions of each task.

    Sequences of plain text are as many as their shares say, so that each counts the same. A task
    has a mean of its own: it gives questions as its share says, but no fewer than 64. So has a text
    whose share is 0, which no mean counts: it gives as many as if all shares were equal.

    Args:
        store: The tokens.
        shares: Of the target, by domain or task, >= 0; they are normalised.
        length: Tokens in a sequence, ``T``.
        most: Sequences and questions in all, but for what a task gives in any case.
        fewest: Sequences in all, where there is no task.

    Raises:
        DataError: When there are fewer, or a share is of less than one sequence.
    """
    total = sum(shares.values())
    parts = {name: share / total for name, share in shares.items()}
    tasks = {name for name in parts if store.validation[name].answers is not None}
    alone = {n: part or 1 / len(parts) for n, part in parts.items() if n in tasks or not part}
    counts = {
        name: min(
            held_out_size(store.validation[name], length),
            max(FEWEST_QUESTIONS, round(most * part)),
        )
        for name, part in alone.items()
    }
    plain = {name: part for name, part in parts.items() if name not in alone}
    if plain:
        most = round(most * math.fsum(plain.values()))
        counts |= _plain_counts(store, plain, length, most, 1 if tasks else fewest)
    return {name: counts[name] for name in parts}


def _plain_counts(
    store: TokenStore, shares: Mapping[str, float], length: int, most: int, fewest: int
) -> dict[str, int]:
    """Returns how many sequences of each domain are as many as its share says."""
    total = sum(shares.values())
    held_out = {name: held_out_size(store.validation[name], length) for name in shares}
    parts = {name: share / total for name, share in shares.items()}
    limit = int(min(most, *(held_out[name] / part for name, part in parts.items())) + EDGE)
    counts = {name: round(part * limit - EDGE) for name, part in parts.items()}
    if (found := sum(counts.values())) < fewest:
        raise DataError(
            f"Expected at least {fewest} validation sequences of {length} tokens, found {found} "
            f"(held-out sequences: {held_out}); --validation_fraction holds out more, and so do "
            "files named validation beside train"
        )
    for name, count in counts.items():
        if not count:
            raise DataError(
                f"Expected a validation share of at least one in {2 * limit} for '{name}', "
                f"found {parts[name]:.2g}"
            )
    return counts
