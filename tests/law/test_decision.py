"""Decisions against a fine grid of all mixtures, and their prices against differences."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
import torch
from planted_laws import planted
from torch import Tensor

from bydore_pyro.law.bounds import Bounds
from bydore_pyro.law.decision import best_mixture, best_mixture_draws
from bydore_pyro.law.goal import Decision, Goal
from bydore_pyro.law.laplace import fit_law
from bydore_pyro.law.losses import loss_differences, losses_of
from bydore_pyro.mixture import effective_shares

DRAWS = fit_law(*planted(3, 5, noise=0.05)).draws(60)
STEP = 0.01
GRID = (
    torch.tensor(
        [(i, j, 100 - i - j) for i, j in itertools.product(range(101), repeat=2) if i + j <= 100]
    ).double()
    / 100
)
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
    worst = LOSSES.amax(2).mean(0)
    assert found.objective <= float(worst.min()) + 1e-6
    assert float((found.weights - GRID[worst.argmin()]).abs().max()) < 2 * STEP
    # Which target is the worst is not known: the worst of the expected losses is another question.
    other = LOSSES.mean(0).amax(1).argmin()
    assert float(worst[other]) > found.objective + 1e-4
    # The targets' prices say how often each is the worst.
    of_draws = DRAWS.losses(found.weights[None])[:, 0]
    often = torch.bincount(of_draws.argmax(1), minlength=3) / len(of_draws)
    torch.testing.assert_close(found.price_of_targets, often.double(), atol=2 / 60, rtol=0)
    assert float(found.price_of_targets.sum()) == pytest.approx(1, abs=1e-3)


def test_levels_say_which_target_is_the_worst() -> None:
    """They change no mean's best mixture; its losses hold them."""
    levels = torch.tensor([0.0, 0.1, -0.05]).double()
    found = best_mixture(DRAWS, Goal(objective="worst", levels=levels))
    worst = (LOSSES + levels).amax(2).mean(0)
    assert found.objective <= float(worst.min()) + 1e-6
    assert float((found.weights - GRID[worst.argmin()]).abs().max()) < 2 * STEP
    torch.testing.assert_close(found.losses, expected_loss(found.weights) + levels)
    plain, raised = (best_mixture(DRAWS, Goal(levels=one)) for one in (None, levels))
    torch.testing.assert_close(plain.weights, raised.weights, atol=1e-6, rtol=0)
    assert raised.objective - plain.objective == pytest.approx(float(levels.mean()), abs=1e-6)


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


@pytest.mark.parametrize("probability", [0.8, 0.95])
def test_guards_alone_are_protected_and_count_for_nothing_else(probability: float) -> None:
    """The mean of the first target, with the third no worse: no mixture of the grid that keeps that
    promise is better; the second may get as bad as it will."""
    goal = Goal(
        objective="none_worse",
        importance=torch.tensor([1.0, 0, 0]),
        guarded=torch.tensor([False, False, True]),
        baseline=BASELINE,
        tolerance=0.02,
        probability=probability,
    )
    found, each = best_mixture(DRAWS, goal), best_mixture_draws(DRAWS, goal)
    apart = LOSSES - DRAWS.losses(BASELINE[None])
    served = (apart[..., 2] <= 0.02).double().mean(0)  # (M,)
    allowed = LOSSES.mean(0)[served >= probability]
    assert found.objective <= float(allowed[:, 0].min()) + 2e-3
    own = loss_differences(DRAWS, found.weights, BASELINE)
    assert found.probability == pytest.approx(float((own[:, 2] <= 0.02).double().mean()))
    assert found.probability >= probability
    assert float(own[:, 1].mean()) > 0.05, "which nobody guards"
    all_kept = best_mixture(DRAWS, dataclasses.replace(goal, guarded=None))
    alone = best_mixture(DRAWS, Goal(importance=goal.importance))
    assert alone.objective < found.objective < all_kept.objective - 1e-3
    of_each = losses_of(DRAWS, each).diagonal(dim1=0, dim2=1).T - DRAWS.losses(BASELINE[None])[:, 0]
    assert (of_each[:, 2] <= 0.02 + 1e-6).all()
    assert found.price_of_targets[1] == 0
    assert found.price_of_targets[2] > 0


def test_a_mixture_that_serves_is_not_refused_at_any_length() -> None:
    """Whatever the unit of tokens: a solution lies within 1e-8 of what a draw allows."""
    tokens, losses, _ = planted(3, 5, noise=0.05)
    for number in range(12):
        draws = fit_law(1234.56789 * 1.37**number * tokens, losses).draws(20, seed=number)
        goal = Goal(
            objective="none_worse",
            baseline=BASELINE,
            tolerance=0.005 * (1 + number % 4),
            probability=(0.5, 0.8, 0.97)[number % 3],
        )
        found = best_mixture(draws, goal)
        own = loss_differences(draws, found.weights, BASELINE).amax(1) <= goal.tolerance
        assert float(own.double().mean()) == pytest.approx(found.probability)
        assert found.probability >= goal.probability


