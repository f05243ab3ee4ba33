"""The convex programme behind a decision: targets' losses with their derivatives, and the bounds.

With ``v_k = f(w_k)^rho``, ``f`` the shares of fresh text that weights amount to (themselves where
none runs out), a row of the law has the loss ``L_t = E + S ((b_t . v)^-g - 1) / g``. A target's is
``L_q = sum_t C_qt L_t``. A sum over draws ``s`` of a function of the losses has in ``v`` a gradient
``sum c_st b_st`` and a Hessian ``sum d_st b_st b_st' + sum e_sq g_sq g_sq'``, ``g_sq`` the gradient
of a target's loss. It is multiplied with directions and not formed: first ``b_st . x``, then sums
of these. Where the transfer is the same in all draws, ``b_st = own_t + o_st S_t``, this costs no
more with many draws than with one: at a thousand domains a millisecond or two.

The unknowns are the weights of the N free domains (`bydore_pyro.law.bounds`). Losses count in the
law's own unit (`LawRuns.unit`), so that a decision does not depend on theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bydore_pyro import core
from bydore_pyro.law.barrier import GAP, BarrierMinimum, Curvature, barrier_minimum
from bydore_pyro.law.bounds import Bounds
from bydore_pyro.law.goal import Decision, Goal
from bydore_pyro.law.law import LawDraws
from bydore_pyro.law.losses import checked_composition, loss_differences, losses_of

__all__ = ["Programme"]

ROOT_STEPS = 60  # each doubles a margin at least, until it converges
AGAIN = 1e-3  # the first gap from an earlier solution
# Times that the draws which are hardest to serve are chosen anew, and from when on the least excess
# must fall to so much of what it was.
TRIMMED, HOPEFUL = 10, 0.9
KEPT = 1 - 1e-6  # of the tolerance: the rest is left to rounding
LEAST_WEIGHT = 1e-6  # at which the first of a domain's text is priced: at 0 its slope is infinite


@dataclass(frozen=True)
class Programme:
    """B programmes, each over S draws of the law: one over all draws, or one for each draw.

    Attributes:
        draws: Of the law, all of them.
        goal: What is asked.
        bounds: Of the weights.
        unit: Nats per token, of all losses here.
        asked: Targets that matter ``(Q_all,)``, boolean; Q of them do.
        guarded: Those that are not to be worse than under the baseline ``(Q_all,)``, boolean.
        importance: Of these ``(Q,)``.
        levels: Of all targets ``(Q_all,)``.
        composition: Of the T rows that are needed: ``(Q, T)``, ``(B, S, Q, T)``, or None where
            each target is one row.
        level: Of each row's law ``(B, S, T)``.
        slope: Likewise.
        power: Likewise.
        openness: Likewise.
        own: ``(T, K)``.
        transfer: ``(T, K)`` or ``(B, S, T, K)``.
        of_free: `own` and `transfer` of the N free domains.
        full: ``full f^rho`` are the amounts of shares f of fresh text.
        epigraph: Whether the worst loss is minimised, or where there is room the worst excess.
        room: For each draw's loss of each target ``(B, S, Q)``, where a baseline is to be kept;
            infinite for those that are not guarded.
        kept: Draws in which it is to be kept ``(B, S)``, boolean; the others are given up.
    """

    draws: LawDraws
    goal: Goal
    bounds: Bounds
    unit: float
    asked: Tensor
    guarded: Tensor
    importance: Tensor
    levels: Tensor
    composition: Tensor | None
    level: Tensor
    slope: Tensor
    power: Tensor
    openness: Tensor
    own: Tensor
    transfer: Tensor
    of_free: tuple[Tensor, Tensor]
    full: float
    epigraph: bool
    room: Tensor | None
    kept: Tensor

    @classmethod
    def of(cls, draws: LawDraws, goal: Goal, each: bool = False) -> Programme:
        """Checks a goal against a law.

        Raises:
            ValueError: When a vector of the goal is not of the law's shape or no mixture meets its
                bounds.
        """
        rows, domains = draws.runs.own.shape
        made = checked_composition(goal.composition, draws)
        targets = rows if made is None else made.shape[-2]
        importance = goal.importance_of(targets)
        guarded = goal.guarded_of(targets)
        asked = (importance > 0) | guarded
        levels, unit = goal.levels_of(targets), float(draws.runs.unit)
        if made is None:
            needed = asked
        elif made.dim() == 2 and (made > 0).sum(1).eq(1).all():  # each target is one row
            needed, made = made.argmax(1)[asked], None
        else:
            made = made[..., asked, :]
            needed = made.flatten(0, -2).amax(0) > 0
            made = made[..., needed]
        batch = 1 if each else 0
        level, slope, power, openness = (
            getattr(draws, name)[:, needed].unsqueeze(batch)
            for name in ("level", "slope", "power", "openness")
        )
        own, transfer = draws.runs.own[needed], draws.transfer[..., needed, :]
        if transfer.dim() == 3:
            transfer = transfer.unsqueeze(batch)
        bounds = Bounds.of(*goal.bounds_of(domains))
        of_free = own, transfer
        if not bounds.free.all():
            of_free = own[:, bounds.free], transfer[..., bounds.free]
        room = None
        if goal.objective == "none_worse":
            base = goal.baseline_of(domains)[None]
            room = losses_of(draws, base, goal.composition, goal.effective)[:, 0] + levels
            room = ((room + KEPT * goal.tolerance) / unit).masked_fill(~guarded, torch.inf)
            room = room[:, asked].unsqueeze(batch)
        length = torch.full((domains,), draws.runs.length, dtype=torch.double)
        return cls(
            draws=draws,
            goal=goal,
            bounds=bounds,
            unit=unit,
            asked=asked,
            guarded=guarded,
            importance=importance[asked],
            levels=levels,
            composition=made.unsqueeze(batch) if made is not None and made.dim() == 3 else made,
            level=level / unit,
            slope=slope / unit,
            power=power,
            openness=openness,
            own=own,
            transfer=transfer,
            of_free=of_free,
            full=float(draws.runs.amounts_of(length)[0]),
            epigraph=goal.objective == "worst",
            room=room,
            kept=torch.ones(level.shape[:2], dtype=torch.bool),
        )

    def some(self, chosen: Tensor) -> Programme:
        """Returns some of the B programmes, of one draw each."""
        names = ["level", "slope", "power", "openness", "room", "kept"]
        made, (own, transfer) = self.composition, self.of_free
        names += ["composition"] if made is not None and made.dim() == 4 else []
        if self.transfer.dim() == 4:
            names.append("transfer")
            transfer = transfer[chosen]
        parts = {name: getattr(self, name) for name in names}
        parts = {name: None if part is None else part[chosen] for name, part in parts.items()}
        return replace(self, of_free=(own, transfer), **parts)

    @property
    def inside(self) -> Tensor:
        """Free weights ``(B, N)`` strictly within the bounds."""
        return self.bounds.inside[self.bounds.free].expand(len(self.level), -1)

    def weights(self, points: Tensor) -> Tensor:
        """Returns all domains' weights ``(B, K)`` of free ones ``(B, N)``."""
        whole = self.bounds.inside.expand(len(points), -1).clone()
        whole[:, self.bounds.free] = points
        return whole

    def losses(self, points: Tensor) -> Tensor:
        """Returns every target's loss in every draw, ``(B, S, Q)``."""
        return self.of_targets(self.rows(points)[0])

    def rows(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns rows' losses and their two derivatives by ``b . v``, each ``(B, S, T)``."""
        weights = self.weights(points)
        fresh = weights if self.goal.effective is None else self.goal.effective(weights)
        amounts = self.full * fresh**self.draws.runs.rho
        ratio = self.by_amount(amounts[:, None], self.own, self.transfer)[:, 0]
        shrunk = (-self.power * ratio.log()).exp()
        losses = self.level + self.slope * (shrunk - 1) / self.power
        first = -self.slope * shrunk / ratio
        return losses, first, -first * (1 + self.power) / ratio

    def of_targets(self, rows: Tensor) -> Tensor:
        """Returns targets' losses ``(B, S, Q)`` of rows' ``(B, S, T)``."""
        return self.summed(rows[:, None])[:, 0] + self.levels[self.asked] / self.unit

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

    def by_amount(self, directions: Tensor, own: Tensor, transfer: Tensor) -> Tensor:
        """Returns ``b_st . x`` ``(B, D, S, T)`` of directions ``x`` ``(B, D, K)``, for the same K
        domains as ``own`` and ``transfer``."""
        if transfer.dim() == 2:
            others = (directions @ transfer.T)[:, :, None]
        else:
            others = torch.einsum("bnk,bstk->bnst", directions, transfer)
        return (directions @ own.T)[:, :, None] + self.openness[:, None] * others

    def by_domain(self, coefficients: Tensor, own: Tensor, transfer: Tensor) -> Tensor:
        """Returns ``sum_st c_nst b_st`` ``(B, D, K)`` of coefficients ``(B, D, S, T)``."""
        opened = coefficients * self.openness[:, None]
        if transfer.dim() == 2:
            others = opened.sum(2) @ transfer
        else:
            others = torch.einsum("bnst,bstk->bnk", opened, transfer)
        return coefficients.sum(2) @ own + others

    def value(self, points: Tensor, barrier: float) -> Tensor:
        """The objective with the barriers of its constraints; see `barrier.Value`."""
        losses = self.losses(points)
        margin, worst = self.margin(losses, barrier)
        barred = barrier * margin.log().masked_fill(margin.isinf(), 0).sum((1, 2))
        mean = (losses.mean(1) * self.importance).sum(1)
        return (worst.mean((1, 2)) if self.epigraph else mean) - barred / self.counted

    def derivatives(self, points: Tensor, barrier: float) -> tuple[Tensor, Curvature]:
        """Gradient and curvature of `value`."""
        rows, first, second = self.rows(points)
        margin = self.margin(self.of_targets(rows), barrier)[0]  # (B, S, Q)
        stiff = (barrier / margin.square() / self.counted)[:, None]
        slope = self.of_rows(self.by_loss(margin, barrier)[:, None])[:, 0]
        by_amount = self.by_domain((slope * first)[:, None], *self.of_free)[:, 0]  # (B, N)
        speed, bend = (x[:, self.bounds.free] for x in self.speed(self.weights(points)))
        curved, tied = slope * second, self.epigraph or self.room is not None

        def product(directions: Tensor) -> Tensor:  # (B, D, N)
            along = self.by_amount(directions * speed[:, None], *self.of_free)
            pulled = curved[:, None] * along
            if tied:
                change = self.summed(first[:, None] * along)
                if self.epigraph:  # the worst loss follows
                    of = (3,) if self.room is None else (2, 3)
                    all_of = stiff.sum(of, keepdim=True)
                    change = change - (stiff * change).sum(of, keepdim=True) / all_of
                pulled = pulled + first[:, None] * self.of_rows(stiff * change)
            moved = self.by_domain(pulled, *self.of_free)
            return speed[:, None] * moved + (by_amount * bend)[:, None] * directions

        diagonal = speed.square() * (curved.sum(1) @ self.of_free[0]) + by_amount * bend
        return by_amount * speed, Curvature(product, diagonal)

    def by_loss(self, margin: Tensor, barrier: float) -> Tensor:
        """Returns the derivatives of `value` by each draw's losses of targets, ``(B, S, Q)``."""
        slope = barrier / margin / self.counted
        return slope if self.epigraph else slope + self.importance / margin.shape[1]

    def speed(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the first and second derivatives of the amounts by the weights, ``(B, K)``."""
        rho = self.draws.runs.rho
        if self.goal.effective is None:
            speed = self.full * rho * weights ** (rho - 1)
            return speed, (rho - 1) * speed / weights
        fresh, once, twice = core.value_and_derivatives(self.goal.effective, weights)
        power = self.full * rho * fresh ** (rho - 1)
        return power * once, power * ((rho - 1) * once.square() / fresh + twice)

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

    def solve(self, points: Tensor, first_gap: float = 0.1) -> BarrierMinimum:
        """Returns the best free weights ``(B, N)``, from some strictly within all constraints."""
        constraints = self.importance.numel() * self.level.shape[1] // self.counted
        if not self.bounds.free.any():
            return BarrierMinimum(points, GAP / constraints)
        free = self.bounds.free
        upper = self.bounds.upper.masked_fill(self.bounds.implied, torch.inf)
        return barrier_minimum(
            self.value,
            self.derivatives,
            points,
            self.bounds.lower[free],
            upper[free],
            constraints,
            first_gap,
        )

    def excess(self, points: Tensor) -> Tensor:
        """Returns by how much the target that is hit most has too high a loss, ``(B, S)``; minus
        infinity where no baseline is to be kept."""
        room = torch.inf if self.room is None else self.room
        return (self.losses(points) - room).amax(2)

    def served(self, points: Tensor) -> Tensor:
        """Returns in how many draws no target has too high a loss, ``(B,)``."""
        return (self.excess(points) < 0).sum(1)

    def without_hardest(self, points: Tensor, spared: int) -> Programme:
        """Returns the programme that gives up the draws which are hardest to serve.

        Args:
            points: Free weights ``(B, N)``.
            spared: How many of the S are given up.
        """
        excess = self.excess(points)
        order = excess.argsort(1)[:, : excess.shape[1] - spared]
        return replace(self, kept=torch.zeros_like(self.kept).scatter(1, order, True))

    def near_baseline(self) -> Tensor | None:
        """Returns free weights ``(B, N)`` near the baseline that serve all draws, if there are."""
        near = self.bounds.nearest(self.goal.baseline_of(len(self.bounds.free)))
        near, share = near[self.bounds.free].expand_as(self.inside), 1.0
        while share > 1e-9:
            points = torch.lerp(near, self.inside, share)
            if bool((self.excess(points) < 0).all()):
                return points
            share /= 4
        return None

    def least_excess(self, spared: int = 0) -> Tensor:
        """Returns free weights ``(B, N)`` of the least excess of all draws but the `spared` that
        are hardest to serve.

        Which these are is found step by step, until all others are served or it no longer helps.
        """
        programme, points = replace(self, epigraph=True), self.inside
        count = self.level.shape[1]
        least = torch.inf
        for number in range(TRIMMED):
            points = programme.solve(points, AGAIN if number else 0.1).points
            if not spared:
                break
            before, least = least, float(self.excess(points)[0].sort().values[count - spared - 1])
            if least < 0 or (number > TRIMMED // 2 and least > HOPEFUL * before):
                break
            programme = programme.without_hardest(points, min(number + 1, 4) * spared // 4)
        return points

    def decision(self, found: BarrierMinimum) -> Decision:
        """Returns the one solution, with the prices at it."""
        goal, points = self.goal, found.points
        answer = self.bounds.nearest(self.weights(points))[0]
        losses = losses_of(self.draws, answer[None], goal.composition, goal.effective)[:, 0]
        losses = losses + self.levels  # (S, Q)
        asked = losses[:, self.asked]
        worst, mean = asked.amax(1).mean(), asked.mean(0) @ self.importance
        margin = self.margin(self.losses(points), found.barrier)[0]
        prices = torch.zeros_like(self.levels)
        prices[self.asked] = (found.barrier / margin).sum((0, 1)) / self.counted
        served = 1.0
        if self.room is not None:
            base = goal.baseline_of(len(answer))
            apart = loss_differences(self.draws, answer, base, goal.composition, goal.effective)
            most = apart[:, self.guarded].amax(1)
            served = float((most <= goal.tolerance).double().mean())
        price = self.unit * self.prices(found)
        return Decision(
            weights=answer,
            losses=losses.mean(0),
            objective=float(worst if self.epigraph else mean),
            price_at_least=price.clamp(min=0),
            price_at_most=price.clamp(max=0).abs(),
            price_of_targets=prices,
            probability=served,
        )

    def prices(self, found: BarrierMinimum) -> Tensor:
        """Returns by how much the objective rises for a unit of weight more of each domain, which
        the free domains give ``(K,)``: above 0 at a lower bound, below 0 at an upper one."""
        bounds, weights = self.bounds, self.weights(found.points)
        rows, first, _ = self.rows(found.points)
        slope = self.by_loss(self.margin(self.of_targets(rows), found.barrier)[0], found.barrier)
        slope = self.of_rows(slope[:, None])[:, 0] * first
        by_amount = self.by_domain(slope[:, None], self.own, self.transfer)[0, 0]
        rise = by_amount * self.speed(weights.clamp(min=LEAST_WEIGHT))[0][0]
        if not bounds.free.any():
            return bounds.prices(rise)
        above, below = weights[0] - bounds.lower, bounds.upper - weights[0]
        prices = found.barrier * (1 / above - (~bounds.implied) / below)
        # The free domains are worth the same but for their prices, most exactly far from bounds.
        far = above * below * bounds.free
        elsewhere = (far * torch.where(bounds.free, rise - prices, 0.0)).sum() / far.sum()
        return torch.where(bounds.free, prices, rise - elsewhere)
