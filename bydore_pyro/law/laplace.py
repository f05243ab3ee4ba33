"""The posterior of the law of losses, in a fraction of a second: Laplace at every point of a grid.

At each point (how much others are worth in general, ``m``) all targets are fitted at once by
Levenberg-Marquardt steps. Up to 128 domains each pair's worth may depart from what the transfer
says. Four passes alternate with the means that the targets share and with their noise. Laplace's
evidence weighs the points, or their prior where all runs had one mixture. Noise of few runs is not
known: draws of it, with ``4 + R - effective parameters`` degrees of freedom, have Student's tails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.law.law import (
    LEVEL_SD,
    NOISE,
    NOISE_DEGREES,
    OPEN_SD,
    OPENED,
    POWER,
    POWER_SD,
    SLOPE,
    SLOPE_SD,
    LawDraws,
)
from bydore_pyro.law.law_runs import LawRuns

__all__ = ["Law", "LossPrediction", "fit_law"]

OPENNESS = (0.05, 0.1, 0.2, 0.4, 0.8)  # exp(m), the grid
PASSES, STEPS, DAMPING = 4, 8, 1e-3
# tau: with transfer measured, without, and of a target that has no domain of its own.
MEASURED, NOT_MEASURED, NO_DOMAIN = 0.3, 0.5, 2.0
COLUMN_SD = 0.5  # of a domain's worth for all targets
FREE_DOMAINS = 128  # up to so many domains each pair's worth is free
LEVEL = 0.94  # of the intervals
FEWEST = math.ceil(2 / (1 - LEVEL) - 1)  # draws whose least and greatest hold so much


class LossPrediction(NamedTuple):
    """Losses of M mixtures on T targets, nats per token.

    Attributes:
        mean: ``(M, T)``.
        draws: Of the expected loss ``(S, M, T)``; differences of two mixtures are paired in S.
        low: Of the 94 % intervals for the loss that one run will measure ``(M, T)``.
        high: Likewise.
    """

    mean: Tensor
    draws: Tensor
    low: Tensor
    high: Tensor


class Fitted(NamedTuple):
    """Targets fitted at G points of the grid.

    The runs inform a target of ``Q = min(R, P)`` directions ``V`` of its ``P`` parameters, in units
    of their prior's deviation. Given its noise ``sigma^2`` their variance is 1 in all others, and
    ``1 / (1 + l / sigma^2)`` in these.

    Attributes:
        modes: Of the parameters ``(G, T, P)``.
        deviation: The prior's ``(T, P)``.
        directions: ``V`` ``(G, T, P, Q)``.
        informed: ``l >= 0`` ``(G, T, Q)``.
        variances: ``sigma^2`` ``(G, T)``.
        degrees: Of freedom of the noise ``(G, T)``.
        shared: The prior's means, which all targets share ``(G, P)``.
        scale: Of all targets' noise, squared ``(G,)``.
        log_evidence: ``(G,)``, nats, up to a constant.
    """

    modes: Tensor
    deviation: Tensor
    directions: Tensor
    informed: Tensor
    variances: Tensor
    degrees: Tensor
    shared: Tensor
    scale: Tensor
    log_evidence: Tensor


@dataclass(frozen=True)
class Law:
    """A posterior of the law of losses.

    Attributes:
        runs: What it was fitted to.
        openness: ``m`` of the grid ``(G,)``.
        fitted: Targets at every point of the grid.
    """

    runs: LawRuns
    openness: Tensor
    fitted: Fitted

    @property
    def length(self) -> float:
        """The longest run's tokens, in units of the given; other lengths are a guess."""
        return self.runs.length

    def linearised(self, tokens: Tensor, target: int) -> tuple[Tensor, Tensor]:
        """Returns a target's law as a line in its parameters, about the likeliest at the likeliest
        point of the grid.

        Its prior mean ``(M,)`` is in nats per token; the products of the features ``(M, P)`` are
        its prior's covariance, ``J V J'``.

        Args:
            tokens: ``(M, K)``, as for `fit_law`.
            target: In [0, T).
        """
        best, runs, fit = self.likeliest, self.runs, self.fitted
        chosen = slice(target, target + 1)
        own, transfer = runs.own[chosen], runs.transfer[chosen]
        some = replace(runs, amounts=runs.amounts_of(tokens), own=own, transfer=transfer)
        modes, deviation = fit.modes[best, chosen], fit.deviation[target]
        losses, jacobian = _linearised(some, self.openness[best, None], modes[None])
        features = jacobian[0, 0] * deviation
        mean = losses[0, 0] + features @ ((fit.shared[best] - modes[0]) / deviation)
        return runs.centre[target] + runs.unit * mean, runs.unit * features

    @property
    def likeliest(self) -> int:
        """The point of the grid with the most evidence."""
        return int(self.fitted.log_evidence.argmax())

    def noise(self) -> tuple[Tensor, Tensor]:
        """Returns the noise's variance ``(T,)``, nats squared, and its degrees of freedom ``(T,)``,
        at the likeliest point of the grid."""
        best = self.likeliest
        return self.runs.unit**2 * self.fitted.variances[best], self.fitted.degrees[best]

    def draws(self, count: int = 1000, seed: int = 0) -> LawDraws:
        """Returns draws of the posterior.

        Raises:
            ValueError: When the count is below 1.
        """
        if count < 1:
            raise ValueError(f"Expected count >= 1, actual {count}")
        generator = torch.Generator().manual_seed(seed)
        fit, unit = self.fitted, self.runs.unit
        shares = fit.log_evidence.softmax(0)
        point = torch.multinomial(shares, count, replacement=True, generator=generator)
        degrees = fit.degrees[point]  # (S, T)
        chi = 2 * torch._standard_gamma(degrees / 2, generator=generator) / degrees
        variances = fit.variances[point] / chi
        normal = torch.randn(*degrees.shape, fit.modes.shape[2], generator=generator).double()
        shrunk = (1 + fit.informed[point] / variances[..., None]).rsqrt() - 1
        for g in point.unique():  # not all directions by draw at once: they are large
            some, directions = point == g, fit.directions[g]
            along = torch.einsum("tpq,stp->stq", directions, normal[some]) * shrunk[some]
            normal[some] += torch.einsum("tpq,stq->stp", directions, along)
        theta = fit.modes[point] + fit.deviation * normal
        rho, transfer = self.runs.rho, self.runs.transfer
        if theta.shape[2] > 4:
            transfer = transfer * (rho * theta[..., 4:]).exp()
        return LawDraws(
            runs=self.runs,
            level=self.runs.centre + unit * theta[..., 0],
            slope=unit * theta[..., 1].exp(),
            power=theta[..., 2].exp(),
            openness=(rho * (self.openness[point, None] + theta[..., 3])).exp(),
            transfer=transfer,
            noise=unit * variances.sqrt(),
        )

    def predict(self, tokens: Tensor, count: int = 1000, seed: int = 0) -> LossPrediction:
        """Returns the losses of runs on other mixtures.

        Args:
            tokens: ``(M, K)``, as for `fit_law`.
            count: Number of draws, >= 33: of fewer the least and the greatest hold less than 94 %.
            seed: Of the draws.

        Raises:
            ValueError: When tokens are not as `fit_law` takes them, or the draws are too few.
        """
        if count < FEWEST:
            raise ValueError(
                f"Expected count >= {FEWEST}, for intervals of {LEVEL:.0%}, actual {count}"
            )
        tokens = torch.as_tensor(tokens)
        if tokens.dim() != 2:
            raise ValueError(f"Expected tokens (M, K), actual {tuple(tokens.shape)}")
        draws = self.draws(count, seed)
        losses = draws.losses(tokens)
        generator = torch.Generator().manual_seed(seed + 1)
        noise = torch.randn(losses.shape, generator=generator).double() * draws.noise[:, None]
        # Of n draws the r-th lies above one more with a probability of r / (n + 1).
        outside = (1 - LEVEL) / 2
        ends = np.quantile(
            (losses + noise).numpy(), [outside, 1 - outside], axis=0, method="weibull"
        )
        low, high = torch.from_numpy(ends)
        return LossPrediction(losses.mean(0), losses, low, high)