def test_a_baseline_outside_the_bounds() -> None:
    """A mixture that serves enough draws is found, and the best of these; else it is refused."""
    for tolerance, at_most in ((0.3, 0.45), (0.05, 0.46), (0.06, 0.42)):
        goal = Goal(
            objective="none_worse",
            baseline=BASELINE,
            tolerance=tolerance,
            at_most=torch.tensor([1, at_most, 1]).double(),
        )
        found = best_mixture(DRAWS, goal)
        apart = LOSSES - DRAWS.losses(BASELINE[None])
        served = (apart.amax(2) <= tolerance).double().mean(0) * (GRID[:, 1] <= at_most)
        assert served.max() >= 0.9
        assert found.objective <= float(LOSSES.mean(0).mean(1)[served >= 0.9].min()) + 2e-3
        own = (loss_differences(DRAWS, found.weights, BASELINE).amax(1) <= tolerance).double()
        assert found.probability == pytest.approx(float(own.mean()))
        assert found.probability >= 0.9
        assert float(found.weights[1]) <= at_most
    narrow = Goal(
        objective="none_worse",
        baseline=BASELINE,
        at_most=torch.tensor([1, 0.05, 1]),
    )
    for decide in (best_mixture, best_mixture_draws):
        with pytest.raises(ValueError, match="than under the baseline by more than the") as found_:
            decide(DRAWS, narrow)
        assert "with a probability of 0.9, actual 0 at best, least excess 0." in str(found_.value)
        assert "\n" not in str(found_.value)


def test_some_draws_that_no_mixture_serves() -> None:
    """As many as the probability allows: in these the target that is hit most is hit least."""
    at_most = torch.tensor([1, 0.45, 1]).double()
    allowed = GRID[:, 1] <= 0.45
    excess = (LOSSES - DRAWS.losses(BASELINE[None])).amax(2)[:, allowed].amin(1)  # least (S,)
    ordered = excess.sort(descending=True).values
    hard = int((ordered[1:5] - ordered[2:6]).argmax()) + 2  # of sixty so many cannot be served
    tolerance = float(ordered[hard - 1 : hard + 1].mean())
    goal = Goal(
        objective="none_worse",
        baseline=BASELINE,
        tolerance=tolerance,
        at_most=at_most,
        probability=0.9,
    )
    found = best_mixture_draws(DRAWS, goal)
    assert found.shape == (60, 3)
    assert (found[:, 1] <= 0.45).all()
    own = losses_of(DRAWS, found) - DRAWS.losses(BASELINE[None])  # (S, M, T)
    own = own.diagonal(dim1=0, dim2=1).T.amax(1)  # of each draw its own mixture
    assert int((own > tolerance).sum()) == hard
    lost = excess > tolerance
    torch.testing.assert_close(own > tolerance, lost)
    assert (own[lost] <= excess[lost] + 1e-4).all()
    surer = dataclasses.replace(goal, probability=1 - (hard - 0.5) / 60)
    with pytest.raises(ValueError, match=f"actual {1 - hard / 60:.3g} at best, least excess"):
        best_mixture_draws(DRAWS, surer)


def test_bounds_are_kept_and_their_prices_are_differences() -> None:
    free = best_mixture(DRAWS, Goal(importance=IMPORTANCE))
    at_least = torch.tensor([0, 0, float(free.weights[2]) + 0.1])
    at_most = torch.tensor([float(free.weights[0]) - 0.2, 1, 1])

    def objective(more_least: float, more_most: float) -> Decision:
        third, first = torch.tensor([0, 0, 1.0]), torch.tensor([1.0, 0, 0])
        return best_mixture(
            DRAWS,
            Goal(
                importance=IMPORTANCE,
                at_least=at_least + more_least * third,
                at_most=at_most + more_most * first,
            ),
        )

    found = objective(0, 0)
    assert float(found.weights[2]) == pytest.approx(float(at_least[2]), abs=1e-4)
    assert float(found.weights[0]) == pytest.approx(float(at_most[0]), abs=1e-4)
    dearer = (objective(1e-3, 0).objective - objective(-1e-3, 0).objective) / 2e-3
    assert float(found.price_at_least[2]) == pytest.approx(dearer, rel=0.02)
    cheaper = (objective(0, -1e-3).objective - objective(0, 1e-3).objective) / 2e-3
    assert float(found.price_at_most[0]) == pytest.approx(cheaper, rel=0.02)
    assert float(free.price_at_least.max()) < 1e-3, "what does not bind costs nothing"


