"""The programme's losses and their derivatives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from planted_laws import planted
from torch import Tensor

from bydore_pyro.law.goal import Goal
from bydore_pyro.law.laplace import fit_law
from bydore_pyro.law.law import LawDraws
from bydore_pyro.law.programme import Programme
from bydore_pyro.mixture import effective_shares

BASELINE = torch.tensor([0.5, 0.3, 0.2])


def some_draws(free: bool, count: int = 4) -> LawDraws:
    """Draws of a law of three domains, with a transfer for each draw or one for all."""
    return fit_law(*planted(3, 4), free=free).draws(count)


def effective(weights: Tensor) -> Tensor:
    """Shares of fresh text; the second domain has text for a tenth of the run."""
    return effective_shares(weights, torch.tensor([0.0, 10.0, 1.0]), 4.0)


def made_of(kind: str) -> Tensor | None:
    """Two targets, of all rows or not of the last; or the rows themselves."""
    one = torch.tensor([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0]]).double()
    drawn = torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    return {"rows": None, "fixed": one, "drawn": drawn / drawn.sum(-1, keepdim=True)}[kind]


@pytest.mark.parametrize(("free", "each"), [(False, True), (True, False)])
@pytest.mark.parametrize("objective", ["mean", "worst", "none_worse"])
@pytest.mark.parametrize("targets", ["rows", "fixed", "drawn"])
def test_gradient_and_hessian_are_those_of_the_value(
    targets: str, objective: Any, free: bool, each: bool
) -> None:
    baseline = BASELINE if objective == "none_worse" else None
    made = made_of(targets)
    importance = torch.tensor([0.7, 0.0, 0.3] if made is None else [0.7, 0.3])
    levels = torch.linspace(0, 0.5, len(importance))
    goal = Goal(
        objective=objective,
        baseline=baseline,
        tolerance=1.0,
        importance=importance,
        composition=made,
        effective=effective if each else None,
        levels=levels,
    )
    programme = Programme.of(some_draws(free), goal, each)
    if objective == "none_worse":
        programme = programme.without_hardest(programme.inside, 0 if each else 1)
    batch = len(programme.level)
    assert batch == (4 if each else 1)
    points = torch.tensor([0.2, 0.5, 0.3]).double().expand(batch, -1)

    def value(points: Tensor) -> Tensor:
        return programme.value(points, 0.1).sum()

    gradient, curvature = programme.derivatives(points, 0.1)
    hessian = curvature.product(torch.eye(3).double().expand(batch, -1, -1))
    torch.testing.assert_close(gradient, torch.autograd.functional.jacobian(value, points))
    expected = torch.autograd.functional.hessian(value, points)
    for one in range(batch):
        torch.testing.assert_close(hessian[one], expected[one, :, one])
        if objective != "worst":  # which is convex, and not strictly so
            assert float(torch.linalg.eigvalsh(hessian[one]).min()) > 0