def fit_law(
    tokens: Tensor,
    losses: Tensor,
    transfer: Tensor | None = None,
    own: Tensor | Sequence[int] | None = None,
    rho: float = 0.9,
    free: bool | None = None,
) -> Law:
    """Fits the law of losses to runs; see `bydore_pyro.law.law`.

    A reading of a run on its way, at a constant rate, is a run of its own: one run on equal weights
    that is read at a quarter, a half and its end is enough for a first answer.

    Args:
        tokens: What R runs (or readings of runs) trained on, ``(R, K)``, in tokens of each domain:
            the run's weights times its length, in any unit.
        losses: ``(R, T)``, nats per token.
        transfer: Cross products ``c_tk = <gradient of target t, gradient of domain k>``
            ``(T, K)``. None: others' tokens are worth alike until the runs say otherwise.
        own: The domain ``(T,)`` that each target is held-out text of, -1 for none. None: target k
            is domain k if there are as many, else no target is a domain.
        rho: In (0, 1]; below 1 a domain's first tokens are worth more than its last.
        free: Whether each pair's worth may depart from what the transfer says. None: with at most
            128 domains. The smallest form has four numbers a target.

    Raises:
        ValueError: When an argument is of a wrong shape, not finite or negative; when there are
            fewer than two readings; when a target's losses are all the same.
    """
    runs = LawRuns.of(tokens, losses, transfer, own, rho)
    targets, domains = runs.own.shape
    if free is None:
        free = domains <= FREE_DOMAINS
    deviation = torch.tensor([[LEVEL_SD, SLOPE_SD, POWER_SD, OPEN_SD]]).double().expand(targets, -1)
    if free:
        known = NOT_MEASURED if transfer is None else MEASURED
        spread = torch.where(runs.own.sum(1) > 0, known, NO_DOMAIN)
        deviation = torch.cat([deviation, spread[:, None].expand(-1, domains)], 1)
    openness = torch.tensor(OPENNESS).double().log()
    return Law(runs, openness, _fitted(runs, openness, deviation))