@pytest.mark.parametrize("more", [-0.15, 0.15])
def test_the_price_of_an_equality_says_which_way_the_weight_should_go(more: float) -> None:
    at = float(best_mixture(DRAWS, Goal(importance=IMPORTANCE)).weights[1]) + more

    def fixed(weight: float) -> Decision:
        lower, upper = torch.tensor([0, weight, 0]), torch.tensor([1, weight, 1])
        return best_mixture(DRAWS, Goal(importance=IMPORTANCE, at_least=lower, at_most=upper))

    found = fixed(at)
    prices = found.price_at_least[1], found.price_at_most[1]
    rise = (fixed(at + 1e-3).objective - fixed(at - 1e-3).objective) / 2e-3
    assert float(prices[0] - prices[1]) == pytest.approx(rise, rel=0.02)
    assert (rise > 0) == (more > 0)
    assert float(min(prices)) == 0


BOUNDS = {  # at_least, at_most
    "forbidden": ((0, 0, 0), (0, 1, 1)),
    "nearly forbidden": ((0, 0, 0), (1e-7, 1, 1)),
    "equal": ((0.3, 0, 0), (0.3, 1, 1)),
    "all fixed": ((0.3, 0.1, 0.6), (0.3, 0.1, 0.6)),
    "upper of sum 1": ((0, 0, 0), (0.1, 0.2, 0.7)),
    "tight": ((0.6, 0.1, 0.1), (0.7, 0.2, 0.2)),
}


@pytest.mark.parametrize("objective", ["mean", "worst", "none_worse"])
@pytest.mark.parametrize("name", [*BOUNDS])
def test_every_bound_holds_exactly(name: str, objective: Any) -> None:
    """And the mixture is the best of those within, with one price for each domain."""
    lower, upper = (torch.tensor(one, dtype=torch.double) for one in BOUNDS[name])
    keep = objective == "none_worse"
    goal = Goal(
        objective=objective,
        at_least=lower,
        at_most=upper,
        tolerance=3.0,
        baseline=BASELINE if keep else None,
        importance=IMPORTANCE,
    )
    found, each = best_mixture(DRAWS, goal), best_mixture_draws(DRAWS, goal)
    for weights in (found.weights, *each):
        assert (weights >= lower).all()
        assert (weights <= upper).all()
        assert float(weights.sum()) == pytest.approx(1, abs=1e-12)
    assert (found.weights[upper == 0] == 0).all()
    assert torch.minimum(found.price_at_least, found.price_at_most).abs().max() == 0
    assert found.price_at_least.isfinite().all()
    assert found.price_at_most.isfinite().all()
    bounds = Bounds.of(lower, upper)
    within = expected_objective(bounds.nearest(GRID), objective)
    assert found.objective <= float(within.min()) + 1e-6


def expected_objective(mixtures: Tensor, objective: str) -> Tensor:
    losses = DRAWS.losses(mixtures)
    worst = objective == "worst"
    return (losses.amax(2) if worst else losses @ IMPORTANCE.double()).mean(0)


def test_a_corner_has_the_whole_price() -> None:
    """That one weight is 1 since the others are 0 is no bound of its own."""
    draws = fit_law(*planted(2, 4, noise=0.05)).draws(40)
    goal = Goal(importance=torch.tensor([1.0, 0.0]), at_least=torch.tensor([0.7, 0.1]).double())
    found = best_mixture(draws, goal)
    at, step = found.weights, torch.tensor([-1e-4, 1e-4]).double()
    losses = draws.losses(torch.stack([at - step, at + step])).mean(0)[:, 0]
    assert at.tolist() == pytest.approx([0.9, 0.1], abs=1e-5)
    slope = float(losses[1] - losses[0]) / 2e-4
    assert float(found.price_at_least[1]) == pytest.approx(slope, rel=1e-3)
    assert float(found.price_at_most.max()) < 1e-3


