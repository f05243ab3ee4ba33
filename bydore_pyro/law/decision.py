"""Decisions under the law of losses: the best mixture, its posterior, and what each bound costs.

A loss falls in effective tokens and is convex in them; these are concave in the weights. So the
mixture that minimises ::

    mean         sum_q p_q E[L_q(w)]
    worst        E[max_q L_q(w)]
    none_worse   the mean, under  P(L_g(w) <= L_g(baseline) + tolerance for all g) >= probability

with ``at_least <= w <= at_most`` on the simplex solves a convex programme. Targets ``q`` are made
of the law's rows (`bydore_pyro.law.losses`); the targets ``g`` are all of them, or those that the
goal guards. ``E`` and ``P`` are over draws of the law, and of what the targets are made of where
each draw has its own. The probability is of all guarded targets together: the draws that are
hardest to serve are given up, as many as it allows. The baseline need not be within the bounds;
where no mixture is found that serves enough draws, there is no answer. Newton's steps on the
logarithmic barrier solve it, all draws of the best mixture at once; at the end ``barrier / distance
to the bound`` is the bound's price. Losses count in the law's own unit.

References: the barrier method is Boyd and Vandenberghe's (Convex Optimization, chapter 11); giving
up draws one set after the other is Campi and Garatti's (J. Optim. Theory Appl. 148, 2011).
"""

from __future__ import annotations

from torch import Tensor

from bydore_pyro.law.goal import Decision, Goal
from bydore_pyro.law.law import LawDraws
from bydore_pyro.law.programme import AGAIN, Programme

__all__ = ["best_mixture", "best_mixture_draws"]

GIVEN_UP = (0.0, 0.5, 0.8, 1.0, 1.0)  # of the draws that may be, one solution after the other


def best_mixture(draws: LawDraws, goal: Goal | None = None) -> Decision:
    """Returns the mixture that is best in expectation over the draws; it meets every bound exactly.

    Raises:
        ValueError: When the goal's shapes are not the law's; when no mixture meets the bounds, or
            none is found of these that with the goal's probability is as good as the baseline on
            every target.
    """
    programme = Programme.of(draws, goal or Goal())
    if programme.room is None:
        return programme.decision(programme.solve(programme.inside))
    count, spared = len(draws.level), _spared(programme)
    points = programme.near_baseline()
    if points is None:
        points = programme.least_excess(spared)
    for number, share in enumerate(GIVEN_UP):
        lost = count - int(programme.served(points))
        if lost > spared:
            raise _none_serves(programme, points)
        programme = programme.without_hardest(points, max(lost, round(share * spared)))
        found = programme.solve(points, AGAIN if number else 0.1)
        points = found.points
    decision = programme.decision(found)
    if decision.probability < (count - spared) / count:
        raise _none_serves(programme, points)
    return decision


def best_mixture_draws(draws: LawDraws, goal: Goal | None = None) -> Tensor:
    """Returns the best mixture of every draw ``(S, K)``: the posterior of the best weights.

    A draw is of the law, and of the targets' composition where that has draws too. Under
    `none_worse` a draw is served where a mixture within the bounds makes no target worse than under
    the baseline by more than the tolerance, in that draw. The goal's probability allows some draws
    that are not served: their mixture is the one that comes nearest, with the least excess on the
    target that is hit most. So every draw counts, and none is left out.

    Raises:
        ValueError: When the goal's shapes are not the law's; when no mixture meets the bounds, or
            fewer draws are served than the goal's probability asks for.
    """
    programme = Programme.of(draws, goal or Goal(), each=True)
    if programme.room is None:
        best = programme.solve(programme.inside).points
        return programme.bounds.nearest(programme.weights(best))
    near = programme.near_baseline()
    points = programme.least_excess() if near is None else near.clone()
    served, count = programme.served(points) > 0, len(points)
    if count - int(served.sum()) > _spared(programme):
        raise _none_serves(programme, points)
    if served.any():
        points[served] = programme.some(served).solve(points[served]).points
    return programme.bounds.nearest(programme.weights(points))


def _spared(programme: Programme) -> int:
    """Returns how many draws need not be served."""
    return int(len(programme.draws.level) * (1 - programme.goal.probability) + 1e-9)


def _none_serves(programme: Programme, points: Tensor) -> ValueError:
    excess = programme.unit * programme.excess(points).flatten().sort().values  # (S,)
    served = float((excess < 0).double().mean())
    least = float(excess[len(excess) - _spared(programme) - 1])
    return ValueError(
        "Expected bounds under which no target need be worse than under the baseline by more than "
        f"the tolerance, with a probability of {programme.goal.probability:g}, actual {served:.3g} "
        f"at best, least excess {least:.3g} nats"
    )
