"""The record of a run, `metrics.json`: written from these classes and read into them.

A number that a file does not hold, or holds in another form, is None; everything else is empty.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from bydore_pyro.methods import Details

__all__ = [
    "Check",
    "GuideRecord",
    "Inferred",
    "Learning",
    "MatchingRecord",
    "MethodDetails",
    "Metrics",
    "RoundRecord",
    "Spent",
    "Trial",
    "TrialRecord",
    "as_number",
    "plain",
    "read_as",
]

T = TypeVar("T")
Shares = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a part of a run cost (`Cost.report` of `bydore_pyro.proxy`), and its own parts."""

    tokens: float | None = None
    flops: float | None = None
    seconds: float | None = None
    parts: Mapping[str, Spent] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GuideRecord:
    """How the guide's draws fare against its model; `khat` has no unit and may be infinite.
    `corrected` tells whether the draws are the model's now."""

    khat: float | None = None
    effective_draws: float | None = None
    draws: float | None = None
    corrected: bool = False


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """A round of gradient matching after so many steps of the proxy.

    `weights` are by all evidence so far, `alone` by its own; of a training that moves its mixture,
    those trained on, and those found. The loss is in nats per token.
    """

    step: float = 0.0
    sequences: float | None = None
    validation_loss: float | None = None
    unexplained: float | None = None
    scale: float | None = None
    weights: Shares = dataclasses.field(default_factory=dict)
    alone: Shares = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """How inference by SVI ended."""

    steps: float | None = None
    settled: bool = False


@dataclass(frozen=True, kw_only=True)
class Check:
    """The check on fresh text; a slope > 0, in nats per token, asks for more of a domain."""

    slopes: Shares = dataclasses.field(default_factory=dict)
    errors: Shares = dataclasses.field(default_factory=dict)
    failing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MatchingRecord:
    """What a search by gradient matching found.

    `by_document_over_by_sequence`: how much wider the evidence's errors are than if every sequence
    were a witness of its own, in the median.
    """

    unexplained: float | None = None
    scale: float | None = None
    by_document_over_by_sequence: float | None = None
    rounds: tuple[RoundRecord, ...] = ()
    inference: Inferred = Inferred()
    check: Check = Check()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial run: its step as a share of the match's, its loss in nats per token, the probability
    that its step is the best."""

    length: float = math.nan
    loss: float = math.nan
    probability: float = math.nan
    weights: Shares = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """The trial runs of a search, of so many steps each."""

    steps: float | None = None
    tried: tuple[Trial, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Whether a proxy has learned: its last loss and that of a uniform prediction, nats per token;
    the warning is "" where it has."""

    validation_loss: float | None = None
    uniform_loss: float | None = None
    warning: str = ""


@dataclass(frozen=True, kw_only=True)
class MethodDetails(Details):
    """What `bydore fit` tells of its method's fit; of a search, with its own parts."""

    learning: Learning = Learning()
    matching: MatchingRecord = MatchingRecord()
    trials: TrialRecord = TrialRecord()


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What a run cost and reached: `metrics.json`.

    Attributes:
        method: That found the weights; "" for a search.
        seed: The run's.
        steps: Of the search.
        mixture_sha256: Of the weights, where a search has ended.
        stopped: Why the run broke off; "" where it did not.
        search: What finding the weights cost.
        verification: What judging them by fresh models cost; no part of the method.
        validation_loss_nats_per_token: Of fresh models, by what they trained on.
        jitter_second_half: Mean of ``sum_k |w_{t+1,k} - w_{t,k}|``.
        last_weights: Of the last step.
        learning: Whether the proxy has learned.
        matching: Of a search by gradient matching.
        trials: Its trial runs.
        guide_fit: Of a posterior.
        details: Of a method beside others.
        run_tokens: Length of the run that the weights are for.
        run_epochs: How often that run reads each domain.
        peak_memory_megabytes: Of the process.
        device: Of the proxy.
        threads: Of torch.
        versions: Of packages.
        commit: Of the code; "" where it is not known.
    """

    method: str = ""
    seed: float | None = None
    steps: float | None = None
    mixture_sha256: str = ""
    stopped: str = ""
    search: Spent = Spent()
    verification: Spent = Spent()
    validation_loss_nats_per_token: Shares = dataclasses.field(default_factory=dict)
    jitter_second_half: float | None = None
    last_weights: Shares = dataclasses.field(default_factory=dict)
    learning: Learning = Learning()
    matching: MatchingRecord = MatchingRecord()
    trials: TrialRecord = TrialRecord()
    guide_fit: GuideRecord = GuideRecord()
    details: MethodDetails = MethodDetails()
    run_tokens: float | None = None
    run_epochs: Shares = dataclasses.field(default_factory=dict)
    peak_memory_megabytes: float | None = None
    device: str = ""
    threads: float | None = None
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    commit: str = ""


def plain(record: Any) -> dict[str, Any]:
    """Returns a record as plain JSON values, without what is as in an empty one; infinity is a
    word."""
    empty = type(record)()
    return {
        field.name: _plain(value)
        for field in dataclasses.fields(record)
        if (value := getattr(record, field.name)) != getattr(empty, field.name)
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return plain(value)
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return "infinite" if isinstance(value, float) and math.isinf(value) else value


def read_as(kind: type[T], content: Any) -> T:
    """Returns plain values as a dataclass. Keys that it does not have are passed over, and a value
    of another form counts as none."""
    known = content if isinstance(content, dict) else {}
    found = {name: _value(hint, known.get(name)) for name, hint in get_type_hints(kind).items()}
    return kind(**{name: value for name, value in found.items() if value is not None})


def _value(hint: Any, given: Any) -> Any:
    """Returns a value of the hinted kind, None where another is given."""
    inner = get_args(hint)
    if hint is Any:
        return given
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


def as_number(value: Any) -> float | None:
    """Returns a number in the unit of the file, infinity for its word, None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf if value == "infinite" else None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
