"""The best mixture under a forecast: in expectation, and of every draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from bydore_pyro.answer.forecast import Forecast
from bydore_pyro.answer.question import Question
from bydore_pyro.law import Decision, Goal, LawDraws, best_mixture, best_mixture_draws, carried

MOST_DRAWS, FEWEST_DRAWS, PER_DOMAIN = 400, 50, 5000  # each is a programme of its own
ANY = 1e-9  # a probability that asks for nothing
OF_THE_WORST = 2**13  # losses of all draws; each draw has its own worst target


@dataclass(frozen=True)
class Best:
    """A decision, with what it was decided by.

    Attributes:
        decision: See `bydore_pyro.law.best_mixture`.
        goal: What was asked, on the targets of the forecast.
        law: Draws of the law at the length that was asked for.
    """

    decision: Decision
    goal: Goal
    law: LawDraws

    @cached_property
    def draws(self) -> Tensor:
        """The best mixture of each of D draws ``(D, K)``."""
        count = max(FEWEST_DRAWS, min(MOST_DRAWS, PER_DOMAIN // len(self.decision.weights)))
        law, goal = few(self.law, self.goal, count)
        # The decision has served enough of all draws. Of these few it may not be enough.
        return best_mixture_draws(law, replace(goal, probability=ANY))


def best_of(forecast: Forecast, question: Question) -> Best:
    """Decides under a forecast.

    The law is carried to the length of the run that is asked for: from four times that of the runs
    that were read on, the answer is what the targets are made of.

    Raises:
        ValueError: When no mixture meets the bounds, or none is as good as the baseline with the
            probability that is asked.
    """
    run, law = question.run, forecast.law
    guarded = None
    if question.guards and question.goal.objective == "none_worse":
        guarded = torch.tensor([name in question.guards for name in forecast.importance])
    goal = replace(
        question.goal,
        composition=forecast.compositions,
        levels=forecast.levels.mean(0),
        importance=forecast.shares,
        guarded=guarded,
        effective=None if run is None else run.effective,
    )
    if run is not None:
        law = carried(law, run.tokens)
    return Best(best_mixture(*decided_on(law, goal)), goal, law)


def decided_on(law: LawDraws, goal: Goal) -> tuple[LawDraws, Goal]:
    """Returns the draws of a law that a decision rests on, and the goal of these."""
    if goal.objective != "worst" or goal.importance is None:
        return law, goal
    return few(law, goal, max(FEWEST_DRAWS, OF_THE_WORST // len(goal.importance)))


def few(law: LawDraws, goal: Goal, count: int) -> tuple[LawDraws, Goal]:
    """Returns a law with at most so many of its draws, evenly spaced, and the goal of these."""
    count = min(count, len(law.level))
    some = torch.linspace(0, len(law.level) - 1, count).long().unique()
    made = goal.composition
    made = made[some] if made is not None and made.dim() == 3 else made
    return law[some], replace(goal, composition=made)
