"""The convex programme behind a decision: the law's losses with their derivatives, and the bounds.

With ``v_k = w_k^rho`` a loss is ``L_t = E + S ((b_t . v)^-g - 1) / g``. A sum over draws ``s`` and
targets ``t`` of a function of the losses has in ``v`` a gradient ``sum c_st b_st`` and a Hessian
``sum d_st b_st b_st'``. Where the transfer is the same in all draws,
``b_st = own_t + o_st S_t``, the sums over draws are taken first. So a thousand domains are no
harder with many draws than with one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from bydore_pyro.core.barrier import BarrierMinimum, barrier_minimum
from bydore_pyro.core.law import LawDraws

__all__ = ["Decision", "Goal", "Programme"]

INSIDE = 1e-6  # bounds that leave no room get so much


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is asked of a mixture.

    Attributes:
        objective: See `bydore_pyro.core.decision`.
        importance: ``p`` ``(T,)``, >= 0; equal when None.
        at_least: Bounds of the weights ``(K,)``; 0 when None.
        at_most: Likewise; 1 when None.
        baseline: Weights ``(K,)``, of `none_worse`.
        tolerance: Nats per token that a target may lose, > 0.
        probability: Of all targets together, in (0, 1).
        length: Tokens of the run that is asked for; those of the law's longest run when None.

    Raises:
        ValueError: When a number is out of its range, or a baseline stands without `none_worse`.
    """

    objective: Literal["mean", "worst", "none_worse"] = "mean"
    importance: Tensor | None = None
    at_least: Tensor | None = None
    at_most: Tensor | None = None
    baseline: Tensor | None = None
    tolerance: float = 0.02
    probability: float = 0.9
    length: float | None = None

    def __post_init__(self) -> None:
        if self.objective not in ("mean", "worst", "none_worse"):
            raise ValueError(
                f"Expected the objective mean, worst or none_worse, actual {self.objective!r}"
            )
        if (self.baseline is None) == (self.objective == "none_worse"):
            raise ValueError("Expected a baseline beside none_worse, and only there")
        if not self.tolerance > 0:
            raise ValueError(f"Expected tolerance > 0, actual {self.tolerance}")
        if not 0 < self.probability < 1:
            raise ValueError(f"Expected a probability in (0, 1), actual {self.probability}")
        if self.length is not None and not self.length > 0:
            raise ValueError(f"Expected length > 0, actual {self.length}")


class Decision(NamedTuple):
    """The best mixture.

    Attributes:
        weights: ``(K,)``.
        losses: Expected, of each target ``(T,)``, nats per token.
        objective: What was minimised, nats per token.
        price_at_least: By how much the objective rises for a unit of weight more of a lower bound,
            ``(K,)``, nats per token, >= 0.
        price_at_most: By how much it falls for a unit more of an upper bound, likewise.
        price_of_targets: ``worst``: shares of the targets in the objective, 0 for those that lie
            below the worst; ``none_worse``: its fall for a nat more of each target's tolerance.
        probability: Share of the draws in which no target is worse than under the baseline by more
            than the tolerance; 1 for other objectives.
    """

    weights: Tensor
    losses: Tensor
    objective: float
    price_at_least: Tensor
    price_at_most: Tensor
    price_of_targets: Tensor
    probability: float


