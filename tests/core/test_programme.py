"""The programme's derivatives, and goals that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from planted_laws import planted
from torch import Tensor

from bydore_pyro.core.laplace import fit_law
from bydore_pyro.core.law import LawDraws
from bydore_pyro.core.programme import Goal, Programme

BASELINE = torch.tensor([0.5, 0.3, 0.2])


def some_draws(free: bool, count: int = 4) -> LawDraws:
    """Draws of a law of three domains, with a transfer for each draw or one for all."""
    return fit_law(*planted(3, 4), free=free).draws(count)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("objective", ["mean", "worst", "none_worse"])
def test_gradient_and_hessian_are_those_of_the_value(
    objective: Any, free: bool, each: bool
) -> None:
    baseline = BASELINE if objective == "none_worse" else None
    importance = torch.tensor([0.7, 0.0, 0.3])
    goal = Goal(objective=objective, baseline=baseline, tolerance=1.0, importance=importance)
    programme = Programme(some_draws(free), goal, each)
    if objective == "none_worse":
        programme.keep(programme.interior()[None], 0 if each else 1)
    batch = len(programme.level)
    assert batch == (4 if each else 1)
    points = torch.tensor([0.2, 0.5, 0.3]).double().expand(batch, -1)
    if objective == "worst":
        points = torch.cat([points, torch.full((batch, 1), 9.0).double()], 1)

    def value(points: Tensor) -> Tensor:
        return programme.value(points, 0.1).sum()

    gradient, hessian = programme.derivatives(points, 0.1)
    torch.testing.assert_close(gradient, torch.autograd.functional.jacobian(value, points))
    expected = torch.autograd.functional.hessian(value, points)
    for one in range(batch):
        torch.testing.assert_close(hessian[one], expected[one, :, one])
        if objective != "worst":  # which is convex, and not strictly so
            assert float(torch.linalg.eigvalsh(hessian[one]).min()) > 0


def test_its_losses_are_the_laws() -> None:
    draws = some_draws(free=True)
    weights = torch.tensor([[0.2, 0.5, 0.3]]).double()
    for length in (None, 3.0):
        found = Programme(draws, Goal(length=length)).losses(weights)[0]
        torch.testing.assert_close(found[0], draws.losses((length or 1) * weights)[:, 0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"objective": "best"}, "Expected the objective mean, worst or none_worse, actual 'best'"),
        ({"objective": "none_worse"}, "Expected a baseline beside none_worse, and only there"),
        ({"baseline": BASELINE}, "Expected a baseline beside none_worse, and only there"),
        ({"tolerance": 0.0}, "Expected tolerance > 0, actual 0.0"),
        ({"tolerance": float("nan")}, "Expected tolerance > 0, actual nan"),
        ({"probability": 1.0}, "Expected a probability in (0, 1), actual 1.0"),
        ({"length": 0.0}, "Expected length > 0, actual 0.0"),
        ({"importance": torch.ones(2)}, "Expected importance (3,), finite, actual (2,)"),
        ({"importance": torch.zeros(3)}, "Expected importance >= 0, some > 0"),
        ({"at_least": torch.full((3,), 0.4)}, "at_least to sum to 1 at most and"),
        ({"at_most": torch.full((3,), 0.3)}, "at_most to 1 at least, actual 0 and 0.9"),
        ({"at_least": -BASELINE}, "Expected 0 <= at_least <= at_most"),
        ({"at_least": BASELINE, "at_most": BASELINE - 0.1}, "Expected 0 <= at_least <= at_most"),
        ({"objective": "none_worse", "baseline": 2 * BASELINE}, "of sum 1, actual sum 2"),
        ({"objective": "none_worse", "baseline": BASELINE[:2]}, "Expected baseline (3,)"),
    ],
)  # fmt: skip
def test_goals_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as found:  # noqa: PT011
        Programme(some_draws(free=False), Goal(**given))
    assert message in str(found.value)
    assert "\n" not in str(found.value)