def _fitted(runs: LawRuns, openness: Tensor, deviation: Tensor) -> Fitted:
    """Alternates between all targets' modes and what they share; the deviation is ``(T, P)``."""
    losses = runs.losses.T  # (T, R)
    targets, count = losses.shape
    prior = torch.zeros(len(openness), 1, deviation.shape[1]).double()
    prior[..., 1], prior[..., 2] = SLOPE[0], POWER[0]
    scale = torch.full((len(openness), 1), math.exp(2 * NOISE[0])).double()
    variances = scale.expand(-1, targets).clone()
    modes = prior.expand(-1, targets, -1).clone()
    for last in [*[False] * (PASSES - 1), True]:
        modes = _steps(runs, openness, modes, prior, deviation, variances)
        predicted, jacobian = _linearised(runs, openness, modes)
        _, roots, directions = torch.linalg.svd(jacobian * deviation[:, None], full_matrices=False)
        informed = roots.square()
        over_noise = informed / variances[..., None]
        degrees = NOISE_DEGREES + count - (over_noise / (1 + over_noise)).sum(-1)
        squares = (losses - predicted).square().sum(-1)
        if last:
            break
        prior = _shared(modes, deviation**-2)
        variances = (NOISE_DEGREES * scale + squares) / degrees
        # The scale of all targets' noise: that of a gamma distribution of their precisions.
        weight = NOISE[1] ** -2 / 2
        pooled = (targets / (1 / variances).sum(1, keepdim=True)).log()
        scale = ((2 * NOISE[0] * weight + targets * pooled) / (weight + targets)).exp()
    off = ((modes - prior) / deviation).square().sum(-1)
    noise = (NOISE_DEGREES + 2) * variances.log() + NOISE_DEGREES * scale / variances
    fit = squares / variances + count * variances.log() + over_noise.log1p().sum(-1)
    evidence = -(fit + off + noise - NOISE_DEGREES * scale.log()).sum(1) / 2
    for index, (mean, sd) in ((1, SLOPE), (2, POWER)):
        evidence -= ((prior[:, 0, index] - mean) / sd).square() / 2
    shares = runs.amounts / runs.amounts.sum(1, keepdim=True)
    evidence *= float(not torch.allclose(shares, shares[:1]))  # one mixture: nothing of openness
    evidence -= ((openness - math.log(runs.likeness)) / OPENED).square() / 2
    of_all = (prior[:, 0], scale[:, 0], evidence)
    return Fitted(modes, deviation, directions.mT, informed, variances, degrees, *of_all)


