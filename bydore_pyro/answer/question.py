"""The question that an answer answers: domains, caps, and a run in which text may run out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from bydore_pyro.mixture import PROXY_CONSTANT, effective_shares

__all__ = ["Question", "RunLength"]


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

    def repeats(self, weights: Tensor) -> bool:
        """Whether a run on weights ``(..., K)`` reads any text that was read before."""
        again = (self.before + weights) * self.rates > 1
        return bool((again & (weights > 0)).any())

    def note(self) -> str:
        """Returns in words what the weights are for."""
        text = (
            f"The weights are for a run of {self.tokens:,.0f} tokens, in which text that is read "
            f"again teaches less, by a repetition constant of {self.repetition_constant:g}"
        )
        if self.repetition_constant == PROXY_CONSTANT:
            text += ", a small proxy's; for a model of billions of parameters it is about 15"
        return f"{text}."


@dataclass(frozen=True, kw_only=True)
class Question:
    """The domains, the caps and the run that weights are wanted for.

    Attributes:
        names: The domains, ``K`` of them, in the order of the evidence.
        tokenizer: Hash of the tokenizer that counts the shares.
        data_sha256: Hash of the text.
        pools: What names stand for several domains.
        run: The run, where text may run out.
        most: The largest weight of each domain; any when None.
    """

    names: tuple[str, ...]
    tokenizer: str
    data_sha256: str
    pools: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    run: RunLength | None = None
    most: Mapping[str, float] | None = None
