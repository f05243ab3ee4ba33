"""One mixture for several targets, and how far a mixture falls short of the best one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.answer.answer import Answer
from bydore_pyro.answer.draws import interval_of_draws
from bydore_pyro.core import best_for_mean, central_weights, given_away

__all__ = ["compromise", "shortfall"]


def compromise(answers: Sequence[Answer]) -> Tensor:
    """Returns the one mixture ``(K,)`` that is nearest to several targets in the mean."""
    found, drawn = zip(*(one.evidence for one in answers), strict=True)
    u = torch.stack([central_weights(one.weights) for one in drawn])
    return best_for_mean(found[0].gram, u)


def shortfall(answer: Answer, weights: Tensor) -> tuple[float, float, float]:
    """Returns the share in [0, 1] of the best mixture's match with a target that a mixture loses.

    Args:
        answer: For the target.
        weights: Of the mixture ``(K,)``.

    Returns:
        The median, and the ends of the 94 % interval, of draws of the posterior.
    """
    found, drawn = answer.evidence
    lost = given_away(found.gram, drawn.weights, weights.double()).numpy()
    ((low, high),) = interval_of_draws(lost[:, None]).tolist()
    return float(np.median(lost)), low, high
