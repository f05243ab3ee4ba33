"""The record of a run, `metrics.json`: written from these classes and read into them.

What a part of the run returns as plain values stands here as it is (`Spent`, `GuideFit`,
`TriedSteps`, `Convergence`, `ResidualCheck`, `Outlook`, `Sums`). A number that a file does not hold
is None, and everything else empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from bydore_pyro import answer, core, files, measure, methods, mixture, proxy, tables, targets
from bydore_pyro.law import PER_TOKEN

Shares = Mapping[str, files.Number]


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """A round of gradient matching, after so many steps of the proxy.

    `weights` rest on all evidence so far, `alone` on this round's. Losses: nats per token.
    """

    step: files.Number = 0.0
    sequences: files.Number | None = None
    validation_loss: files.Number | None = None
    unexplained: files.Number | None = None
    scale: files.Number | None = None
    weights: Shares = dataclasses.field(default_factory=dict)
    alone: Shares = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MatchingRecord:
    """The plain numbers of a search by gradient matching (`Matching`, whose tensors are not kept).

    Attributes:
        unexplained: Share of the target that no mixture explains (`Matching.unexplained`).
        responses: Whether that is of its responses to branches, not of its gradient.
        scale: Of the match.
        rounds: By the evidence of all rounds up to each.
        draws: Whether the draws are the posterior's.
        check: On text that no round has read.
    """

    unexplained: files.Number | None = None
    responses: bool = False
    scale: files.Number | None = None
    rounds: tuple[RoundRecord, ...] = ()
    draws: core.Convergence = dataclasses.field(default_factory=core.Convergence)
    check: measure.ResidualCheck = dataclasses.field(default_factory=measure.ResidualCheck)


@dataclass(frozen=True, kw_only=True)
class TargetRecord:
    """A target.

    Attributes:
        importance: Its share of what is asked.
        composition: What it is made of: the posterior's mean.
        low: The ends of 94 % intervals.
        high: Likewise.
        unexplained: The share of it that no mixture explains, likewise.
        loss: Where it was read last.
        unit: Of the loss.
        nats_per_token: The same loss; None where choices are scored.
        task: Of a task, where it comes from and what of it is lost.
    """

    importance: files.Number = 0.0
    composition: Shares = dataclasses.field(default_factory=dict)
    low: Shares = dataclasses.field(default_factory=dict)
    high: Shares = dataclasses.field(default_factory=dict)
    unexplained: files.Number = 0.0
    loss: files.Number | None = None
    unit: str = PER_TOKEN
    nats_per_token: files.Number | None = None
    task: targets.Told | None = None


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Whether a proxy has learned: its last loss, nats per token, and a warning, "" if it has."""

    validation_loss: files.Number | None = None
    warning: str = ""


@dataclass(frozen=True, kw_only=True)
class MethodDetails(methods.Details):
    """What a method records of its fit; a search has parts of its own.

    Attributes:
        learning: Whether the proxy has learned.
        matching: Of gradient matching.
        trials: Trial runs; None without any.
        targets: What the answer is for, by name.
        outlook: The losses that the weights are expected to have, beside others'.
        sums: Intervals of sums of the weights.
        table: Of a fit to a table of finished runs.
    """

    learning: Learning = Learning()
    matching: MatchingRecord = MatchingRecord()
    trials: answer.TriedSteps | None = None
    targets: Mapping[str, TargetRecord] = dataclasses.field(default_factory=dict)
    outlook: answer.Outlook = dataclasses.field(default_factory=answer.Outlook)
    sums: mixture.Sums = dataclasses.field(default_factory=mixture.Sums)
    table: tables.TableRecord = dataclasses.field(default_factory=tables.TableRecord)


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
        guide_fit: Of the guide of a posterior; None where no guide was fitted.
        measured_anew: The domains that were measured for an answer, because the search did not know
            their text.
        measured: Hashes of the search's measurements, in the order of the rounds.
        branches: Hashes of its branches.
        run_tokens: Length of the run that the weights are for.
        run_epochs: How often that run reads each domain.
        peak_memory_megabytes: Of the process.
        device: Of the proxy.
        threads: Of torch.
        versions: Of packages.
        commit: Of the code; None where it is not known.
    """

    method: str = ""
    seed: files.Number | None = None
    mixture_sha256: str = ""
    stopped: str = ""
    search: proxy.Spent | None = None
    verification: proxy.Spent | None = None
    validation_loss_nats_per_token: Shares = dataclasses.field(default_factory=dict)
    jitter_second_half: files.Number | None = None
    guide_fit: core.GuideFit | None = None
    measured_anew: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    run_tokens: files.Number | None = None
    run_epochs: Shares = dataclasses.field(default_factory=dict)
    peak_memory_megabytes: files.Number | None = None
    device: str = ""
    threads: files.Number | None = None
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    commit: str | None = None
