"""The question that an answer answers: what mixture is best at what, for which run, within what."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from bydore_pyro.mixture import effective_shares

Objective = Literal["mean", "worst", "none_worse"]


@dataclass(frozen=True, kw_only=True)
class RunLength:
    """A run for which weights are wanted, in which text may run out and be read again.

    Attributes:
        tokens: Of the run.
        repetition_constant: ``R`` of `bydore_pyro.mixture.effective_shares`.
        rates: How often a run of one domain alone would read its text ``(K,)``.
        before: What was read of each domain before, as shares of the run's tokens ``(K,)``.
    """

    tokens: float
    repetition_constant: float
    rates: Tensor
    before: Tensor

    def effective(self, weights: Tensor) -> Tensor:
        """Returns the shares of fresh text that weights ``(..., K)`` amount to."""
        given = self.rates, self.repetition_constant
        return effective_shares(self.before + weights, *given) - effective_shares(
            self.before, *given
        )

    def with_more(self, share: float) -> RunLength:
        """Returns the same run with so much more text of every domain, as a share of what it has.

        ``effective`` is elementwise: its value at one domain is that of more text of this domain.
        """
        return dataclasses.replace(self, rates=self.rates / (1 + share))

    def repeats(self, weights: Tensor) -> bool:
        """Whether a run on weights ``(..., K)`` reads any text that was read before."""
        again = (self.before + weights) * self.rates > 1
        return bool((again & (weights > 0)).any())

    def note(self) -> str:
        """Returns in words what the weights are for."""
        return (
            f"The weights are for a run of {self.tokens:,.0f} tokens, in which text that is read "
            f"again teaches less, by a repetition constant of {self.repetition_constant:g}."
        )


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a mixture.

    Attributes:
        names: The domains, ``K`` of them, in the order of the evidence.
        tokenizer: Hash of the tokenizer that counts the shares.
        data_sha256: Hash of the text.
        pools: What names stand for several domains.
        run: The run, where text may run out.
        tokens: Length of the run that is asked for; that of the runs that were read when None.
        most: The largest weight of each domain; any when None.
        least: The smallest weight of some domains.
        objective: What is made small: see `bydore_pyro.law.decision`.
        tolerance: `none_worse`: nats per token that a target may lose to the baseline.
        probability: `none_worse`: that no target loses more.
        baseline: `none_worse`: one of `references`.
        references: Weights ``(K,)`` that the answer is compared with, by name.
        notes: What users of the weights should know of the text, in sentences.
    """

    names: tuple[str, ...]
    tokenizer: str
    data_sha256: str
    pools: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    run: RunLength | None = None
    tokens: float | None = None
    most: Mapping[str, float] | None = None
    least: Mapping[str, float] = field(default_factory=dict)
    objective: Objective = "mean"
    tolerance: float = 0.02
    probability: float = 0.9
    baseline: str = "natural"
    references: Mapping[str, Tensor] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def least_weights(self) -> Tensor:
        """The smallest weight of each domain ``(K,)``."""
        return torch.tensor([self.least.get(n, 0.0) for n in self.names], dtype=torch.double)

    @property
    def most_weights(self) -> Tensor:
        """The largest weight of each domain ``(K,)``, at most 1."""
        most = self.most or {}
        return torch.tensor([min(1.0, most.get(n, 1.0)) for n in self.names], dtype=torch.double)
