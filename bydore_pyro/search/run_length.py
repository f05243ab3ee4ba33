"""A run of a given length, in which text may run out and be read again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bydore_pyro.data import Domains
from bydore_pyro.mixture import PROXY_CONSTANT, effective_shares

__all__ = ["RunLength", "run_of_length"]


@dataclass(frozen=True, kw_only=True)
class RunLength:
    """A run for which weights are wanted.

    Attributes:
        tokens: Of the run.
        repetition_constant: ``R`` of `bydore_pyro.mixture.effective_shares`.
        rates: How often a run of one domain alone would read its text ``(K,)``.
    """

    tokens: float
    repetition_constant: float
    rates: Tensor

    def effective(self, weights: Tensor) -> Tensor:
        """Returns what weights ``(..., K)`` amount to in fresh text."""
        return effective_shares(weights, self.rates, self.repetition_constant)

    def repeats(self, weights: Tensor) -> bool:
        """Whether a run on weights ``(K,)`` reads any text twice."""
        return bool((weights * self.rates > 1).any())


def run_of_length(
    domains: Domains, tokens: float, repetition_constant: float = PROXY_CONSTANT
) -> RunLength:
    """Returns a run of so many tokens of these domains.

    Args:
        domains: Their sizes.
        tokens: Of the run, > 0.
        repetition_constant: ``R``, in epochs: how soon repeated text has taught what it can.

    Raises:
        ValueError: When `tokens` is not positive.
    """
    if not tokens > 0:
        raise ValueError(f"Expected tokens > 0, actual {tokens}")
    once = domains.most_weights(1.0, tokens)
    rates = torch.tensor([1 / once[name] for name in domains.names], dtype=torch.float64)
    return RunLength(tokens=tokens, repetition_constant=repetition_constant, rates=rates)
