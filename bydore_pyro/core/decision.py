"""Decisions under the law of losses: the best mixture, its posterior, and what each bound costs.

A loss falls in effective tokens and is convex in them; these are concave in the weights. So the
mixture that minimises ::

    mean         sum_q p_q E[L_q(w)]
    worst        E[max_q L_q(w)]
    none_worse   the mean, under  P(L_q(w) <= L_q(baseline) + tolerance for all q) >= probability

with ``at_least <= w <= at_most`` on the simplex solves a convex programme. Targets ``q`` are made
of the law's rows (`bydore_pyro.core.losses`). ``E`` and ``P`` are over draws of the law, and of
what the targets are made of where each draw has its own. The probability is of all targets
together: the draws that are hardest to serve are given up, as many as it allows. Newton's steps on
the logarithmic barrier solve it, all draws of the best mixture at once; at the end ``barrier /
distance to the bound`` is the bound's price.

References: the barrier method is Boyd and Vandenberghe's (Convex Optimization, chapter 11); giving
up draws one set after the other is Campi and Garatti's (J. Optim. Theory Appl. 148, 2011).
"""

from __future__ import annotations

from torch import Tensor

from bydore_pyro.core.goal import Decision, Goal
from bydore_pyro.core.law import LawDraws
from bydore_pyro.core.programme import Programme

__all__ = ["best_mixture", "best_mixture_draws"]

GIVEN_UP = (0.0, 0.5, 0.8, 1.0, 1.0)  # of the draws that may be, one solution after the other
AGAIN = 1e-3  # the first gap from an earlier solution, nats per token


def best_mixture(draws: LawDraws, goal: Goal | None = None) -> Decision:
    """Returns the mixture that is best in expectation over the draws.

    Raises:
        ValueError: When the goal's shapes are not the law's; when no mixture meets the bounds, or
            none of these is as good as the baseline on every target.
    """
    programme = Programme(draws, goal or Goal())
    start = programme.interior()[None]
    if programme.room is None:
        return programme.decision(programme.solve(start))
    spared = int(len(draws.level) * (1 - programme.goal.probability) + 1e-9)
    weights = programme.feasible(start, spared)
    for number, share in enumerate(GIVEN_UP):
        programme.keep(weights, round(share * spared))
        found = programme.solve(weights, AGAIN if number else 0.1)
        weights = found.points
    return programme.decision(found)


def best_mixture_draws(draws: LawDraws, goal: Goal | None = None) -> Tensor:
    """Returns the best mixture of every draw ``(S, K)``: the posterior of the best weights.

    A draw is of the law, and of the targets' composition where that has draws too.

    Raises:
        ValueError: As `best_mixture`.
    """
    programme = Programme(draws, goal or Goal(), each=True)
    start = programme.interior().expand(len(programme.level), -1)
    if programme.room is not None:
        start = programme.feasible(start, 0)
    return programme.solve(start).points
