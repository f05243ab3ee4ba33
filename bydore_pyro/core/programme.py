"""The convex programme behind a decision: targets' losses with their derivatives, and the bounds.

With ``v_k = f(w_k)^rho``, ``f`` the shares of fresh text that weights amount to (themselves where
none runs out), a row of the law has the loss ``L_t = E + S ((b_t . v)^-g - 1) / g``. A target's is
``L_q = sum_t C_qt L_t``. A sum over draws ``s`` of a function of the losses has in ``v`` a gradient
``sum c_st b_st`` and a Hessian ``sum d_st b_st b_st' + sum e_sq g_sq g_sq'``, ``g_sq`` the gradient
of a target's loss. It is multiplied with directions and not formed: first ``b_st . x``, then sums
of these. Where the transfer is the same in all draws, ``b_st = own_t + o_st S_t``, this costs no
more with many draws than with one: at a thousand domains a millisecond or two.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bydore_pyro.core.barrier import BarrierMinimum, Curvature, barrier_minimum
from bydore_pyro.core.goal import Decision, Goal, bent
from bydore_pyro.core.law import LawDraws
from bydore_pyro.core.losses import checked_composition, losses_of

__all__ = ["Programme"]

ROOT_STEPS = 60  # each doubles a margin at least, until it converges


class Programme:
    """B programmes, each over S draws of the law: one over all draws, or one for each draw.

    Raises:
        ValueError: When a vector of the goal is not of the law's shape or no mixture meets its
            bounds.
    """

    def __init__(self, draws: LawDraws, goal: Goal, each: bool = False) -> None:
        self.draws, self.goal = draws, goal
        rows, domains = draws.runs.own.shape
        made = checked_composition(goal.composition, draws)
        targets = rows if made is None else made.shape[-2]
        importance = goal.importance_of(targets)
        # Without importance a target matters to `none_worse` alone.
        self.asked = (importance > 0) | (goal.objective == "none_worse")
        self.importance = importance[self.asked]
        self.levels = goal.levels_of(targets)
        if made is None:
            needed = self.asked
        elif made.dim() == 2 and (made > 0).sum(1).eq(1).all():  # each target is one row
            needed, made = made.argmax(1)[self.asked], None
        else:
            made = made[..., self.asked, :]
            needed = made.flatten(0, -2).amax(0) > 0
            made = made[..., needed]
        batch = 1 if each else 0
        # (Q, T), or (B, S, Q, T)
        self.composition = made.unsqueeze(batch) if made is not None and made.dim() == 3 else made
        self.own = draws.runs.own[needed]
        names = ("level", "slope", "power", "openness")
        self.level, self.slope, self.power, self.openness = (
            getattr(draws, name)[:, needed].unsqueeze(batch) for name in names
        )  # (B, S, T)
        self.transfer = draws.transfer[..., needed, :]
        if self.transfer.dim() == 3:
            self.transfer = self.transfer.unsqueeze(batch)
        self.rho = draws.runs.rho
        # Of shares f of fresh text the amounts are `full f^rho`.
        length = torch.full((domains,), draws.runs.length).double()
        self.full = float(draws.runs.amounts_of(length)[0])
        self.lower, self.upper = goal.bounds_of(domains)
        self.epigraph = goal.objective == "worst"
        self.room: Tensor | None = None  # for each draw's loss of each target (B, S, Q)
        self.kept = torch.ones(self.level.shape[:2], dtype=torch.bool)
        if goal.objective == "none_worse":
            self.baseline = goal.baseline_of(domains)
            self.room = self.losses(self.baseline[None]) + goal.tolerance

    def interior(self) -> Tensor:
        """Returns weights ``(K,)`` strictly within the bounds."""
        free = self.upper - self.lower
        return self.lower + free * (1 - self.lower.sum()) / free.sum()

    def losses(self, weights: Tensor) -> Tensor:
        """Returns every target's loss in every draw, ``(B, S, Q)``."""
        return self.of_targets(self.rows(weights)[0])

    def rows(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns rows' losses and their two derivatives by ``b . v``, each ``(B, S, T)``."""
        fresh = weights if self.goal.effective is None else self.goal.effective(weights)
        amounts = self.full * fresh**self.rho
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

    def of_targets(self, rows: Tensor) -> Tensor:
        """Returns targets' losses ``(B, S, Q)`` of rows' ``(B, S, T)``."""
        return self.summed(rows[:, None])[:, 0] + self.levels[self.asked]

    def summed(self, rows: Tensor) -> Tensor:
        """Returns ``sum_t C_qt x_t`` ``(B, N, S, Q)`` of rows' ``(B, N, S, T)``."""
        if self.composition is None:
            return rows
        if self.composition.dim() == 2:
            return rows @ self.composition.T
        return torch.einsum("bsqt,bnst->bnsq", self.composition, rows)

    def of_rows(self, targets: Tensor) -> Tensor:
        """Returns ``sum_q C_qt y_q`` ``(B, N, S, T)`` of targets' ``(B, N, S, Q)``."""
        if self.composition is None:
            return targets
        if self.composition.dim() == 2:
            return targets @ self.composition
        return torch.einsum("bsqt,bnsq->bnst", self.composition, targets)

    def by_amount(self, directions: Tensor) -> Tensor:
        """Returns ``b_st . x`` ``(B, N, S, T)`` of directions ``x`` ``(B, N, K)``."""
        if self.transfer.dim() == 2:
            others = (directions @ self.transfer.T)[:, :, None]
        else:
            others = torch.einsum("bnk,bstk->bnst", directions, self.transfer)
        return (directions @ self.own.T)[:, :, None] + self.openness[:, None] * others

    def by_domain(self, coefficients: Tensor) -> Tensor:
        """Returns ``sum_st c_nst b_st`` ``(B, N, K)`` of coefficients ``(B, N, S, T)``."""
        opened = coefficients * self.openness[:, None]
        if self.transfer.dim() == 2:
            others = opened.sum(2) @ self.transfer
        else:
            others = torch.einsum("bnst,bstk->bnk", opened, self.transfer)
        return coefficients.sum(2) @ self.own + others

    def value(self, weights: Tensor, barrier: float) -> Tensor:
        """The objective with the barriers of its constraints; see `barrier.Value`."""
        losses = self.losses(weights)
        margin, worst = self.margin(losses, barrier)
        barred = barrier * margin.log().masked_fill(margin.isinf(), 0).sum((1, 2))
        mean = (losses.mean(1) * self.importance).sum(1)
        return (worst.mean((1, 2)) if self.epigraph else mean) - barred / self.counted

    def derivatives(self, weights: Tensor, barrier: float) -> tuple[Tensor, Curvature]:
        """Gradient and curvature of `value`."""
        rows, first, second = self.rows(weights)
        margin = self.margin(self.of_targets(rows), barrier)[0]  # (B, S, Q)
        # Of the value by each draw's losses, of targets and then of rows.
        slope = barrier / margin / self.counted
        stiff = (slope / margin)[:, None]
        if not self.epigraph:
            slope = slope + self.importance / rows.shape[1]
        slope = self.of_rows(slope[:, None])[:, 0]
        by_amount = self.by_domain((slope * first)[:, None])[:, 0]  # (B, K)
        speed, bend = self.speed(weights)
        curved, tied = slope * second, self.epigraph or self.room is not None

        def product(directions: Tensor) -> Tensor:  # (B, N, K)
            along = self.by_amount(directions * speed[:, None])
            pulled = curved[:, None] * along
            if tied:
                change = self.summed(first[:, None] * along)
                if self.epigraph:  # the worst loss follows
                    of = (3,) if self.room is None else (2, 3)
                    all_of = stiff.sum(of, keepdim=True)
                    change = change - (stiff * change).sum(of, keepdim=True) / all_of
                pulled = pulled + first[:, None] * self.of_rows(stiff * change)
            return (
                speed[:, None] * self.by_domain(pulled) + (by_amount * bend)[:, None] * directions
            )

        diagonal = speed.square() * (curved.sum(1) @ self.own) + by_amount * bend
        return by_amount * speed, Curvature(product, diagonal)

    def speed(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the first and second derivatives of the amounts by the weights, ``(B, K)``."""
        if self.goal.effective is None:
            speed = self.full * self.rho * weights ** (self.rho - 1)
            return speed, (self.rho - 1) * speed / weights
        fresh, once, twice = bent(self.goal.effective, weights)
        power = self.full * self.rho * fresh ** (self.rho - 1)
        return power * once, power * ((self.rho - 1) * once.square() / fresh + twice)

    @property
    def counted(self) -> int:
        """The draws over which constraints are averaged: without a baseline each draw has its own
        worst target."""
        return self.level.shape[1] if self.room is None else 1

    def margin(self, losses: Tensor, barrier: float) -> tuple[Tensor, Tensor]:
        """Returns by how much every constraint holds ``(B, S, Q)``, infinite where there is none;
        the worst ``(B, S, 1)``, or of all draws ``(B, 1, 1)`` where a baseline is to be kept.

        Where a worst loss ``u`` is minimised it is that of the least
        ``u - barrier sum log margin``, so that ``sum barrier / margin = 1``: no margin is below the
        barrier, and weights move as freely as in the mean.
        """
        over, of = (losses, (2,)) if self.room is None else (losses - self.room, (1, 2))
        over = torch.where(self.kept[..., None], over, -torch.inf)
        if not self.epigraph:
            return torch.full_like(over, torch.inf) if self.room is None else -over, over
        worst = over.amax(of, keepdim=True) + barrier
        for _ in range(ROOT_STEPS):  # from below: Newton's steps pass no root
            margin = worst - over
            surplus = (barrier / margin).sum(of, keepdim=True) - 1
            step = surplus / (barrier / margin.square()).sum(of, keepdim=True)
            worst, before = worst + step, worst
            if not ((surplus > 1e-9) & (worst > before)).any():  # or what is left is rounding
                break
        return worst - over, worst

    def solve(self, weights: Tensor, first_gap: float = 0.1) -> BarrierMinimum:
        """Returns the best weights ``(B, K)``, from some within all bounds."""
        constraints = self.importance.numel() * self.level.shape[1] // self.counted
        given = (self.value, self.derivatives, weights, self.lower, self.upper)
        return barrier_minimum(*given, constraints, first_gap)

    def excess(self, weights: Tensor) -> Tensor:
        """Returns by how much the target that is hit most has too high a loss, ``(B, S)``."""
        assert self.room is not None
        return (self.losses(weights) - self.room).amax(2)

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
        weights = self.solve(interior).points
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
        weights = found.points
        margin = self.margin(self.losses(weights), found.barrier)[0]
        answer = weights[0].clamp(min=0)
        answer = answer / answer.sum()
        goal = self.goal
        losses = losses_of(self.draws, answer[None], goal.composition, goal.effective)[:, 0]
        losses = losses + self.levels  # (S, Q)
        asked = losses[:, self.asked]
        worst, mean = asked.amax(1).mean(), asked.mean(0) @ self.importance
        prices = torch.zeros_like(self.levels)
        prices[self.asked] = (found.barrier / margin).sum((0, 1)) / self.counted
        served = 1.0
        if self.room is not None:
            served = float((self.excess(weights) <= 0).double().mean())
        return Decision(
            weights=answer,
            losses=losses.mean(0),
            objective=float(worst if self.epigraph else mean),
            price_at_least=found.barrier / (weights[0] - self.lower),
            price_at_most=found.barrier / (self.upper - weights[0]),
            price_of_targets=prices,
            probability=served,
        )
