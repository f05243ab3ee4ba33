"""A run for which weights are wanted: text that runs out is read again, and teaches less."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bydore_pyro.mixture import PROXY_CONSTANT, effective_shares

__all__ = ["RunLength"]


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
        """Returns what weights ``(..., K)`` amount to in fresh text."""
        given = self.rates, self.repetition_constant
        return effective_shares(self.before + weights, *given) - effective_shares(
            self.before, *given
        )

    def repeats(self, weights: Tensor) -> bool:
        """Whether a run on weights ``(..., K)`` reads any text twice, or again."""
        again = (self.before + weights) * self.rates > 1
        return bool((again & (weights > 0)).any())

    def note(self) -> str:
        """Returns what the weights are for, in words."""
        told = (
            f"The weights are for a run of {self.tokens:,.0f} tokens, in which text that is read "
            f"again teaches less, by a repetition constant of {self.repetition_constant:g}"
        )
        if self.repetition_constant == PROXY_CONSTANT:
            told += ", a small proxy's; for a model of billions of parameters it is about 15"
        return f"{told}."