class Programme:
    """B programmes, each over S draws of the law: one over all draws, or one for each draw.

    Points are weights, and with `worst` a further unknown, the worst loss.

    Raises:
        ValueError: When a vector of the goal is not of the law's shape or no mixture meets its
            bounds.
    """

    def __init__(self, draws: LawDraws, goal: Goal, each: bool = False) -> None:
        self.draws, self.goal = draws, goal
        targets, domains = draws.runs.own.shape
        given = torch.ones(targets) if goal.importance is None else goal.importance
        importance = _vector(given, targets, "importance")
        if not (float(importance.min()) >= 0 and float(importance.sum()) > 0):
            raise ValueError(f"Expected importance >= 0, some > 0, actual {importance.tolist()}")
        asked = importance > 0  # the others are no targets
        self.importance = importance[asked] / importance.sum()
        self.own = draws.runs.own[asked]
        batch = 1 if each else 0
        names = ("level", "slope", "power", "openness")
        self.level, self.slope, self.power, self.openness = (
            getattr(draws, name)[:, asked].unsqueeze(batch) for name in names
        )  # (B, S, T)
        self.transfer = draws.transfer[..., asked, :]
        if self.transfer.dim() == 3:
            self.transfer = self.transfer.unsqueeze(batch)
        self.rho = draws.runs.rho
        length = draws.runs.length if goal.length is None else goal.length
        # Of weights w the amounts are `full w^rho`.
        self.full = float(draws.runs.amounts_of(torch.full((domains,), length).double())[0])
        self.lower, self.upper = _bounds(goal, domains)
        self.epigraph = goal.objective == "worst"
        self.room: Tensor | None = None  # for each draw's loss of each target (B, S, T)
        self.kept = torch.ones(self.level.shape[:2], dtype=torch.bool)
        if goal.objective == "none_worse":
            assert goal.baseline is not None
            base = _vector(goal.baseline, domains, "baseline")
            sums = float(base.sum())
            if not (float(base.min()) >= 0 and abs(sums - 1) < 1e-4):
                raise ValueError(f"Expected a baseline >= 0 of sum 1, actual sum {sums:g}")
            self.baseline = base / sums
            self.room = self.losses(self.baseline[None])[0] + goal.tolerance

    def interior(self) -> Tensor:
        """Returns weights ``(K,)`` strictly within the bounds."""
        free = self.upper - self.lower
        return self.lower + free * (1 - self.lower.sum()) / free.sum()

    def losses(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns losses and their first and second derivatives by ``b . v``, ``(B, S, T)``."""
        amounts = self.full * weights**self.rho
        own = amounts @ self.own.T  # (B, T)
        if self.transfer.dim() == 2:
            others = (amounts @ self.transfer.T)[:, None]
        else:
            others = torch.einsum("bk,bstk->bst", amounts, self.transfer)
        ratio = own[:, None] + self.openness * others
        shrunk = (-self.power * ratio.log()).exp()
        losses = self.level + self.slope * (shrunk - 1) / self.power
        first = -self.slope * shrunk / ratio
        return losses, first, -first * (1 + self.power) / ratio

    def by_domain(self, coefficients: Tensor) -> Tensor:
        """Returns ``sum_s c_st b_st`` ``(B, T, K)`` of coefficients ``(B, S, T)``."""
        opened = coefficients * self.openness
        if self.transfer.dim() == 2:
            others = opened.sum(1)[..., None] * self.transfer
        else:
            others = torch.einsum("bst,bstk->btk", opened, self.transfer)
        return coefficients.sum(1)[..., None] * self.own + others

    def by_pair(self, coefficients: Tensor) -> Tensor:
        """Returns ``sum_st c_st b_st b_st'`` ``(B, K, K)``."""
        if self.transfer.dim() == 2:  # then it need not be formed for every draw
            pure, mixed, full = (
                (coefficients * self.openness**i).sum(1)[..., None] for i in range(3)
            )
            has = self.own.sum(1) > 0
            crossed = torch.zeros(len(pure), *[len(self.lower)] * 2).double()
            crossed.index_add_(1, self.own[has].argmax(1), (mixed * self.transfer)[:, has])
            diagonal = (pure * self.own).sum(1).diag_embed()
            return diagonal + crossed + crossed.mT + self.transfer.T @ (full * self.transfer)
        worth = (self.own + self.openness[..., None] * self.transfer).flatten(1, 2)  # (B, S T, K)
        return (coefficients.flatten(1)[..., None] * worth).mT @ worth

    def value(self, points: Tensor, barrier: float) -> Tensor:
        """The objective with the barriers of its constraints; see `barrier.Value`."""
        weights, worst = points.split([len(self.lower), points.shape[1] - len(self.lower)], 1)
        losses = self.losses(weights)[0]
        margin = self.margin(losses, worst)
        barred = barrier * margin.log().masked_fill(margin.isinf(), 0).sum((1, 2))
        mean = (losses.mean(1) * self.importance).sum(1)
        return (worst.squeeze(1) if self.epigraph else mean) - barred

    def derivatives(self, points: Tensor, barrier: float) -> tuple[Tensor, Tensor]:
        """Gradient and Hessian of `value`."""
        weights, worst = points.split([len(self.lower), points.shape[1] - len(self.lower)], 1)
        losses, first, second = self.losses(weights)
        margin, draws = self.margin(losses, worst), losses.shape[1]
        pull = barrier / margin
        stiff = pull / margin
        # Of the value by the losses.
        slope = (pull / draws if self.averaged else pull) * torch.ones_like(losses)
        if not self.epigraph:
            slope = slope + self.importance / draws
        by_amount = self.by_domain(slope * first).sum(1)  # (B, K)
        stiff = pull / margin
        if self.averaged:
            falls = self.by_domain(first / draws)  # (B, T, K)
            rows = stiff.mT * falls
            curved = self.by_pair(slope * second) + rows.mT @ falls
            tie = -rows.sum(1)
        else:
            curved = self.by_pair(slope * second + stiff * first.square())
            tie = -self.by_domain(stiff * first).sum(1)
        # From amounts to weights: v = full w^rho.
        speed = self.full * self.rho * weights ** (self.rho - 1)
        bend = (self.rho - 1) * speed / weights
        hessian = speed[:, :, None] * curved * speed[:, None] + (by_amount * bend).diag_embed()
        gradient = by_amount * speed
        if self.epigraph:
            tie = (tie * speed)[..., None]
            corner = stiff.sum((1, 2))[:, None, None]
            hessian = torch.cat([torch.cat([hessian, tie], 2), torch.cat([tie.mT, corner], 2)], 1)
            gradient = torch.cat([gradient, 1 - pull.sum((1, 2))[:, None]], 1)
        return gradient, hessian

    @property
    def averaged(self) -> bool:
        """Whether the constraints are for targets' mean losses, not for every draw's."""
        return self.room is None

    def margin(self, losses: Tensor, worst: Tensor) -> Tensor:
        """Returns by how much every constraint holds: infinite where there is none."""
        if self.room is not None:
            extra = worst[..., None] if self.epigraph else 0.0
            held = self.room + extra - losses
            return torch.where(self.kept[..., None], held, torch.inf)
        mean = losses.mean(1, keepdim=True)  # (B, 1, T)
        return worst[..., None] - mean if self.epigraph else torch.full_like(mean, torch.inf)

    def solve(self, weights: Tensor, first_gap: float = 0.1) -> BarrierMinimum:
        """Returns the best weights ``(B, K)`` (and worst losses), from some within all bounds."""
        constraints = self.importance.numel() * (1 if self.averaged else self.level.shape[1])
        if self.epigraph:
            losses = self.losses(weights)[0]
            over = losses.mean(1) if self.room is None else (losses - self.room).amax(1)
            weights = torch.cat([weights, over.amax(1, keepdim=True) + 1], 1)
        given = (self.value, self.derivatives, weights, self.lower, self.upper)
        return barrier_minimum(*given, constraints, first_gap)

    def excess(self, weights: Tensor) -> Tensor:
        """Returns by how much the target that is hit most has too high a loss, ``(B, S)``."""
        assert self.room is not None
        return (self.losses(weights)[0] - self.room).amax(2)

    def keep(self, weights: Tensor, spared: int) -> Tensor:
        """Gives up the draws that are hardest to serve; returns the greatest excess of the others.

        Args:
            weights: ``(B, K)``.
            spared: How many of the S are given up.
        """
        excess = self.excess(weights)
        order = excess.argsort(1)
        self.kept = torch.zeros_like(excess, dtype=torch.bool)
        self.kept.scatter_(1, order[:, : excess.shape[1] - spared], True)
        return torch.where(self.kept, excess, -torch.inf).amax(1)

    def feasible(self, interior: Tensor, spared: int) -> Tensor:
        """Returns weights ``(B, K)`` under which no target is too high in all draws but `spared`.

        They are near the baseline where that meets the bounds, else found by a programme.

        Raises:
            ValueError: When there are none.
        """
        share, base = 1.0, self.baseline
        while share > 1e-9:
            weights = torch.lerp(base, interior, share)
            within = ((weights > self.lower) & (weights < self.upper)).all()
            if within and float(self.excess(weights).max()) < 0:
                return weights
            share /= 4
        self.epigraph = True
        weights = self.solve(interior).points[:, : len(self.lower)]
        self.epigraph = False
        excess = float(self.keep(weights, spared).max())
        if excess >= 0:
            raise ValueError(
                "Expected bounds under which no target need be worse than under the baseline by "
                f"more than the tolerance, actual least excess {excess:.3g} nats"
            )
        return weights

    def decision(self, found: BarrierMinimum) -> Decision:
        """Returns the one solution, with the prices at it."""
        count = len(self.lower)
        weights = found.points[:, :count]
        losses = self.losses(weights)[0]
        margin = self.margin(losses, found.points[:, count:])
        mean = losses[0].mean(0)
        served = 1.0
        if self.room is not None:
            served = float((self.excess(weights) <= 0).double().mean())
        price_at_least = found.barrier / (weights[0] - self.lower)
        price_at_most = found.barrier / (self.upper - weights[0])
        answer = weights[0].clamp(min=0)
        return Decision(
            weights=answer / answer.sum(),
            losses=mean,
            objective=float(mean.max() if self.epigraph else self.importance @ mean),
            price_at_least=price_at_least,
            price_at_most=price_at_most,
            price_of_targets=(found.barrier / margin).sum((0, 1)),
            probability=served,
        )


def _vector(given: Tensor, count: int, name: str) -> Tensor:
    """Returns a vector in float64 after a check of its shape."""
    vector = torch.as_tensor(given).double()
    if vector.shape != (count,) or not vector.isfinite().all():
        raise ValueError(f"Expected {name} ({count},), finite, actual {tuple(vector.shape)}")
    return vector


def _bounds(goal: Goal, domains: int) -> tuple[Tensor, Tensor]:
    """Returns bounds ``(K,)`` with some room between them."""
    lower, upper = (
        torch.full((domains,), bound).double() if given is None else _vector(given, domains, name)
        for given, bound, name in (
            (goal.at_least, 0.0, "at_least"),
            (goal.at_most, 1.0, "at_most"),
        )
    )
    if not ((lower >= 0) & (lower <= upper)).all():
        raise ValueError("Expected 0 <= at_least <= at_most, actual other bounds")
    if not (float(lower.sum()) <= 1 + INSIDE / 2 and float(upper.sum()) >= 1 - INSIDE / 2):
        raise ValueError(
            "Expected at_least to sum to 1 at most and at_most to 1 at least, actual "
            f"{float(lower.sum()):g} and {float(upper.sum()):g}"
        )
    return lower * (1 - INSIDE), upper + INSIDE
