"""What an answer costs and is worth, against brute force on a fine grid."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from planted_laws import GRID, planted
from torch import Tensor

from bydore_pyro.law.decision import best_mixture
from bydore_pyro.law.goal import Goal
from bydore_pyro.law.laplace import fit_law
from bydore_pyro.law.losses import losses_of
from bydore_pyro.law.prices import freedom, frontier, objectives

DRAWS = fit_law(*planted(3, 5, noise=0.05)).draws(40)
IMPORTANCE = torch.tensor([0.7, 0.2, 0.1])
BASELINE = torch.tensor([0.2, 0.5, 0.3]).double()
COMPOSITION = torch.tensor([[0.7, 0.3, 0.0], [0.1, 0.1, 0.8]]).double()


def test_the_objective_of_a_mixture_is_that_of_the_decision() -> None:
    """Of all draws in the mean; levels and importance say which target is the worst."""
    levels = torch.tensor([0.0, 0.3])
    aims: tuple[Any, ...] = ("mean", "worst")
    for aim, importance in itertools.product(aims, (None, torch.tensor([1.0, 0.0]))):
        goal = Goal(objective=aim, composition=COMPOSITION, levels=levels, importance=importance)
        found = best_mixture(DRAWS, goal)
        values = objectives(DRAWS, goal, torch.stack([found.weights, BASELINE]))
        assert values.shape == (40, 2)
        assert float(values[:, 0].mean()) == pytest.approx(found.objective)
        assert float(values[:, 1].mean()) > found.objective


@pytest.mark.parametrize("objective", ["mean", "worst"])
@pytest.mark.parametrize("corner", [False, True])
def test_a_weight_is_free_as_far_as_a_fine_grid_says(objective: Any, corner: bool) -> None:
    goal = Goal(objective=objective, importance=IMPORTANCE)
    answer = best_mixture(DRAWS, goal).weights
    if corner:
        answer = torch.tensor([1.0, 0, 0]).double()
    rise = 0.03
    found = freedom(DRAWS, goal, answer, rise)
    assert found.shape == (3, 2)

    def values(mixtures: Tensor) -> Tensor:
        losses = losses_of(DRAWS, mixtures)
        return (losses.amax(2) if objective == "worst" else losses @ IMPORTANCE.double()).mean(0)

    at = torch.linspace(0, 1, 2001).double()
    for domain in range(3):
        others = answer.clone()
        others[domain] = 0
        if others.sum() == 0:
            others = 1 - answer
        line = (1 - at)[:, None] * others / others.sum()
        line[:, domain] = at
        within = at[values(line) <= float(values(answer[None])) + rise]
        expected = torch.stack([within.min(), within.max()])
        torch.testing.assert_close(found[domain], expected, atol=1e-3, rtol=0)
    assert (found[:, 0] <= answer + 1e-9).all()
    assert (found[:, 1] >= answer - 1e-9).all()


def test_freedom_and_frontier_know_of_levels() -> None:
    levels = torch.tensor([0.0, 0.3, 0.0])
    free = [freedom(DRAWS, Goal(objective="worst", levels=one), BASELINE) for one in (None, levels)]
    assert not torch.allclose(*free)
    plain, raised = (
        frontier(DRAWS, Goal(composition=COMPOSITION, levels=one), points=3)[1]
        for one in (None, torch.tensor([0.5, 0.0]))
    )
    torch.testing.assert_close(raised - plain, torch.tensor([[0.5, 0]]).double().expand(3, -1))


def test_freedom_grows_with_the_rise_to_all_weights() -> None:
    goal = Goal(composition=COMPOSITION)
    answer = best_mixture(DRAWS, goal).weights
    narrow, wide = (freedom(DRAWS, goal, answer, rise) for rise in (0.01, 0.02))
    assert (narrow[:, 0] >= wide[:, 0]).all()
    assert (narrow[:, 1] < wide[:, 1]).all()
    everything = freedom(DRAWS, goal, answer, 1e3)
    torch.testing.assert_close(everything, torch.tensor([[0.0, 1.0]]).double().expand(3, -1))
    with pytest.raises(ValueError, match="Expected rise > 0, finite"):
        freedom(DRAWS, goal, answer, 0.0)


def test_the_frontier_of_two_targets_is_below_every_mixture() -> None:
    """None of a grid of mixtures is better on a weighted mean; the ends are each target's best."""
    bound = torch.tensor([0.0, 0.2, 0.0])
    weights, losses = frontier(DRAWS, Goal(composition=COMPOSITION, at_least=bound), points=5)
    assert weights.shape == (5, 3)
    allowed = losses_of(DRAWS, GRID[GRID[:, 1] >= 0.2], composition=COMPOSITION).mean(0)
    for place, loss in zip(torch.linspace(1, 0, 5), losses, strict=True):
        share = torch.stack([place, 1 - place]).double()
        assert float(loss @ share) <= float((allowed @ share).min()) + 1e-6
        assert float(loss @ share) == pytest.approx(float((allowed @ share).min()), abs=1e-3)
    assert (losses[1:, 0] > losses[:-1, 0]).all()
    assert (losses[1:, 1] < losses[:-1, 1]).all()
    assert (weights[:, 1] >= bound[1].double()).all(), "to the bit"
    torch.testing.assert_close(losses_of(DRAWS, weights, composition=COMPOSITION).mean(0), losses)


def test_the_frontier_of_three_targets_and_of_those_that_are_asked() -> None:
    weights, losses = frontier(DRAWS, Goal(objective="worst"), points=3)
    assert weights.shape == losses.shape == (6, 3)
    alone = [best_mixture(DRAWS, Goal(importance=row)).losses for row in torch.eye(3)]
    for place, target in zip((0, 3, 5), range(3), strict=True):
        torch.testing.assert_close(losses[place], alone[target])
    two = frontier(DRAWS, Goal(importance=torch.tensor([1, 0, 1])), points=2)[1]
    torch.testing.assert_close(two, torch.stack([alone[0], alone[2]]))
    with pytest.raises(ValueError, match="Expected two or three targets, actual 1"):
        frontier(DRAWS, Goal(importance=torch.tensor([1, 0, 0])))


def test_one_domain_has_no_freedom() -> None:
    tokens = torch.tensor([[0.25], [0.5], [1.0]])
    draws = fit_law(tokens, 3 - tokens.log()).draws(5)
    assert freedom(draws, Goal(), torch.ones(1)).tolist() == [[1, 1]]
