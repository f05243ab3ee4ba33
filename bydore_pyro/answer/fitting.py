"""How a forecast is fitted: to runs, to what targets are made of, and to what checks measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bydore_pyro.answer.forecast import (
    Forecast,
    Noise,
    RunLosses,
    away_from,
    losses_at_level,
    noise_variance,
    number_of_draws,
    off_the_law,
)
from bydore_pyro.law import PER_TOKEN, fit_law

# Nats a token: of the level of a target of which nothing is explained, at a mixture that has no
# text in common with those of the runs. On five answers for withheld targets
# (`experiments/decisions.py`) a forecast's error was 0.19 in the root mean square; with this, and
# the law's own part, it predicts 0.18.
SCATTER = 0.3
# Of it, of a task, whose loss has a factor too. On what three searches proposed for five groups of
# 22 tasks (`experiments/task_decisions.py`), intervals hold 100 % with 1, 95 % with this, 91 %
# with 0.
OF_TASK = 0.5
# Standard deviation of the logarithm of a task's factor: that of the slopes of 22 tasks' losses on
# what their compositions say, over 60 mixtures with the domains' true losses
# (`experiments/response_ranks.py`).
FACTOR = 0.28


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is known of a target, beside its losses.

    Attributes:
        importance: Of all targets; they sum to 1. That of a guard is 0.
        compositions: Draws of what it is made of ``(D, K)``, in its unit for a nat of the domains;
            one where it is known.
        unexplained: Share of it that no mixture explains.
        unit: Of its loss.
        per_nat: By how much that falls where the loss of every token falls by a nat.
        documents: That it was read on; 0 where that is not known.
        noise: Of its loss over seeds, where runs of one mixture measured it.
    """

    importance: float
    compositions: Tensor
    unexplained: float = 0.0
    unit: str = PER_TOKEN
    per_nat: float = 1.0
    documents: int = 0
    noise: Noise | None = None


def forecast_of(
    names: Sequence[str],
    runs: RunLosses,
    targets: Mapping[str, Target],
    seed: int = 0,
) -> Forecast:
    """Fits the law of the domains' losses to runs, and makes targets of it.

    Args:
        names: The domains.
        runs: At least two, or two moments of one.
        targets: By name.
        seed: Of the draws.

    Raises:
        ValueError: As `bydore_pyro.law.fit_law`.
    """
    law = fit_law(runs.tokens, runs.losses, runs.transfer, range(runs.losses.shape[1]))
    draws = law.draws(number_of_draws(len(names)), seed)
    count = len(draws.level)
    known = all(len(one.compositions) == 1 for one in targets.values())
    some = []
    for one in targets.values():  # of the draws, evenly spread over all
        places = torch.linspace(0, len(one.compositions) - 1, count).long()
        made = one.compositions[0] if known else one.compositions[places]
        some.append(made)
    compositions = torch.stack(some, 0 if known else 1)
    # The last reading of the targets is that of one run, which lies off the law as each does.
    read = losses_at_level(draws, runs)[..., : len(names)]
    off = off_the_law(draws.noise[:, None], seed=3)[..., : len(names)]
    unsure = (off @ compositions.mT)[:, 0]  # (S, Q)
    unsure = unsure - unsure.mean(0)  # it widens what is expected, and does not move it
    levels = runs.of_targets[-1] - (read @ compositions.mT)[:, 0] - unsure
    generator = torch.Generator().manual_seed(1)
    tasks = torch.tensor([one.unit != PER_TOKEN for one in targets.values()])
    factors = torch.ones_like(levels)
    if tasks.any():
        own = FACTOR * _centred(levels.shape, generator) - FACTOR**2 / 2
        factors = torch.where(tasks, own.exp(), factors)
    shares = [one.per_nat * one.unexplained for one in targets.values()]
    scatter = SCATTER * torch.tensor(shares).double()
    scatter = torch.where(tasks, OF_TASK * scatter, scatter)
    found = Forecast(
        names=tuple(names),
        importance={name: one.importance for name, one in targets.items()},
        units={name: one.unit for name, one in targets.items()},
        draws=draws,
        compositions=compositions,
        levels=levels,
        scatter=scatter * _centred(levels.shape, generator),
        factors=factors,
        known=runs,
        documents={name: one.documents for name, one in targets.items() if one.documents},
        noise={name: one.noise for name, one in targets.items() if one.noise is not None},
    )
    if runs.of_checks is None or not found.moves:
        return found
    return replace(found, factors=_factors_of_checks(found, scatter, runs.of_checks))


def _factors_of_checks(found: Forecast, scatter: Tensor, measured: Tensor) -> Tensor:
    """Returns draws of the targets' factors ``(S, Q)``, given what checks have measured.

    A target's way from the search to a check is its factor times what its composition says, and
    noise: that of both runs, and its level's scatter there. Draws are taken again by how likely
    they make the measured ways.

    Args:
        found: The forecast before.
        scatter: Standard deviation of a level at a mixture that shares no text with the runs
            ``(Q,)``.
        measured: See `RunLosses.of_checks`.
    """
    known, count = found.known, len(found.names)
    rows = (~measured.isnan()).any(1)
    tokens, own = known.tokens[rows], measured[rows]  # (C, Q)
    start = losses_at_level(found.draws, known)[..., :count]
    away = away_from(tokens / tokens.sum(1, keepdim=True), known).sqrt()
    apart = (found.draws.losses(tokens)[..., :count] - start) @ found.compositions.mT  # (S, C, Q)
    noise = noise_variance(found.compositions, found.law.noise[:, None]).mean(0)  # (Q,)
    factors = found.factors.clone()
    for place in range(measured.shape[1]):
        read = ~own[:, place].isnan()
        if not read.any() or not bool((factors[:, place] != 1).any()):
            continue
        way = own[read, place]
        left = way - factors[:, place, None] * apart[:, read, place]  # (S, C')
        of_scatter = (scatter[place] * away[read])[:, None]
        # The noise of the search's own run is in all of them.
        covariance = noise[place] * (1 + torch.eye(len(way)).double()) + of_scatter @ of_scatter.T
        root = torch.linalg.cholesky(covariance)
        likely = -torch.linalg.solve_triangular(root, left.mT, upper=False).square().sum(0) / 2
        reached = likely.softmax(0).cumsum(0)
        evenly = (torch.arange(len(likely)).double() + 0.5) / len(likely)
        again = torch.searchsorted(reached, evenly).clamp_max(len(likely) - 1)
        order = torch.randperm(len(again), generator=torch.Generator().manual_seed(place))
        factors[:, place] = factors[again, place][order]
    return factors


def _centred(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Returns normal draws ``(S, ...)`` of mean 0: they widen what is expected, and do not move
    it."""
    drawn = torch.randn(shape, generator=generator).double()
    return drawn - drawn.mean(0)
