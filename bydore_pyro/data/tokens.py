"""Token arrays of many parts, read in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

#: What is kept of an array: starts and ends, exclusive.
Runs = tuple[np.ndarray, np.ndarray]


class Tokens(Protocol):
    """A token array ``(N,)``, or an object that is read like one, by slices and positions."""

    @property
    def dtype(self) -> np.dtype:
        """The type of the tokens, unsigned integers."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


class LazyTokens:
    """An array of tokens that a function takes by their positions; a slice is another such array.

    Args:
        take: Returns the tokens at an array of positions, of its shape.
        dtype: Of the tokens.
        bounds: The first position, and the one behind the last.
    """

    def __init__(
        self, take: Callable[[np.ndarray], np.ndarray], dtype: np.dtype, bounds: tuple[int, int]
    ) -> None:
        self._take, self.dtype, self._bounds = take, dtype, bounds

    def __len__(self) -> int:
        return self._bounds[1] - self._bounds[0]

    def __getitem__(self, key: slice | np.ndarray) -> LazyTokens | np.ndarray:
        """Returns a slice, of step 1, or the tokens at an array of positions in [0, N)."""
        first = self._bounds[0]
        if isinstance(key, slice):
            start, stop, _ = key.indices(len(self))
            return LazyTokens(self._take, self.dtype, (first + start, first + max(start, stop)))
        return self._take(key + first)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return self._take(np.arange(*self._bounds)).astype(dtype or self.dtype)


def joined(parts: Sequence[Tokens]) -> Tokens:
    """Joins token arrays into one, one behind the other, without copying."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([len(part) for part in parts])
    dtype = np.result_type("<u2", *(part.dtype for part in parts))

    def take(positions: np.ndarray) -> np.ndarray:
        found, places = np.empty(positions.shape, dtype), np.searchsorted(ends, positions, "right")
        for place in np.unique(places):
            own = places == place
            found[own] = parts[place][positions[own] - (ends[place] - len(parts[place]))]
        return found

    return LazyTokens(take, dtype, (0, int(ends[-1]) if len(ends) else 0))


def kept(tokens: Tokens, runs: Runs) -> Tokens:
    """Returns the runs of an array, one behind the other, as an array; nothing is copied."""
    starts, stops = runs
    ends = np.cumsum(stops - starts)
    before = ends - (stops - starts)

    def take(positions: np.ndarray) -> np.ndarray:
        run = np.searchsorted(ends, positions, "right")
        return np.asarray(tokens[starts[run] + positions - before[run]])

    return LazyTokens(take, tokens.dtype, (0, int(ends[-1]) if len(ends) else 0))
