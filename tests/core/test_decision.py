"""Decisions against a fine grid of all mixtures, and their prices against differences."""

from __future__ import annotations

import itertools

import pytest
import torch
from planted_laws import planted
from torch import Tensor

from bydore_pyro.core.decision import best_mixture, best_mixture_draws, loss_differences
from bydore_pyro.core.laplace import fit_law
from bydore_pyro.core.programme import Decision, Goal

DRAWS = fit_law(*planted(3, 5, noise=0.05)).draws(60)
STEP = 0.01
GRID = torch.tensor(
    [(i, j, 100 - i - j) for i, j in itertools.product(range(101), repeat=2) if i + j <= 100]
).double() / 100  # fmt: skip
LOSSES = DRAWS.losses(GRID)  # (S, M, T)
IMPORTANCE = torch.tensor([0.7, 0.2, 0.1])
BASELINE = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)


def expected_loss(weights: Tensor) -> Tensor:
    """The mean over draws of each target's loss."""
    return DRAWS.losses(weights[None])[:, 0].mean(0)


def test_the_least_mean_is_that_of_the_grid() -> None:
    found = best_mixture(DRAWS, Goal(importance=IMPORTANCE))
    assert isinstance(found, Decision)
    means = LOSSES.mean(0) @ IMPORTANCE.double()
    assert found.objective <= float(means.min()) + 1e-6
    assert float((found.weights - GRID[means.argmin()]).abs().max()) < 2 * STEP
    torch.testing.assert_close(found.losses, expected_loss(found.weights))
    assert found.objective == pytest.approx(float(found.losses @ IMPORTANCE.double()))
    assert float(best_mixture(DRAWS).weights.sum()) == pytest.approx(1)


def test_the_least_worst_is_that_of_the_grid() -> None:
    found = best_mixture(DRAWS, Goal(objective="worst"))
    worst = LOSSES.mean(0).amax(1)
    assert found.objective <= float(worst.min()) + 1e-6
    assert float((found.weights - GRID[worst.argmin()]).abs().max()) < 2 * STEP
    # The targets' prices are their shares in the worst; none that is better has a price.
    assert float(found.price_of_targets.sum()) == pytest.approx(1, abs=1e-3)
    better = found.losses < found.losses.max() - 0.01
    assert float(found.price_of_targets[better].sum()) < 1e-3


@pytest.mark.parametrize("tolerance", [0.02, 0.1])
def test_none_is_worse_in_as_many_draws_as_asked(tolerance: float) -> None:
    """No mixture of the grid that keeps the promise is better."""
    goal = Goal(objective="none_worse", baseline=BASELINE, tolerance=tolerance, probability=0.8)
    found = best_mixture(DRAWS, goal)
    base = DRAWS.losses(BASELINE[None])
    served = ((LOSSES - base).amax(2) <= tolerance).double().mean(0)  # (M,)
    assert found.probability >= 0.8
    own = (loss_differences(DRAWS, found.weights, BASELINE).amax(1) <= tolerance).double().mean()
    assert float(own) == pytest.approx(found.probability)
    allowed = LOSSES.mean(0).mean(1)[served >= 0.8]
    # Which draws are given up is found step by step: not always the best of all choices.
    assert found.objective <= float(allowed.min()) + 2e-3
    assert found.objective < float(base.mean())
    unbound = best_mixture(DRAWS).objective
    wide = Goal(objective="none_worse", baseline=BASELINE, tolerance=9.0)
    assert best_mixture(DRAWS, wide).objective == pytest.approx(unbound, abs=1e-5)


def test_a_baseline_outside_the_bounds() -> None:
    """Where a mixture within them is good enough it is found, else its excess is told."""
    at_most = torch.tensor([1, 0.45, 1])
    goal = Goal(objective="none_worse", baseline=BASELINE, tolerance=0.3, at_most=at_most)
    found = best_mixture(DRAWS, goal)
    assert found.probability >= 0.9
    assert float(found.weights[1]) <= 0.45 + 1e-6
    narrow = Goal(
        objective="none_worse", baseline=BASELINE, at_most=torch.tensor([1, 0.05, 1]),
    )  # fmt: skip
    with pytest.raises(ValueError, match="no target need be worse than under the baseline") as told:
        best_mixture(DRAWS, narrow)
    assert "\n" not in str(told.value)
    with pytest.raises(ValueError, match="actual least excess"):
        best_mixture_draws(DRAWS, narrow)


def test_bounds_are_kept_and_their_prices_are_differences() -> None:
    free = best_mixture(DRAWS, Goal(importance=IMPORTANCE))
    at_least = torch.tensor([0, 0, float(free.weights[2]) + 0.1])
    at_most = torch.tensor([float(free.weights[0]) - 0.2, 1, 1])

    def objective(more_least: float, more_most: float) -> Decision:
        third, first = torch.tensor([0, 0, 1.0]), torch.tensor([1.0, 0, 0])
        return best_mixture(DRAWS, Goal(
            importance=IMPORTANCE, at_least=at_least + more_least * third,
            at_most=at_most + more_most * first,
        ))  # fmt: skip

    found = objective(0, 0)
    assert float(found.weights[2]) == pytest.approx(float(at_least[2]), abs=1e-4)
    assert float(found.weights[0]) == pytest.approx(float(at_most[0]), abs=1e-4)
    dearer = (objective(1e-3, 0).objective - objective(-1e-3, 0).objective) / 2e-3
    assert float(found.price_at_least[2]) == pytest.approx(dearer, rel=0.02)
    cheaper = (objective(0, -1e-3).objective - objective(0, 1e-3).objective) / 2e-3
    assert float(found.price_at_most[0]) == pytest.approx(cheaper, rel=0.02)
    assert float(free.price_at_least.max()) < 1e-3, "what does not bind costs nothing"


def test_bounds_that_leave_one_mixture() -> None:
    goal = Goal(at_least=BASELINE, at_most=BASELINE)
    found = best_mixture(DRAWS, goal).weights
    torch.testing.assert_close(found, BASELINE, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "goal",
    [
        Goal(importance=IMPORTANCE),
        Goal(objective="worst"),
        Goal(objective="none_worse", baseline=BASELINE),
    ],
    ids=["mean", "worst", "none_worse"],
)
def test_each_draw_has_its_best_mixture(goal: Goal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bydore_pyro.core.decision.AT_ONCE", 20)  # two draws at once
    found = best_mixture_draws(DRAWS[:3], goal)
    assert found.shape == (3, 3)
    for number, weights in enumerate(found):
        alone = best_mixture(DRAWS[number : number + 1], goal).weights
        torch.testing.assert_close(weights, alone, atol=2e-3, rtol=0)


def test_differences_are_paired() -> None:
    """Two nearly equal mixtures differ by far less than either is uncertain."""
    other = BASELINE + torch.tensor([0.01, -0.01, 0])
    found = loss_differences(DRAWS, BASELINE, other)
    both = DRAWS.losses(torch.stack([BASELINE, other]))
    torch.testing.assert_close(found, both[:, 0] - both[:, 1])
    assert float(found.std(0).max()) < 0.3 * float(both.std(0).min())
    twice = loss_differences(DRAWS, BASELINE, other, length=2.0)
    assert not torch.allclose(twice, found)
