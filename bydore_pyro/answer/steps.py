"""How long a step: trial runs of several lengths, and the probability that each is the best.

Which length is best is not in the gradients; see `bydore_pyro.core.point`. A proxy is trained on
the mixture of each length, and its loss on the target is evidence of the length. One of them is
the mixture that the law of losses finds best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bydore_pyro import files

FIRST = (1.0, 0.5, 0.25)  # lengths of a step, as shares of the match's
LAW = 0.0  # in place of a length: the mixture that the law of losses finds best
# Nats: the standard deviation of a proxy's loss over four seeds at a constant rate. Trials share a
# seed; their differences still vary by 0.02 (like mixtures) to 0.12 (unlike ones).
NOISE = 0.05
CHOICES, SEED = 100_000, 0  # draws of the best length


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial run: the mixture that its proxy was trained on, and how good that is.

    Attributes:
        length: Of the step, a share of the match's in (0, 1]; 0 is the law's mixture.
        loss: On the target, nats per token.
        probability: That this mixture is the best of all trials, in [0, 1].
        weights: Shares of training tokens, by domain.
    """

    length: files.Number
    loss: files.Number
    probability: files.Number
    weights: Mapping[str, files.Number]


@dataclass(frozen=True, kw_only=True)
class TriedSteps:
    """The trial runs of a search, as its record keeps them.

    Attributes:
        steps: Of each proxy.
        noise: Standard deviation of a loss over the proxy's seeds, nats per token; the
            probabilities presume it.
        tried: The trials; their probabilities sum to 1.
    """

    steps: int
    noise: files.Number
    tried: tuple[Trial, ...]

    def note(self) -> str:
        """Returns in words what the trials found."""
        results = ", ".join(
            f"{_tried(one.length)} {one.loss:.3f} ({100 * one.probability:.0f} %)"
            for one in self.tried
        )
        return (
            f"Trial runs of {self.steps} steps decided. Each trained a fresh proxy on one mixture. "
            "The loss on the target in nats per token, and the probability that the mixture is the "
            f"best: {results}."
        )


def tried_steps(
    steps: int,
    lengths: Sequence[float],
    mixtures: Sequence[Mapping[str, float]],
    losses: Sequence[float],
    noise: float = NOISE,
) -> TriedSteps:
    """Returns trials with the probability of each that its mixture is the best.

    Lengths that lead to the same mixture are one choice; the first of them stands for all.

    Args:
        steps: Of each proxy.
        lengths: Shares of the match's step, in (0, 1]; 0 is the law's mixture.
        mixtures: Weights by domain, one for each length.
        losses: On the target, nats per token.
        noise: Standard deviation of one of these losses over the proxy's seeds, nats per token.
    """
    draws = np.random.default_rng(SEED).standard_normal((CHOICES, len(losses)))
    draws = draws[:, [mixtures.index(own) for own in mixtures]]
    best = (np.array(losses) + noise * draws).argmin(1)
    chances = (np.bincount(best, minlength=len(losses)) / CHOICES).tolist()
    rows = zip(lengths, losses, chances, mixtures, strict=True)
    return TriedSteps(
        steps=steps,
        noise=noise,
        tried=tuple(Trial(length=a, loss=b, probability=p, weights=w) for a, b, p, w in rows),
    )


def _tried(length: float) -> str:
    """Returns in words which mixture a trial run trained on."""
    if length == LAW:
        return "the law's mixture"
    return "the match" if length == 1 else f"{length:g} of the step to the match"
