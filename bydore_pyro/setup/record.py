"""The record of a run, `metrics.json`: written from these classes and read into them.

A number that a file does not hold is None; everything else is empty.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from bydore_pyro.answer import Outlook
from bydore_pyro.files import Number
from bydore_pyro.measure import ResidualCheck
from bydore_pyro.methods import Details
from bydore_pyro.tables import TableRecord

Shares = Mapping[str, Number]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """The cost of a part of a run (`Cost.report` of `bydore_pyro.proxy`), and its own parts."""

    tokens: Number | None = None
    flops: Number | None = None
    seconds: Number | None = None
    parts: Mapping[str, Spent] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GuideRecord:
    """How well the draws of a guide stand in for those of its model; `khat` may be infinite."""

    khat: Number | None = None
    effective_draws: Number | None = None
    draws: Number | None = None


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """A round of gradient matching, after so many steps of the proxy.

    `weights` rest on all evidence so far, `alone` on this round's. Losses: nats per token.
    """

    step: Number = 0.0
    sequences: Number | None = None
    validation_loss: Number | None = None
    unexplained: Number | None = None
    scale: Number | None = None
    weights: Shares = dataclasses.field(default_factory=dict)
    alone: Shares = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DrawsRecord:
    """Whether draws are the posterior's.

    The chains of exact draws agree (`rhat` is nested R-hat), or importance weights have corrected
    the draws of a guide that has settled.
    """

    exact: bool = False
    settled: bool = False
    rhat: Number | None = None


@dataclass(frozen=True, kw_only=True)
class MatchingRecord:
    """What a search by gradient matching found."""

    unexplained: Number | None = None
    scale: Number | None = None
    rounds: tuple[RoundRecord, ...] = ()
    draws: DrawsRecord = DrawsRecord()
    check: ResidualCheck = dataclasses.field(default_factory=ResidualCheck)


@dataclass(frozen=True, kw_only=True)
class TargetRecord:
    """A target: its share of what is asked, what it is made of (the posterior's mean, and the ends
    of 94 % intervals), and the share of its gradient that no mixture explains."""

    importance: Number = 0.0
    composition: Shares = dataclasses.field(default_factory=dict)
    low: Shares = dataclasses.field(default_factory=dict)
    high: Shares = dataclasses.field(default_factory=dict)
    unexplained: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial run: its step as a share of the match's, or 0 for the mixture that the law of losses
    finds best; its loss in nats per token; the probability that it is the best."""

    length: Number = math.nan
    loss: Number = math.nan
    probability: Number = math.nan
    weights: Shares = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """The trial runs of a search, each of so many steps, and the standard deviation of one's loss
    over seeds, in nats per token, which the probabilities presume."""

    steps: Number | None = None
    noise: Number | None = None
    tried: tuple[Trial, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Whether a proxy has learned: its last loss, nats per token, and a warning, "" if it has."""

    validation_loss: Number | None = None
    warning: str = ""


@dataclass(frozen=True, kw_only=True)
class MethodDetails(Details):
    """What a method records of its fit; a search has parts of its own.

    Attributes:
        learning: Whether the proxy has learned.
        matching: Of gradient matching.
        trials: Trial runs.
        targets: What the answer is for, by name.
        outlook: The losses that the weights are expected to have, beside others'.
        table: Of a fit to a table of finished runs.
    """

    learning: Learning = Learning()
    matching: MatchingRecord = MatchingRecord()
    trials: TrialRecord = TrialRecord()
    targets: Mapping[str, TargetRecord] = dataclasses.field(default_factory=dict)
    outlook: Outlook = dataclasses.field(default_factory=Outlook)
    table: TableRecord = dataclasses.field(default_factory=TableRecord)


@dataclass(frozen=True, kw_only=True)
class Metrics(MethodDetails):
    """What a run found, cost and reached: `metrics.json`.

    Attributes:
        method: That found the weights; "" for a search.
        seed: The run's.
        mixture_sha256: Of the weights, where a search has ended.
        stopped: Why the run broke off; "" where it did not.
        search: What finding the weights cost.
        verification: What judging them by fresh models cost; no part of the method.
        validation_loss_nats_per_token: Of fresh models, by what they trained on.
        jitter_second_half: Mean of ``sum_k |w_{t+1,k} - w_{t,k}|``.
        guide_fit: Of a posterior.
        measured_anew: The domains that were measured for an answer, because the search did not know
            their text.
        measured: Hashes of the search's measurements, in the order of the rounds.
        run_tokens: Length of the run that the weights are for.
        run_epochs: How often that run reads each domain.
        peak_memory_megabytes: Of the process.
        device: Of the proxy.
        threads: Of torch.
        versions: Of packages.
        commit: Of the code; None where it is not known.
    """

    method: str = ""
    seed: Number | None = None
    mixture_sha256: str = ""
    stopped: str = ""
    search: Spent = Spent()
    verification: Spent = Spent()
    validation_loss_nats_per_token: Shares = dataclasses.field(default_factory=dict)
    jitter_second_half: Number | None = None
    guide_fit: GuideRecord = GuideRecord()
    measured_anew: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    run_tokens: Number | None = None
    run_epochs: Shares = dataclasses.field(default_factory=dict)
    peak_memory_megabytes: Number | None = None
    device: str = ""
    threads: Number | None = None
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    commit: str | None = None
