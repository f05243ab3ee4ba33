"""Trial runs with given losses."""

from __future__ import annotations

from bydore_pyro.answer.steps import FIRST, TriedSteps
from bydore_pyro.mixture.mixture import Mixture


def trials_of(*losses: float, first_weights: tuple[float, ...] = (0.5, 0.4, 0.3)) -> TriedSteps:
    mixtures = [Mixture(names=("a", "b"), weights=(w, 1 - w)) for w in first_weights]
    return TriedSteps(10, FIRST[: len(losses)], tuple(mixtures[: len(losses)]), losses)
