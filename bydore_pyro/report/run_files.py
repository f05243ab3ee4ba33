"""The keys of `metrics.json` and `manifest.json` that the report tells of.

What a file does not tell, or tells in another form, is None or empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

__all__ = ["Cost", "Length", "Manifest", "Metrics", "Regressed", "Round", "as_number", "read_as"]

T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """What a part of a run cost, and its own parts by name."""

    tokens: float | None
    flops: float | None
    seconds: float | None
    parts: Mapping[str, Cost]


@dataclass(frozen=True)
class GuideFit:
    """How the guide's draws fare against its model; k-hat may be infinite."""

    khat: float | None
    effective_draws: float | None
    draws: float | None
    corrected: bool


@dataclass(frozen=True)
class Round:
    """A round of gradient matching: weights by all evidence so far, and by its own `alone`."""

    step: float  # steps of the proxy before it
    sequences: float | None
    validation_loss: float | None
    unexplained: float | None
    scale: float | None
    weights: Mapping[str, float]
    alone: Mapping[str, float]


@dataclass(frozen=True)
class Inferred:
    """How inference by SVI ended."""

    steps: float | None
    settled: bool


@dataclass(frozen=True)
class Check:
    """The check on fresh text: slopes > 0 ask for more of a domain."""

    slopes: Mapping[str, float]
    failing: tuple[str, ...]


@dataclass(frozen=True)
class Matching:
    """What a search by gradient matching found."""

    unexplained: float | None
    scale: float | None
    by_document_over_by_sequence: float | None
    rounds: tuple[Round, ...]
    inference: Inferred
    check: Check


@dataclass(frozen=True)
class Length:
    """The weights for a run of so many tokens, the ends of their intervals, and epochs."""

    tokens: float
    weights: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    epochs: Mapping[str, float]
    unexplained: float | None


@dataclass(frozen=True)
class Learning:
    """The warning where a proxy has not learned, "" where it has."""

    warning: str


@dataclass(frozen=True)
class Regressed:
    """How a regression does on runs that were left out; of one metric, what it predicts too."""

    regression: str
    spearman_x100: float | None
    rmse: float | None
    coverage: float | None
    seconds: float | None
    weights: float | None
    prior: float | None
    better_than_prior: float | None


@dataclass(frozen=True)
class Gain:
    """How much lower the predicted loss is than the prior's; runs before `sure` do not have it."""

    mean: float | None
    probability: float | None
    sure: bool | None


@dataclass(frozen=True)
class Distance:
    """Whether anything like the mixture was run; runs before `far` do not have it."""

    far: bool | None
    words: str


@dataclass(frozen=True)
class Predicted:
    """A large run's loss."""

    mean: float | None
    interval: tuple[float, ...]


@dataclass(frozen=True)
class ScaledUp:
    """A calibration to runs of a larger model."""

    runs: float | None
    spearman_x100: float | None
    slope: float | None
    weights: Predicted
    prior: Predicted
    probability: float | None


@dataclass(frozen=True)
class Scored:
    """A given mixture, scored."""

    mixture: str
    rank: float | None
    predicted: float | None
    low: float | None
    high: float | None
    better_than_prior: float | None
    nearest_run: float | None


@dataclass(frozen=True)
class Details:
    """What a method's fit tells of itself."""

    learning: Learning
    runs: float | None
    proxies: float | None
    regression: str
    regressions: Mapping[str, Regressed]
    each_metric: Mapping[str, Regressed]
    gain_over_prior: Gain
    distance: Distance
    scale_up: ScaledUp
    predictions: tuple[Scored, ...]


@dataclass(frozen=True)
class Metrics:
    """What a run cost and reached."""

    method: str
    seed: float | None
    steps: float | None
    stopped: str
    search: Cost
    verification: Cost
    jitter_second_half: float | None
    learning: Learning
    matching: Matching
    guide_fit: GuideFit
    details: Details
    lengths: tuple[Length, ...]
    run_tokens: float | None
    run_epochs: Mapping[str, float]
    validation_loss_nats_per_token: Mapping[str, float]
    peak_memory_megabytes: float | None
    device: str
    threads: float | None
    versions: Mapping[str, str]
    commit: str


@dataclass(frozen=True)
class Text:
    """A domain's documents, tokens and bytes on either side, and what was dropped of it."""

    train: Mapping[str, float]
    validation: Mapping[str, float]
    duplicates_dropped: float | None
    in_validation_dropped: float | None
    skipped: float | None


@dataclass(frozen=True)
class Manifest:
    """Where the text came from."""

    origin: str
    sha256: str
    tokenizer_sha256: str
    vocabulary: float | None
    files: tuple[Mapping[str, str], ...]
    domains: Mapping[str, Text]


def read_as(kind: type[T], content: Any) -> T:
    """Returns plain values as a dataclass; keys that it does not have are passed over."""
    known = content if isinstance(content, dict) else {}
    found = {}
    for name, hint in get_type_hints(kind).items():
        value = _value(hint, known.get(name))
        found[name] = _nothing(hint) if value is None else value
    return kind(**found)


def _value(hint: Any, given: Any) -> Any:
    """Returns a value of the hinted kind, None where another is given."""
    inner = get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return read_as(hint, given) if isinstance(given, dict) else None
    if get_origin(hint) is tuple:
        found = [_value(inner[0], one) for one in given] if isinstance(given, list) else []
        return tuple(one for one in found if one is not None)
    if get_origin(hint) is Mapping:
        items = given.items() if isinstance(given, dict) else ()
        named = {name: _value(inner[1], one) for name, one in items}
        return {name: one for name, one in named.items() if one is not None}
    if hint is str or bool in (hint, *inner):
        return given if isinstance(given, str if hint is str else bool) else None
    return as_number(given)


def _nothing(hint: Any) -> Any:
    """Returns what stands for a value that is not there."""
    return _value(hint, {}) if is_dataclass(hint) else None if get_args(hint) else hint()


def as_number(value: Any) -> float | None:
    """Returns a number in the unit of the file, infinity for its word, None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf if value == "infinite" else None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
