"""One counter for what a method spends: tokens, FLOPs and seconds, by part."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Cost"]


@dataclass
class Cost:
    """Tokens that models read, FLOPs that they spent on them, and seconds, by part of a method."""

    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    flops: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Adds the block's wall-clock seconds to part `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def count(self, name: str, tokens: int, flops: float) -> None:
        """Adds `tokens` read by a model and the `flops` of its passes over them to part `name`."""
        self.tokens[name] += tokens
        self.flops[name] += flops

    def add(self, parts: Mapping[str, Mapping[str, Any]], prefix: str = "") -> None:
        """Adds what another counter reported as its `parts`, under their names after a prefix."""
        for name, spent in parts.items():
            self.count(prefix + name, int(spent["tokens"]), spent["flops"])
            self.seconds[prefix + name] += spent["seconds"]

    def report(self) -> dict[str, Any]:
        """Returns the totals and the parts as plain JSON values."""
        parts = {
            name: {
                "tokens": self.tokens.get(name, 0),
                "flops": self.flops.get(name, 0.0),
                "seconds": round(self.seconds.get(name, 0.0), 3),
            }
            for name in {**self.seconds, **self.tokens}
        }
        return {
            "tokens": sum(self.tokens.values()),
            "flops": sum(self.flops.values()),
            "seconds": round(sum(self.seconds.values()), 3),
            "parts": parts,
        }
