"""A live mixture that minimises the loss that the law foretells for the end of the run.

A model in training is a run of the law of losses (`bydore_pyro.core.law`): what it read of every
domain is known, its losses can be read. With ``n_k`` steps' worth of domain k read of N, weights
``w`` of the rest end at ``n_k + (N - sum n) w_k``, of which text that is read again counts less.
The target's loss is that of the domains by its composition; the best ``w`` is a convex programme.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bydore_pyro.core import (
    Goal,
    best_mixture,
    carried,
    draw_posterior,
    fit_law,
    importance_of,
    loss_differences,
    match,
)
from bydore_pyro.live import LiveMixture
from bydore_pyro.measure import read_losses
from bydore_pyro.mixture import REPETITION_CONSTANT, effective_shares
from bydore_pyro.proxy import MeasuredModel

DRAWS = 400  # of the law, each with a composition
EARLIER = 4  # losses are read from this part of the first round's steps on: a law needs three


class LawMixture(LiveMixture):
    """Rounds as those of `LiveMixture`; the weights are the law's where it decides.

    Args:
        given: Of `LiveMixture`.
        steps: Of the whole run.
        batch: Sequences of a step.
        most_unexplained: Share of the target's gradient up to which the law decides.
    """

    def __init__(
        self, *given: Any, steps: int, batch: int, most_unexplained: float, **more: Any
    ) -> None:
        super().__init__(*given, **more)
        self._steps, self._most_unexplained = float(steps), most_unexplained
        # How often a step on one domain alone reads its text.
        self._rates = torch.tensor(batch / self.domains.trained())
        self._tokens: list[Tensor] = []
        self._losses: list[Tensor] = []

    def due(self, step: int) -> bool:
        """Whether losses are read after so many steps; from the first round on gradients too."""
        return super().due(EARLIER * step)

    def measure(self, model: nn.Module, step: int, most: np.ndarray | None = None) -> Any:
        """Reads the losses; at a round the weights may move."""
        ends = [0, *(one.step for one in self.rounds), step]
        read = sum((b - a) * self.before(a) for a, b in pairwise(ends))
        self._tokens.append(torch.as_tensor(read))
        losses = read_losses(MeasuredModel(model, self.cost), self.domains)
        self._losses.append(torch.tensor([losses[name] for name in self.domains.names]).double())
        if not super().due(step):
            return None
        present, one = torch.tensor(self.present), super().measure(model, step, most)
        if one.unexplained <= self._most_unexplained:
            new, better = self._best(present)
            moved = better >= self._level
            self.rounds[-1] = dataclasses.replace(
                one,
                weights=(new if moved else present).numpy(),
                found=new.numpy(),
                better=better,
                moved=moved,
            )
        return self.rounds[-1]

    def _best(self, present: Tensor) -> tuple[Tensor, float]:
        """Returns the best weights of the rest ``(K,)``, and the probability that they are better
        than the present ones."""

        def fresh(read: Tensor) -> Tensor:
            return effective_shares(read, self._rates, REPETITION_CONSTANT)

        steps, read = self._steps, torch.stack(self._tokens)
        found = match(self._measured, importance=importance_of(self._measured))
        made = draw_posterior(found, seed=self._seed).weights.double()
        fitted = fit_law(fresh(read), torch.stack(self._losses), found.gram, range(len(present)))
        law = carried(fitted.draws(DRAWS), steps)
        rest = steps - float(read[-1].sum())
        given: dict[str, Any] = {
            "composition": made[torch.linspace(0, len(made) - 1, DRAWS).long()][:, None],
            "effective": lambda w: fresh(read[-1] + rest * w) / law.runs.length,
        }
        new = best_mixture(law, Goal(**given)).weights
        gained = loss_differences(law, new, present, **given) < 0
        return new, float(gained.double().mean())
