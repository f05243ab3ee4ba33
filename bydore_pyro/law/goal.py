"""What is asked of a mixture, checked; and what is answered."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from torch import Tensor


__all__ = ["Decision", "Goal", "Objective"]

Objective = Literal["mean", "worst", "none_worse"]  # see `bydore_pyro.law.decision`


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is asked of a mixture, on Q targets.

    This is the only place where objective, tolerance, probability, baseline and bounds are declared
    and checked, and where their defaults stand. `Question` (`bydore_pyro.answer`) holds a goal
    without targets; the forecast adds them.

    Attributes:
        objective: See `bydore_pyro.law.decision`.
        composition: ``C`` ``(Q, T)``, or ``(S, Q, T)`` with one for each draw of the law: what the
            targets are made of, >= 0, rows of sum > 0. A target's loss is ``sum_t C_qt L_t``: in
            another unit than the law's, rows have another sum than 1. The law's T rows are the
            targets when None.
        levels: Nats per token that each target lies above what it is made of ``(Q,)``; 0 when None.
        importance: ``p`` ``(Q,)``, >= 0; equal when None. Targets of importance 0 have no part in
            the mean or the worst.
        guarded: Which targets `none_worse` protects ``(Q,)``, boolean; all when None.
        at_least: Bounds of the weights ``(K,)``; 0 when None.
        at_most: Likewise; 1 when None.
        baseline: Weights ``(K,)``, of `none_worse`.
        tolerance: Nats per token that a target may lose, > 0.
        probability: Of all targets together, in (0, 1).
        effective: Where text runs out: maps weights ``(..., K)`` to the shares of fresh text that
            they amount to, each by itself, increasing and concave. The weights when None.

    Raises:
        ValueError: When a number is out of its range, or a baseline or `guarded` stands without
            `none_worse`.
    """

    objective: Objective = "mean"
    composition: Tensor | None = None
    levels: Tensor | None = None
    importance: Tensor | None = None
    guarded: Tensor | None = None
    at_least: Tensor | None = None
    at_most: Tensor | None = None
    baseline: Tensor | None = None
    tolerance: float = 0.02
    probability: float = 0.9
    effective: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ValueError(
                f"Expected the objective mean, worst or none_worse, actual {self.objective!r}"
            )
        if (self.baseline is None) == (self.objective == "none_worse"):
            raise ValueError("Expected a baseline beside none_worse, and only there")
        if self.guarded is not None and self.objective != "none_worse":
            raise ValueError(f"Expected none_worse beside guarded, actual {self.objective}")
        if not 0 < self.tolerance < math.inf:
            raise ValueError(f"Expected tolerance > 0, finite, actual {self.tolerance}")
        if not 0 < self.probability < 1:
            raise ValueError(f"Expected a probability in (0, 1), actual {self.probability}")

    def importance_of(self, targets: int) -> Tensor:
        """Returns the importance of Q targets ``(Q,)``, of sum 1.

        Raises:
            ValueError: When it is not of their number, or below 0, or all 0.
        """
        import torch

        given = torch.ones(targets) if self.importance is None else self.importance
        importance = as_vector(given, targets, "importance")
        if not (float(importance.min()) >= 0 and float(importance.sum()) > 0):
            raise ValueError(f"Expected importance >= 0, some > 0, actual {importance.tolist()}")
        return importance / importance.sum()

    def guarded_of(self, targets: int) -> Tensor:
        """Returns which of Q targets may not be worse than under the baseline ``(Q,)``, boolean.

        Raises:
            ValueError: When it is not of their number, or some are to be protected and none is.
        """
        import torch

        if self.objective != "none_worse":
            return torch.zeros(targets, dtype=torch.bool)
        if self.guarded is None:
            return torch.ones(targets, dtype=torch.bool)
        guarded = torch.as_tensor(self.guarded).bool()
        if guarded.shape != (targets,) or not guarded.any():
            raise ValueError(
                f"Expected guarded ({targets},), some true, actual {self.guarded.tolist()}"
            )
        return guarded

    def levels_of(self, targets: int) -> Tensor:
        """Returns the levels of Q targets ``(Q,)``.

        Raises:
            ValueError: When they are not of their number, or not finite.
        """
        import torch

        given = torch.zeros(targets) if self.levels is None else self.levels
        return as_vector(given, targets, "levels")

    def baseline_of(self, domains: int) -> Tensor:
        """Returns the baseline's weights ``(K,)``, of sum 1.

        Raises:
            ValueError: When there are none, or they are no weights of K domains.
        """
        if self.baseline is None:
            raise ValueError("Expected a baseline, actual none")
        base = as_vector(self.baseline, domains, "baseline")
        sums = float(base.sum())
        if not (float(base.min()) >= 0 and abs(sums - 1) < 1e-4):
            raise ValueError(f"Expected a baseline >= 0 of sum 1, actual sum {sums:g}")
        return base / sums

    def bounds_of(self, domains: int) -> tuple[Tensor, Tensor]:
        """Returns the lower and the upper bounds ``(K,)`` of weights, the upper at most 1.

        Raises:
            ValueError: When they are not of K domains, or not finite.
        """
        import torch

        least = torch.zeros(domains) if self.at_least is None else self.at_least
        most = torch.ones(domains) if self.at_most is None else self.at_most
        upper = as_vector(most, domains, "at_most").clamp(max=1)
        return as_vector(least, domains, "at_least"), upper


class Decision(NamedTuple):
    """The best mixture.

    Attributes:
        weights: ``(K,)``.
        losses: Expected, of each target ``(Q,)``, nats per token.
        objective: What was minimised, nats per token.
        price_at_least: By how much the objective rises for a unit of weight more of a lower bound,
            ``(K,)``, nats per token, >= 0. Of the two prices of a domain one is 0, also where its
            bounds are equal: then the other says which way its weight should go.
        price_at_most: By how much it falls for a unit more of an upper bound, likewise. Of a bound
            of 0 it is that of the first text: the slope at a weight of 1e-6.
        price_of_targets: ``(Q,)``. ``worst``: how often each target is the worst, over the draws;
            ``none_worse``: the fall of the objective for a nat more of each target's tolerance.
        probability: Share of the draws in which no guarded target is worse than under the baseline
            by more than the tolerance; 1 for other objectives.
    """

    weights: Tensor
    losses: Tensor
    objective: float
    price_at_least: Tensor
    price_at_most: Tensor
    price_of_targets: Tensor
    probability: float


def as_vector(given: Tensor, count: int, name: str) -> Tensor:
    """Returns a vector in float64.

    Raises:
        ValueError: When it is not ``(count,)`` or not finite.
    """
    import torch

    vector = torch.as_tensor(given).double()
    if vector.shape != (count,):
        raise ValueError(f"Expected {name} ({count},), actual {tuple(vector.shape)}")
    if not vector.isfinite().all():
        raise ValueError(f"Expected {name} that are finite, actual {vector.tolist()}")
    return vector