@pytest.mark.parametrize("objective", ["mean", "worst", "none_worse"])
@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e6, 1e25])
def test_a_decision_does_not_depend_on_the_unit_of_the_losses(objective: Any, unit: float) -> None:
    tokens, losses, cross = planted(3, 5, noise=0.05)

    def decided(scale: float) -> tuple[Decision, Tensor]:
        draws = fit_law(tokens, scale * losses.double(), cross).draws(60)
        goal = Goal(
            objective=objective,
            importance=IMPORTANCE,
            tolerance=0.05 * scale,
            baseline=BASELINE if objective == "none_worse" else None,
            probability=0.8,
            at_most=torch.tensor([1, 0.46, 0.3]),
            levels=scale * torch.tensor([0, 0.1, 0]).double(),
        )
        return best_mixture(draws, goal), best_mixture_draws(draws, goal)

    (plain, each), (other, other_each) = decided(1.0), decided(unit)
    torch.testing.assert_close(other.weights, plain.weights, atol=1e-6, rtol=0)
    torch.testing.assert_close(other_each, each, atol=1e-6, rtol=0)
    assert other.objective / unit == pytest.approx(plain.objective, rel=1e-9)
    assert other.probability == plain.probability
    for name in ("losses", "price_at_least", "price_at_most"):
        value = getattr(other, name) / unit
        torch.testing.assert_close(value, getattr(plain, name), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(other.price_of_targets, plain.price_of_targets, atol=1e-4, rtol=1e-4)


COMPOSITION = torch.tensor([[0.7, 0.3, 0.0], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]).double()
DRAWN = torch.rand(60, 3, 3, generator=torch.Generator().manual_seed(0)).double() * COMPOSITION
DRAWN /= DRAWN.sum(-1, keepdim=True)


def effective(weights: Tensor) -> Tensor:
    """Shares of fresh text, of which the first domain has little."""
    return effective_shares(weights, torch.tensor([5.0, 0.0, 2.0]), 3.0)


@pytest.mark.parametrize(("made", "fresh"), [(COMPOSITION, effective), (DRAWN, None)])
@pytest.mark.parametrize("objective", ["mean", "worst", "none_worse"])
def test_targets_made_of_rows_against_the_grid(objective: Any, made: Tensor, fresh: Any) -> None:
    """In expectation over draws, and of each draw; a tolerance that binds in one draw in two."""
    bound = objective == "none_worse"
    goal = Goal(
        objective=objective,
        composition=made,
        importance=IMPORTANCE,
        effective=fresh,
        baseline=BASELINE if bound else None,
        tolerance=0.01,
    )

    def values(losses: Tensor) -> Tensor:
        return losses.amax(-1) if objective == "worst" else losses @ IMPORTANCE.double()

    on_grid, base = (
        losses_of(DRAWS, GRID, made, fresh),
        losses_of(DRAWS, BASELINE[None], made, fresh),
    )
    allowed = (on_grid <= base + goal.tolerance).all(2) if bound else torch.ones(60, len(GRID)) > 0
    least = values(on_grid).masked_fill(~allowed, torch.inf).amin(1)  # of each draw (S,)
    each = losses_of(DRAWS, best_mixture_draws(DRAWS, goal), made, fresh)
    own = each.diagonal(dim1=0, dim2=1).T  # of each draw its own mixture (S, Q)
    assert (values(own) <= least + 1e-6).all()
    assert float((least - values(own)).max()) < 2e-2
    found = best_mixture(DRAWS, goal)
    assert found.losses.shape == found.price_of_targets.shape == (3,)
    at_found = values(losses_of(DRAWS, found.weights[None], made, fresh)).mean()
    assert found.objective == pytest.approx(float(at_found))
    if bound:
        assert (own <= base[:, 0] + goal.tolerance + 1e-6).all()
        served = loss_differences(DRAWS, found.weights, BASELINE, made, fresh).amax(1) <= 0.01
        assert float(served.double().mean()) == pytest.approx(found.probability)
        assert 0.9 <= found.probability < 1, "the tolerance binds"
        assert found.objective < float(values(base).mean())
    else:
        assert found.objective <= float(values(on_grid).mean(0).min()) + 1e-6


def test_targets_without_importance_are_protected() -> None:
    """They count in the promise, not in the mean."""
    importance = torch.tensor([1.0, 0, 0])
    goal = Goal(
        objective="none_worse",
        baseline=BASELINE,
        importance=importance,
        tolerance=0.05,
        probability=0.8,
    )
    found = best_mixture(DRAWS, goal)
    assert found.objective == pytest.approx(float(found.losses[0]))
    worse = loss_differences(DRAWS, found.weights, BASELINE)
    assert float((worse.amax(1) <= 0.05).double().mean()) >= 0.8
    free = best_mixture(DRAWS, Goal(importance=importance))
    assert free.losses.shape == free.price_of_targets.shape == (3,)
    assert float((free.losses - expected_loss(BASELINE))[1:].max()) > 0.1
    assert float(free.losses[0]) < float(found.losses[0]) < float(expected_loss(BASELINE)[0])
    assert float(found.price_of_targets[1:].max()) > 0.01, "they bind"
