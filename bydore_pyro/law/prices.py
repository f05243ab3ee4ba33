"""What an answer costs and is worth: how free each weight is, and what targets cost each other.

All losses are expectations over draws of the law, in nats per token.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from bydore_pyro.law.decision import best_mixture
from bydore_pyro.law.goal import Goal, as_vector
from bydore_pyro.law.law import LawDraws
from bydore_pyro.law.losses import losses_of

__all__ = ["freedom", "frontier", "objectives"]

HALVINGS = 30
AT_ONCE = 2**22  # numbers of losses


def freedom(draws: LawDraws, goal: Goal, weights: Tensor, rise: float = 0.01) -> Tensor:
    """Returns the least and the greatest weight of each domain at little cost ``(K, 2)``.

    The others keep their proportions; between the two the objective (the worst target's loss under
    `worst`, else the mean) is at most `rise` above that of the weights. Bounds of the goal are left
    out of account. The objective is convex, so that bisection finds both.

    Args:
        draws: Of the law. The time grows with their number: some fifty are enough for 1,000
            domains.
        goal: The objective and its targets.
        weights: Of the answer ``(K,)``.
        rise: In nats per token, > 0.

    Raises:
        ValueError: When the weights are not of the law's domains, >= 0 with sum 1, or the rise is
            not above 0.
    """
    domains = draws.runs.own.shape[1]
    if not 0 < rise < math.inf:
        raise ValueError(f"Expected rise > 0, finite, actual {rise}")
    answer = as_vector(weights, domains, "weights")
    if not (float(answer.min()) >= 0 and abs(float(answer.sum()) - 1) < 1e-4):
        raise ValueError(f"Expected weights >= 0 of sum 1, actual sum {float(answer.sum()):g}")
    if domains == 1:
        return torch.ones(1, 2).double()
    answer, own = answer / answer.sum(), torch.eye(domains).double()
    others = answer * (1 - own)
    alone = others.sum(1, keepdim=True) <= 0  # then the others share alike
    others = torch.where(alone, 1 - own, others)
    others = others / others.sum(1, keepdim=True)

    def objective(at: Tensor) -> Tensor:  # of each domain's weights (K, 2)
        moved = at[..., None] * own[:, None] + (1 - at[..., None]) * others[:, None]
        return _expected(draws, goal, moved.flatten(0, 1)).view_as(at)

    most = float(_expected(draws, goal, answer[None])) + rise
    near = answer[:, None].expand(-1, 2).clone()
    far = torch.tensor([0.0, 1.0]).double().expand(domains, -1).clone()
    near = torch.where(objective(far) <= most, far, near)
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        kept = objective(middle) <= most
        near, far = torch.where(kept, middle, near), torch.where(kept, far, middle)
    return near


def frontier(draws: LawDraws, goal: Goal, points: int = 11) -> tuple[Tensor, Tensor]:
    """Returns what two or three targets cost each other: weights ``(P, K)``, losses ``(P, Q)``.

    Each point is the best mixture for a weighted mean of the targets, within the goal's bounds. The
    importances are an even grid on the simplex, from the first target alone to the last alone. The
    targets are those of some importance in the goal.

    Args:
        draws: Of the law.
        goal: Targets and bounds.
        points: On each edge of the simplex, >= 2: ``P = points`` for two targets,
            ``points (points + 1) / 2`` for three.

    Raises:
        ValueError: When there are not two or three targets, or fewer points than two; as
            `best_mixture`.
    """
    made = goal.composition
    importance = goal.importance_of(draws.level.shape[1] if made is None else made.shape[-2])
    asked = importance.nonzero().squeeze(1)
    if len(asked) not in (2, 3):
        raise ValueError(f"Expected two or three targets, actual {len(asked)}")
    if points < 2:
        raise ValueError(f"Expected points >= 2, actual {points}")
    axis = torch.arange(points)
    grid = torch.cartesian_prod(*[axis] * (len(asked) - 1)).view(-1, len(asked) - 1).flip(0)
    grid = grid[grid.sum(1) < points]
    shares = torch.cat([grid, points - 1 - grid.sum(1, keepdim=True)], 1).double() / (points - 1)
    found = []
    for share in shares:
        given = torch.zeros_like(importance).scatter(0, asked, share)
        of_mean = replace(goal, objective="mean", baseline=None, guarded=None, importance=given)
        found.append(best_mixture(draws, of_mean))
    return torch.stack([one.weights for one in found]), torch.stack([one.losses for one in found])


def objectives(draws: LawDraws, goal: Goal, mixtures: Tensor) -> Tensor:
    """Returns draws of the objective of mixtures ``(S, M)``: the worst target's loss under `worst`,
    else the mean, nats per token.

    Args:
        draws: Of the law.
        goal: The objective and its targets.
        mixtures: Weights ``(M, K)``.

    Raises:
        ValueError: As `losses_of`.
    """
    losses = losses_of(draws, mixtures, goal.composition, goal.effective)  # (S, M, Q)
    losses = losses + goal.levels_of(losses.shape[2])
    importance = goal.importance_of(losses.shape[2])
    if goal.objective == "worst":
        return losses[..., importance > 0].amax(2)
    return losses @ importance


def _expected(draws: LawDraws, goal: Goal, mixtures: Tensor) -> Tensor:
    """Returns the objective of mixtures ``(M,)``."""
    at_once = max(1, AT_ONCE // draws.level.numel())
    parts = [objectives(draws, goal, some).mean(0) for some in mixtures.split(at_once)]
    return torch.cat(parts)
