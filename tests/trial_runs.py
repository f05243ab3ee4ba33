"""Trial runs with given losses."""

from __future__ import annotations

from bydore_pyro.answer.steps import FIRST, NOISE, TriedSteps, tried_steps


def trials_of(
    *losses: float,
    first_weights: tuple[float, ...] = (0.5, 0.4, 0.3),
    lengths: tuple[float, ...] = FIRST,
    noise: float = NOISE,
) -> TriedSteps:
    """Trials of these losses, of two domains."""
    mixtures = [{"a": first, "b": 1 - first} for first in first_weights[: len(losses)]]
    return tried_steps(10, lengths[: len(losses)], mixtures, losses, noise)
