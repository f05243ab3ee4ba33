"""Forecasts from runs whose losses follow a law that is known, on targets whose making is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from planted_laws import planted
from torch import Tensor
from torch.distributions import Dirichlet

from bydore_pyro.answer.fitting import Target, forecast_of
from bydore_pyro.answer.forecast import Forecast, RunLosses
from bydore_pyro.answer.question import Question, TargetRun
from bydore_pyro.law import PER_TOKEN
from bydore_pyro.law.goal import Goal

NAMES = ("a", "b", "c", "d", "e")
UNIFORM = torch.full((5,), 0.2).double()
#: What targets are made of.
MADE = {
    "one": torch.tensor([0.6, 0.3, 0.1, 0, 0]).double(),
    "other": torch.tensor([0, 0, 0.1, 0.3, 0.6]).double(),
}
LEVEL = 0.3  # of every target above what it is made of, nats per token
RHO = 0.9  # the first tokens of a domain are worth a little more
NOISE = 0.02  # of a run, nats per token
SURE = 300.0  # how concentrated the draws of a composition are


def unseen(count: int = 60) -> Tensor:
    """Mixtures that no run has trained on ``(M, 5)``."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return Dirichlet(torch.ones(5)).sample((count,)).double()


def true_losses(mixtures: Tensor, seed: int = 0) -> Tensor:
    """Of runs of length 1 on mixtures ``(M, 5)``, on the domains ``(M, 5)``: the law's form."""
    worth = torch.where(torch.eye(5) > 0, 1.0, 0.4 * planted(5, 1, seed)[2]).double()
    amounts = (5 * mixtures) ** RHO @ worth.T**RHO
    return 4 + 0.4 * (amounts**-0.2 - 1) / 0.2


def true_target_losses(mixtures: Tensor, name: str = "one", seed: int = 0) -> Tensor:
    """The same on a target ``(M,)``."""
    return true_losses(mixtures, seed) @ MADE[name] + LEVEL


def planted_forecast(
    importance: Mapping[str, float] | None = None,
    *,
    runs: int = 1,
    seed: int = 0,
    noise: float = NOISE,
    unexplained: float = 0.0,
    levels: Mapping[str, float] | None = None,
    unit: str = PER_TOKEN,
) -> Forecast:
    """Of one run on equal weights, read three times on its way, and of other finished ones."""
    given = importance or {"one": 1.0}
    importance = {name: share / sum(given.values()) for name, share in given.items()}
    tokens, _, cross = planted(5, runs, seed)
    generator = torch.Generator().manual_seed(seed)
    losses = true_losses(tokens, seed)
    losses += noise * torch.randn(losses.shape, generator=generator).double()
    order = [*range(runs, len(tokens)), *range(runs)]  # the search first, its end last
    tokens, losses = tokens[order], losses[order]
    level = torch.tensor([(levels or {}).get(name, LEVEL) for name in importance]).double()
    made = torch.stack([MADE[name] for name in importance])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        draws = {n: Dirichlet(SURE * MADE[n] + 0.05).sample((400,)) for n in importance}
    return forecast_of(
        NAMES,
        RunLosses(
            tokens=tokens, losses=losses, transfer=cross, of_targets=(losses @ made.T + level)[:3]
        ),
        {
            name: Target(
                importance=share, compositions=draws[name], unexplained=unexplained, unit=unit
            )
            for name, share in importance.items()
        },
        seed,
    )


def question(**given: Any) -> Question:
    """What is asked of the five domains: parts of a goal, and of a question."""
    of_goal = {name: given.pop(name) for name in Goal.__dataclass_fields__ if name in given}
    if of_goal.get("objective") == "none_worse":
        of_goal = {"baseline": UNIFORM, **of_goal}
    usual: dict[str, Any] = {"references": {"uniform": UNIFORM}, "goal": Goal(**of_goal)}
    return Question(names=NAMES, tokenizer="t", data_sha256="d", **{**usual, **given})


def bound(other: float, **named: float) -> Tensor:
    """Bounds of the five weights, by name; the others' are the same."""
    return torch.tensor([named.get(name, other) for name in NAMES], dtype=torch.double)


def as_long_as(tokens: float) -> TargetRun:
    """A run in which no text is read again."""
    none = torch.zeros(5).double()
    return TargetRun(tokens=tokens, repetition_constant=4.0, rates=none, before=none)
