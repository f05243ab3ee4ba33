"""The mixture of a run: one for the whole run, or stages that follow each other.

A file of stages is a JSON or YAML list,

    - {until: 0.8, mixture: first/mixture.json}
    - {until: 50B, mixture: {web: 0.7, law: 0.3}}

`until` is the share of the run up to which the mixture holds or, above 1, the number of tokens; the
last stage reaches to the end and need not say so. Files are named relative to the list.
"""

from __future__ import annotations

import dataclasses
import json
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro import data, files
from bydore_pyro.command_line import number_of_tokens
from bydore_pyro.errors import expecting
from bydore_pyro.mixture import Mixture, has_numbers, mixture_from, normalised

SCHEDULE = "schedule.json"  # the mixtures in the folder of a run
FIELDS = {"until", "mixture", "tokenizer_sha256"}


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Mixtures that follow each other.

    Args:
        ends: The share of the run at which each of the ``M`` stages ends, in (0, 1], growing; the
            last is 1.
        mixtures: The mixture of each stage.

    Raises:
        ValueError: When the ends do not grow to 1, one for each mixture.
    """

    ends: tuple[float, ...]
    mixtures: tuple[Mixture, ...]

    def __post_init__(self) -> None:
        grows = all(a < b for a, b in zip((0.0, *self.ends), self.ends, strict=False))
        if len(self.ends) != len(self.mixtures) or not grows or self.ends[-1:] != (1,):
            raise ValueError(f"Expected ends that grow to 1, one a mixture, actual {self.ends}")

    @classmethod
    def constant(cls, mixture: Mixture) -> Stages:
        """Returns one mixture for the whole run."""
        return cls(ends=(1.0,), mixtures=(mixture,))

    @property
    def names(self) -> tuple[str, ...]:
        """The sorted domains that have weight in any stage."""
        return tuple(sorted({n for m in self.mixtures for n, w in m.as_dict().items() if w > 0}))

    @property
    def weights(self) -> np.ndarray:
        """The weights of `names` in each stage ``(M, K)``; rows sum to 1."""
        rows = [[m.as_dict().get(name, 0.0) for name in self.names] for m in self.mixtures]
        weights = np.array(rows)
        return weights / weights.sum(1, keepdims=True)

    def by_step(self, steps: int) -> Callable[[int], np.ndarray]:
        """Returns the function from a step, counted from 0, to its weights ``(K,)``."""
        weights, ends = self.weights, self.ends
        return lambda step: weights[bisect_right(ends, step / steps)]

    def shares(self) -> dict[str, float]:
        """Returns each domain's share of the whole run's tokens."""
        lengths = np.diff(self.ends, prepend=0.0)
        return dict(zip(self.names, (lengths @ self.weights).tolist(), strict=True))

    def to_json(self) -> str:
        """Returns a list of stages that `read_stages` can read."""
        stages = [
            {"until": end, "mixture": m.as_dict(), "tokenizer_sha256": m.tokenizer}
            for end, m in zip(self.ends, self.mixtures, strict=True)
        ]
        return json.dumps(stages, indent=2)


def read_stages(source: str, tokens: float, store: data.TokenStore | None = None) -> Stages:
    """Reads the mixture of a run, or its mixtures.

    Args:
        source: A list of stages; else whatever `mixture_from` reads.
        tokens: Length of the run.
        store: What the run trains on, whose names count, and whose sizes turn epochs into shares.

    Raises:
        DataError: When the file is missing or holds neither weights nor stages.
    """
    path = Path(source)
    stages: Any = None
    with suppress(OSError, ValueError):
        if path.is_file():  # a pipe can be read but once
            stages = files.yaml_or_json(path.read_text("utf-8"), words=True)
    if not _are_stages(stages):
        return Stages.constant(_mixture_for(source, store))
    with expecting(f"Expected stages of mixtures in {path}, found:", Exception):
        parts = [_stage(stage, tokens, path.parent, store) for stage in stages]
        ends = [end for end, _ in parts]
        if ends and ends[-1] is None:
            ends[-1] = 1.0
        if None in ends:
            raise ValueError("a stage that is not the last has no 'until'")
        return Stages(ends=tuple(ends), mixtures=tuple(mixture for _, mixture in parts))


def _are_stages(content: Any) -> bool:
    """Whether a file is a list of stages; one of entries with weights is a mixture."""
    if not isinstance(content, list) or has_numbers(content):
        return False
    return not content or any(isinstance(one, dict) for one in content)


def _mixture_for(source: str | Path, store: data.TokenStore | None) -> Mixture:
    return mixture_from(source) if store is None else data.read_mixture(source, store)


def _stage(
    stage: Any, tokens: float, folder: Path, store: data.TokenStore | None
) -> tuple[Any, Mixture]:
    """Returns the share of the run at which a stage ends, if it says so, and its mixture."""
    if not isinstance(stage, dict) or not {"mixture"} <= {*stage} <= FIELDS:
        raise ValueError(f"{stage!r:.80} instead of 'until' with 'mixture'")
    until, found = stage.get("until"), stage["mixture"]
    if isinstance(until, str):
        until = number_of_tokens(until)
    if until is not None:
        until = float(until) if until <= 1 else until / tokens
    if isinstance(found, str):
        here = folder / found
        return until, _mixture_for(here if here.exists() else found, store)
    if not isinstance(found, dict):
        raise ValueError(f"mixture: {found!r:.80} instead of a file or names with weights")
    tokenizer = stage.get("tokenizer_sha256")
    mixture = normalised(found, "a stage")
    return until, dataclasses.replace(mixture, tokenizer=None if tokenizer == "null" else tokenizer)
