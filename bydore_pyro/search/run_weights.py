"""What a search by gradient matching finds for a run of one length, in which text may run out.

The rounds measure text that is fresh, and one set of gradients serves every length: only the
evidence is stated anew, in effective shares. Its scale is held at what the rounds found for fresh
text (1 where the domains cover the target), so that what repeated text fails to teach is taught by
other text. The proxy trains on the weights for fresh text, whatever the length.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bydore_pyro.core import MixtureGuide, infer_at_last, most_likely_weights
from bydore_pyro.mixture import PROXY_CONSTANT, effective_shares
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.matching_learners import MatchingPosterior

__all__ = ["RunWeights", "weights_for_run"]


@dataclass(frozen=True, kw_only=True)
class RunWeights:
    """The answer of a search for a run of one length.

    Attributes:
        tokens: Of the run.
        repetition_constant: ``R`` of `bydore_pyro.mixture.effective_shares`.
        weights: The most likely ones, in the evidence of the run ``(K,)``.
        epochs: How often the run reads each domain ``(K,)``.
        shares: What the weights amount to in fresh text, ``v (K,)``.
        unexplained: Share of the target's gradient that they leave, in [0, 1].
        guide: Of the posterior; None of a learner that has none.
        effective: What weights ``(K,)`` amount to in fresh text, in the unit of the evidence.
        arguments: Of `bydore_pyro.core.mixture_model`, for the posterior.
        settled: Whether inference settled.
    """

    tokens: float
    repetition_constant: float
    weights: Tensor
    epochs: Tensor
    shares: Tensor
    unexplained: float
    guide: MixtureGuide | None
    effective: Callable[[Tensor], Tensor]
    arguments: tuple[Any, ...]
    settled: bool

    @property
    def repeats(self) -> bool:
        """Whether the evidence is another than that of fresh text."""
        return len(self.arguments) > 4


def weights_for_run(
    state: MatchingSearch, tokens: float, repetition_constant: float = PROXY_CONSTANT
) -> RunWeights:
    """Infers the weights for a run of so many tokens from the gradients that a search has measured.

    Where its answer for fresh text reads no domain more than once, that is the answer.

    Args:
        state: A search after its last round; it is left as it is.
        tokens: Of the run, > 0.
        repetition_constant: ``R``, in epochs: how soon repeated text has taught what it can.

    Raises:
        ValueError: When `tokens` is not positive, or before the first round.
    """
    if not tokens > 0:
        raise ValueError(f"Expected tokens > 0, actual {tokens}")
    if state.signals is None:
        raise ValueError("Expected a search with at least one measured round, actual none")
    found, learner, signals = state.matching, state.learner, state.signals.double()
    once = state.domains.most_weights(1.0, tokens)
    rates = torch.tensor([1 / once[name] for name in state.domains.names], dtype=torch.float64)
    weights, scale = found.weights, found.scale
    guide = learner.guide if isinstance(learner, MatchingPosterior) else None
    arguments: tuple[Any, ...] = (signals, found.linear, 1.0, found.precision)
    settled = state.rounds[-1].settled

    def shares(w: Tensor) -> Tensor:
        return effective_shares(w, rates, repetition_constant)

    def effective(w: Tensor) -> Tensor:
        return scale * shares(w)

    if scale > 0 and bool((weights * rates > 1).any()):
        arguments = (*arguments, effective)
        weights = most_likely_weights(found.linear, found.precision, effective)
        if isinstance(learner, MatchingPosterior):
            # It goes on from the network for fresh text, whose scale it has no use for.
            guide = MixtureGuide(copy.deepcopy(learner.guide.network))
            evidence = (signals, found.linear, found.precision)
            found_by = infer_at_last(guide, *evidence, effective=effective, config=learner.config)
            settled = found_by.settled
    return RunWeights(
        tokens=tokens,
        repetition_constant=repetition_constant,
        weights=weights,
        epochs=weights * rates,
        shares=shares(weights),
        unexplained=found.unexplained_by(scale * shares(weights)),
        guide=guide,
        effective=effective,
        arguments=arguments,
        settled=settled,
    )