def _shared(modes: Tensor, precision: Tensor) -> Tensor:
    """Returns the means ``(G, 1, P)`` that targets share, given the targets' modes."""
    prior = torch.zeros_like(modes[:, :1])
    sums, known = (modes * precision).sum(1), precision.sum(0)
    for index, (mean, sd) in ((1, SLOPE), (2, POWER)):
        prior[:, 0, index] = (sums[:, index] + mean / sd**2) / (known[index] + sd**-2)
    prior[:, 0, 4:] = sums[:, 4:] / (known[4:] + COLUMN_SD**-2)
    return prior


def _linearised(runs: LawRuns, openness: Tensor, modes: Tensor) -> tuple[Tensor, Tensor]:
    """Returns losses ``(G, T, R)`` and their derivatives ``(G, T, R, P)`` by the parameters.

    They are ``E``, ``log S``, ``log g``, ``log o - m`` and, where each pair is free, the logarithm
    of the pair's worth over the measured.
    """
    level, slope, power, opened = (modes[..., i : i + 1] for i in range(4))
    slope, power = slope.exp(), power.exp()
    openness = (runs.rho * (openness[:, None, None] + opened)).exp()
    if modes.shape[2] > 4:
        transfer = openness * runs.transfer * (runs.rho * modes[..., 4:]).exp()  # (G, T, K)
        others = transfer @ runs.amounts.T
    else:
        others = openness * (runs.transfer @ runs.amounts.T)
    ratio = runs.own @ runs.amounts.T + others
    log = ratio.log()
    shrunk = (-power * log).exp()
    fallen = (1 - shrunk) / power
    by_log = -slope * shrunk  # of the losses by log n
    columns = [torch.ones_like(log), -slope * fallen, slope * (fallen - shrunk * log)]
    columns.append(by_log * runs.rho * others / ratio)
    jacobian = torch.stack(columns, -1)
    if modes.shape[2] > 4:
        shares = transfer[:, :, None] * runs.amounts / ratio[..., None]  # (G, T, R, K)
        jacobian = torch.cat([jacobian, (runs.rho * by_log)[..., None] * shares], -1)
    return level - slope * fallen, jacobian


def _steps(
    runs: LawRuns,
    openness: Tensor,
    modes: Tensor,
    prior: Tensor,
    deviation: Tensor,
    variances: Tensor,
) -> Tensor:
    """Levenberg-Marquardt steps of all targets at all points of the grid."""

    def parts(at: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        predicted, jacobian = _linearised(runs, openness, at)
        errors, off = predicted - runs.losses.T, (at - prior) / deviation
        height = errors.square().sum(-1) / variances + off.square().sum(-1)
        return jacobian * deviation[:, None], errors, off, height

    damping = torch.full_like(variances, DAMPING)
    now = parts(modes)
    for _ in range(STEPS):
        jacobian, errors, off, height = now
        uphill = (errors[..., None, :] @ jacobian).squeeze(-2) / variances[..., None] + off
        new = modes - deviation * _solved(jacobian, variances, 1 + damping, uphill)
        tried = parts(new)
        better = tried[3] < height
        modes = torch.where(better[..., None], new, modes)
        now = (
            torch.where(better[..., None, None], tried[0], jacobian),
            torch.where(better[..., None], tried[1], errors),
            torch.where(better[..., None], tried[2], off),
            torch.where(better, tried[3], height),
        )
        damping = torch.where(better, damping / 5, damping * 10)
    return modes


def _solved(jacobian: Tensor, variances: Tensor, ridge: Tensor, vector: Tensor) -> Tensor:
    """Returns ``(J'J / sigma^2 + r I)^-1 v``, through the smaller of its two forms."""
    runs, size = jacobian.shape[-2:]
    if runs < size:
        inner = jacobian @ jacobian.mT + torch.diag_embed(
            (variances * ridge)[..., None].expand(*variances.shape, runs)
        )
        seen = torch.linalg.solve(inner, (jacobian @ vector[..., None]).squeeze(-1))
        return (vector - (seen[..., None, :] @ jacobian).squeeze(-2)) / ridge[..., None]
    inner = jacobian.mT @ jacobian / variances[..., None, None] + torch.diag_embed(
        ridge[..., None].expand(*ridge.shape, size)
    )
    return torch.linalg.solve(inner, vector)
