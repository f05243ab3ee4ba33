"""Estimates how many tokens a domain has in all, from the sample that was read of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any


class Sizes:
    """Sums over the files and parts of files that were read whole: the clusters of a sample.

    Of ``n`` clusters of ``x`` bytes and ``y`` tokens, out of ``X`` bytes:

        tokens = X R,   R = sum y / sum x
        error^2 = X^2 (1 - sum x / X) n / (n - 1) sum (y - R x)^2 / (sum x)^2

    Args:
        state: What `state` returned, to go on from there.

    References:
        Cochran, Sampling Techniques, 1977, section 6.3: the ratio estimate.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {"clusters": {}, "yields": {}, "begun": {}}
        self._clusters: dict[str, list[int]] = state["clusters"]  # n, sum x, sum x^2
        self._yields: dict[str, list[int]] = state["yields"]  # sum y, sum xy, sum y^2
        # Tokens by domain of sources that are not whole yet, or whose text is not all encoded.
        self._begun: dict[int, dict[str, int]] = {int(n): y for n, y in state["begun"].items()}
        self._whole: deque[tuple[int, str, int]] = deque()

    def add(self, number: int, name: str, tokens: int) -> None:
        """Counts tokens of a domain in a source."""
        found = self._begun.setdefault(number, {})
        found[name] = found.get(name, 0) + tokens

    def end(self, number: int, group: str, size: int) -> None:
        """Notes that a source of so many bytes has been read whole, for a domain or for all."""
        self._whole.append((number, group, size))

    def has(self, group: str) -> bool:
        """Whether a source has been noted for a domain or for all."""
        return group in self._clusters or any(own == group for _, own, _ in self._whole)

    def close(self, before: int) -> None:
        """Sums up the sources before this one; every token of them has been counted."""
        while self._whole and self._whole[0][0] < before:
            number, group, x = self._whole.popleft()
            _add(self._clusters, group, 1, x, x * x)
            for name, y in self._begun.pop(number, {}).items():
                _add(self._yields, name, y, x * y, y * y)
        for number in [n for n in self._begun if n < before]:
            del self._begun[number]  # stopped where the sample was full

    def state(self) -> dict[str, Any]:
        """Returns the sums as plain values, when all before the source being read is closed."""
        return {"clusters": self._clusters, "yields": self._yields, "begun": self._begun}

    def of(self, name: str, group: str, total: int) -> dict[str, int | None] | None:
        """Estimates a domain's tokens in `total` bytes, and their standard error, None if unknown;
        returns None where nothing was read whole, or all was."""
        n, x, xx = self._clusters.get(group, (0, 0, 0))
        y, xy, yy = self._yields.get(name, (0, 0, 0))
        if not y or x >= total:
            return None
        ratio, error = y / x, None
        if n > 1:
            squares = max(0.0, yy - 2 * ratio * xy + ratio**2 * xx)
            error = round(total / x * math.sqrt((1 - x / total) * n / (n - 1) * squares))
        return {"tokens": round(total * ratio), "standard_error": error}


def _add(sums: dict[str, list[int]], name: str, *terms: int) -> None:
    sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0, 0]), terms, strict=True)]
