"""A random order of which any position can be computed by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Permutation"]

ROUNDS = 8


class Permutation:
    """A permutation of ``0 ... size - 1``, drawn by a seed.

    A Feistel network permutes the numbers below the next power of four, position by position; a
    result that is not below `size` is permuted again until it is (cycle walking), fewer than four
    times on average. Nothing of the order is kept in memory.

    Args:
        size: How many numbers, at least 1.
        seed: Integers >= 0 that name the order.

    Raises:
        ValueError: When `size` is smaller than 1 or larger than 2^60.

    References:
        Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 5.
    """

    def __init__(self, size: int, seed: Sequence[int]) -> None:
        if not 1 <= size <= 2**60:
            raise ValueError(f"Expected size in [1, 2**60], actual {size}")
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
