"""The question that an answer answers: a goal on named domains, and the run that it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from bydore_pyro import law, mixture


@dataclass(frozen=True, kw_only=True)
class TargetRun:
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
        return mixture.effective_shares(self.before + weights, *given) - mixture.effective_shares(
            self.before, *given
        )

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
    """What is asked of a mixture of named domains.

    Attributes:
        names: The domains, ``K`` of them, in the order of the evidence.
        tokenizer: Hash of the tokenizer that counts the shares.
        data_sha256: Hash of the text.
        pools: What names stand for several domains.
        goal: What is made small, and within which bounds. The forecast adds the targets; `run` says
            what shares of fresh text the weights amount to.
        guards: The names of the targets that `none_worse` protects; all when empty.
        run: The run that is asked for, in which text may run out. None: a run as long as those that
            were read, in which it does not.
        references: Weights ``(K,)`` that the answer is compared with, by name.
        baseline: The name of the reference that matters most; "" where none does.
        notes: What users of the weights should know of the text, in sentences.
    """

    names: tuple[str, ...]
    tokenizer: str
    data_sha256: str
    pools: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    goal: law.Goal = field(default_factory=law.Goal)
    guards: tuple[str, ...] = ()
    run: TargetRun | None = None
    references: Mapping[str, Tensor] = field(default_factory=dict)
    baseline: str = ""
    notes: tuple[str, ...] = ()

    @property
    def least(self) -> dict[str, float]:
        """The smallest weights by name; none when no domain has one."""
        bounds = self.goal.at_least
        return {} if bounds is None else mixture.by_name(self.names, bounds)

    @property
    def most(self) -> dict[str, float] | None:
        """The largest weights by name; None when no domain has one."""
        bounds = self.goal.at_most
        return None if bounds is None else mixture.by_name(self.names, bounds)

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        """The smallest and the largest weight of each domain ``(K,)``, float64."""
        return self.goal.bounds_of(len(self.names))
