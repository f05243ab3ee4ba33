"""How long a step: trial runs of several lengths, and the probability that each is the best.

Which length is best is not in the gradients; see `bydore_pyro.core.point`. A proxy is trained on
the mixture of each length, and its loss on the target is evidence of the length. One of them is
the mixture that the law of losses finds best.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bydore_pyro.mixture import Mixture

FIRST = (1.0, 0.5, 0.25)  # lengths of a step, as shares of the match's
LAW = 0.0  # in place of a length: the mixture that the law of losses finds best
# Nats: the standard deviation of a proxy's loss over four seeds at a constant rate. Trials share a
# seed; their differences still vary by 0.02 (like mixtures) to 0.12 (unlike ones).
NOISE = 0.05
CHOICES, SEED = 100_000, 0  # draws of the best length


@dataclass(frozen=True)
class TriedSteps:
    """Lengths of the step, a mixture for each, and the loss of a proxy that was trained on it.

    Attributes:
        steps: Of each proxy.
        lengths: Shares of the match's step, in [0, 1]; 0 is the law's mixture.
        mixtures: That were trained on.
        losses: On the target, nats per token.
        noise: Standard deviation of one of these losses over the proxy's seeds, nats per token.
    """

    steps: int
    lengths: tuple[float, ...]
    mixtures: tuple[Mixture, ...]
    losses: tuple[float, ...]
    noise: float = NOISE

    @cached_property
    def probabilities(self) -> tuple[float, ...]:
        """The probability in [0, 1] that each length is the best, summing to 1.

        Lengths that lead to the same mixture are one choice; the first of them stands for all.
        """
        noise = np.random.default_rng(SEED).standard_normal((CHOICES, len(self.losses)))
        weights = [mixture.weights for mixture in self.mixtures]
        noise = noise[:, [weights.index(own) for own in weights]]
        best = (np.array(self.losses) + self.noise * noise).argmin(1)
        return tuple((np.bincount(best, minlength=len(self.losses)) / CHOICES).tolist())

    def note(self) -> str:
        """Returns in words what the trials found."""
        rows = zip(self.lengths, self.losses, self.probabilities, strict=True)
        results = ", ".join(f"{_tried(rho)} {loss:.3f} ({100 * p:.0f} %)" for rho, loss, p in rows)
        return (
            f"Trial runs of {self.steps} steps decided. Each trained a fresh proxy on one mixture. "
            "The loss on the target in nats per token, and the probability that the mixture is the "
            f"best: {results}."
        )


def _tried(length: float) -> str:
    """Returns in words which mixture a trial run trained on."""
    if length == LAW:
        return "the law's mixture"
    return "the match" if length == 1 else f"{length:g} of the step to the match"
