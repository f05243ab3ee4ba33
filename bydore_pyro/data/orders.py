"""Orders of a text's sequences, drawn by seeds: which come when, and which are kept aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.data.store import Text, TokenStore

ROUNDS = 8  # of a permutation
BLOCK = 64  # positions whose sequences are looked up at once
FEWEST_CHECKED = 8  # sequences: the scatter of fewer says little of the error of their mean


class Permutation:
    """A permutation of ``0 ... size - 1``, drawn by a seed, that takes no memory.

    A Feistel network permutes the numbers below the next power of four; a result that is not below
    `size`, which is in [1, 2^60], is permuted again (cycle walking), fewer than four times on
    average.

    References:
        Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 5.
    """

    def __init__(self, size: int, seed: Sequence[int]) -> None:
        self.size = size
        self._half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))  # bits
        self._mask = np.uint64((1 << int(self._half)) - 1)
        self._keys = np.random.SeedSequence(list(seed)).generate_state(ROUNDS, np.uint64)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Returns the numbers at `positions`, integers of the same shape below `size`."""
        numbers = self._network(np.asarray(positions, np.uint64))
        while (outside := numbers >= self.size).any():
            numbers[outside] = self._network(numbers[outside])
        return numbers.astype(np.int64)

    def _network(self, numbers: np.ndarray) -> np.ndarray:
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right + key) & self._mask)
        return (left << self._half) | right


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); wraps around at 2^64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


#: An order of a domain's sequences, and a part of it.
Choice = tuple[Permutation, range]


class SequenceStream:
    """Sequences of a domain's text, in a seeded order, without repetition within an epoch.

    Position ``n`` lies in epoch ``n // N`` and is found without replaying the ones before it.

    Args:
        store: The tokens.
        side: Of the store.
        name: The domain's.
        length: Tokens in a sequence, ``T``.
        seed: Numbers that, with the text's own (`Text.seed`), are the stream's seed.
        choice: An order of all sequences and the part of it that the stream is made of; all when
            None. Streams of different parts of one order share no sequence.
    """

    def __init__(
        self,
        store: TokenStore,
        side: str,
        name: str,
        length: int,
        seed: Sequence[int],
        choice: Choice | None = None,
    ) -> None:
        self._store, self._side, self._name, self._length = store, side, name, length
        text: Text = getattr(store, side)[name]
        self._choice, self._ends = choice, text.ends
        self.count = len(text) // length if choice is None else len(choice[1])
        self._seed = (*seed, *text.seed)
        self._block = lru_cache(maxsize=2)(self._find_block)

    def read(self, position: int, count: int) -> np.ndarray:
        """Returns sequences ``(count, T)`` from `position` of the stream on."""
        return self.sequences(self.rows(position, count))

    def first(self, most: int) -> Tensor:
        """Returns the first sequences ``(n, T)``, int64, each once, at most so many."""
        return torch.from_numpy(self.read(0, min(most, self.count)).astype(np.int64))

    def sequences(self, rows: np.ndarray) -> np.ndarray:
        """Returns the sequences ``(count, T)`` with these numbers in the text."""
        positions = rows[:, None] * self._length + np.arange(self._length)  # (count, T)
        return self._store.read(self._side, self._name, positions)

    def documents(self, rows: np.ndarray) -> np.ndarray:
        """Returns the number of the document at the middle of each of these sequences ``(n,)``."""
        return np.searchsorted(self._ends, rows * self._length + self._length // 2, side="right")

    def rows(self, position: int, count: int) -> np.ndarray:
        """Returns which sequences of the text ``(count,)`` come from `position` on."""
        blocks = range(position // BLOCK, -(-(position + count) // BLOCK))
        rows = np.concatenate([self._block(block) for block in blocks])
        start = position - blocks.start * BLOCK
        return rows[start : start + count]

    def _find_block(self, number: int) -> np.ndarray:
        """The sequences at `BLOCK` positions that follow each other; alone they would cost more."""
        positions = np.arange(number * BLOCK, (number + 1) * BLOCK)
        epochs = positions // self.count
        rows = np.empty_like(positions)
        for epoch in range(epochs[0], epochs[-1] + 1):
            own = epochs == epoch
            rows[own] = Permutation(self.count, [*self._seed, epoch])(positions[own] % self.count)
        if self._choice is None:
            return rows
        order, part = self._choice
        return order(rows + part.start)


def twins(store: TokenStore, names: Iterable[str]) -> dict[str, int]:
    """Returns by domain how many of the names before it stand for the same training text.

    It seeds their orders too: samples of the same text under two names must differ.
    """
    seen: Counter[tuple[int, ...]] = Counter()
    found = {}
    for name in names:
        text = store.train[name].seed
        found[name] = seen[text]
        seen[text] += 1
    return found


def kept_aside(
    text: Text, length: int, measured: int, seed: Sequence[int]
) -> tuple[Choice, Choice] | tuple[None, None]:
    """Returns which sequences of a domain are kept for measuring, and which are trained on.

    Both are a `choice` of `SequenceStream`, of one order. All of them where none can be kept: a
    domain of two sequences has none to spare.

    Args:
        text: Of the domain.
        length: Tokens in a sequence, ``T``.
        measured: How many sequences are to be kept; at most a third are.
        seed: Numbers that, with the text's own, are the seed of the order.
    """
    count = len(text) // length
    kept = min(measured, count // 3)
    if not kept:
        return None, None
    order = Permutation(count, [*seed, 4, *text.seed])
    return (order, range(kept)), (order, range(kept, count))


def left_to_check(kept: int, most: int) -> int:
    """Returns how many of a domain's kept sequences no measurement reads: a mixture is checked on
    them. At most a quarter; and none instead of fewer than 8, unless fewer are asked for."""
    count = min(most, kept // 4)
    return count if count >= min(most, FEWEST_CHECKED) else 0
