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
from bydore_pyro.law.losses import losses_of
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
        objective=objective, baseline=baseline, tolerance=1.0, importance=importance,
        composition=made, effective=effective if each else None, levels=levels,
    )  # fmt: skip
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


def test_its_losses_are_the_laws_to_the_last_digits_at_any_length() -> None:
    """A baseline's losses are the law's, and what is kept of them is less than 1e-8 apart."""
    tokens, losses, _ = planted(3, 4)
    draws = fit_law(8700.67964257 * tokens, losses).draws(4)
    weights = torch.tensor([[0.2, 0.5, 0.3]]).double()
    for kind in ("rows", "fixed", "drawn"):
        given = {"composition": made_of(kind), "effective": effective}
        found = Programme.of(draws, Goal(**given))
        expected = losses_of(draws, weights, **given)[:, 0]
        torch.testing.assert_close(
            found.unit * found.losses(weights)[0], expected, rtol=1e-13, atol=0
        )


def test_a_millionth_of_the_tolerance_is_left_to_rounding() -> None:
    """So that a solution at its bound serves a draw however its losses are computed."""
    goal = Goal(objective="none_worse", baseline=BASELINE, tolerance=0.5)
    programme = Programme.of(some_draws(free=True), goal)
    excess = programme.unit * programme.excess(goal.baseline_of(3)[None])
    torch.testing.assert_close(excess, torch.full_like(excess, -0.5 + 5e-7), rtol=0, atol=1e-9)


@pytest.mark.parametrize("objective", ["mean", "worst", "none_worse"])
@pytest.mark.parametrize("free", [False, True])
def test_a_composition_of_single_rows_is_the_rows(objective: Any, free: bool) -> None:
    """And one that is the same in all draws is that of every draw."""
    baseline = BASELINE if objective == "none_worse" else None
    draws, points = some_draws(free), torch.tensor([[0.2, 0.5, 0.3]]).double()
    eye = torch.eye(3)
    given: dict[str, Any] = {"objective": objective, "baseline": baseline, "tolerance": 1.0}
    found = []
    for made in (None, eye, eye.expand(4, -1, -1)):
        own = Programme.of(draws, Goal(composition=made, **given)).derivatives(points, 0.1)
        found.append((own[0], own[1].product(eye.double()[None])))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])
