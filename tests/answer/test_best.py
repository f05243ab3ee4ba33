"""The best mixture under a forecast, where the truth is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from planted_forecasts import (
    MADE,
    UNIFORM,
    as_long_as,
    planted_forecast,
    question,
    true_target_losses,
)
from scipy.optimize import minimize

from bydore_pyro.answer.best import FEWEST_DRAWS, Best, best_of, decided_on, few
from bydore_pyro.law.losses import loss_differences

BOTH = {"one": 1.0, "other": 1.0}


def truly_best() -> tuple[np.ndarray, float]:
    """The mixture with the least true loss on the first target, by SciPy."""
    found = minimize(
        lambda w: float(true_target_losses(torch.tensor(w[None]))),
        UNIFORM.numpy(),
        bounds=[(1e-6, 1)] * 5,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-10},
    )
    return found.x, found.fun


@pytest.mark.parametrize("runs", [1, 6])
def test_it_is_near_the_mixture_that_is_best_in_truth(runs: int) -> None:
    """No worse than what the target is made of, which nobody was told: from one run, too."""
    found = best_of(planted_forecast(runs=runs), question())
    assert isinstance(found, Best)
    mixtures = torch.stack([found.decision.weights, MADE["one"], UNIFORM])
    answer, match, uniform = true_target_losses(mixtures).tolist()
    best, least = truly_best()
    assert answer - least < 0.03
    assert answer < min(match + 0.01, uniform - 0.1)
    assert np.abs(found.decision.weights.numpy() - best).sum() / 2 < 0.15
    assert found.draws.shape[1] == 5
    torch.testing.assert_close(found.draws.sum(1), torch.ones(len(found.draws)).double())
    low, high = found.draws.quantile(torch.tensor([0.0, 1.0]).double(), 0)
    assert ((low <= found.decision.weights) & (found.decision.weights <= high)).all()


def test_the_worst_target_is_as_good_as_the_others() -> None:
    """Which it is by what it loses beyond its composition, too."""
    for levels in ({"one": 0.3, "other": 0.3}, {"one": 0.3, "other": 0.45}):
        forecast = planted_forecast(BOTH, levels=levels)
        mean = best_of(forecast, question()).decision
        worst = best_of(forecast, question(objective="worst")).decision
        losses = forecast.losses(worst.weights[None])[:, 0, :2]
        assert float((losses[:, 0] - losses[:, 1]).mean()) == pytest.approx(0, abs=0.03)
        torch.testing.assert_close(worst.losses, losses.mean(0), atol=1e-6, rtol=0)
        own = forecast.losses(mean.weights[None])[:, 0, :2]
        assert float(losses.amax(1).mean()) <= float(own.amax(1).mean()) + 1e-6
    moved = float(worst.weights @ MADE["other"]) - float(mean.weights @ MADE["other"])
    assert moved > 0.02


def test_few_draws_keep_their_compositions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They tell the expectation nearly; where all targets have many losses, `worst` takes them."""
    found = best_of(planted_forecast(BOTH), question(objective="worst"))
    law, goal = few(found.law, found.goal, 40)
    assert goal.composition is not None
    assert goal.composition.shape == (40, 2, 5)
    assert law.level.shape[0] == len(few(law, goal, 100)[0].level) == 40
    for place, old in ((0, 0), (39, -1)):
        assert found.goal.composition is not None
        assert torch.equal(goal.composition[place], found.goal.composition[old])
        assert torch.equal(law.level[place], found.law.level[old])
    monkeypatch.setattr("bydore_pyro.answer.best.OF_THE_WORST", 1)
    again = best_of(planted_forecast(BOTH), question(objective="worst"))
    assert len(decided_on(again.law, again.goal)[0].level) == FEWEST_DRAWS < len(again.law.level)
    assert not torch.equal(again.decision.weights, found.decision.weights)
    torch.testing.assert_close(again.decision.weights, found.decision.weights, atol=0.05, rtol=0)


def test_none_is_worse_as_far_as_was_promised() -> None:
    """In as many draws as asked, and in truth; with a gain in the mean."""
    tolerance = 0.05
    importance = {"one": 9.0, "other": 1.0}
    asked = question(objective="none_worse", tolerance=tolerance, probability=0.9)
    kept = []
    for seed in range(3):
        forecast = planted_forecast(importance, seed=seed)
        found = best_of(forecast, asked)
        given = (found.law, found.decision.weights, UNIFORM)
        apart = loss_differences(*given, composition=forecast.compositions)
        assert float((apart.amax(1) <= tolerance + 1e-6).double().mean()) >= 0.9
        assert found.decision.probability >= 0.9
        assert float(apart.mean(0)[0]) < 0
        both = torch.stack([found.decision.weights, UNIFORM])
        truth = [true_target_losses(both, name, seed) for name in MADE]
        kept.append(all(float(loss[0] - loss[1]) <= tolerance for loss in truth))
    assert sum(kept) >= 2


def test_a_guard_is_a_target_that_only_may_not_get_worse() -> None:
    """Its own best mixture does not matter, and what is not guarded is not protected."""
    forecast = planted_forecast({"one": 1.0, "other": 0.0}, runs=6)
    assert forecast.together is None
    asked = question(objective="none_worse", tolerance=0.03, guards=("other",))
    best = best_of(forecast, asked)
    assert best.goal.guarded is not None
    assert best.goal.guarded.tolist() == [False, True]
    base = loss_differences(best.law, best.decision.weights, UNIFORM, best.goal.composition)
    assert float((base[:, 1] <= 0.03).double().mean()) == pytest.approx(best.decision.probability)
    assert best.decision.probability >= 0.9
    free = best_of(forecast, question()).decision
    assert (
        free.objective
        < best.decision.objective
        < float(forecast.losses(UNIFORM[None])[:, 0, 0].mean())
    )
    kept, lost = (
        [float(true_target_losses(w[None], "other")) for w in (one.weights, UNIFORM)]
        for one in (best.decision, free)
    )
    assert kept[0] <= kept[1] + 0.04, "the law is not known exactly"
    assert lost[0] > lost[1] + 0.1
    of_both = best_of(planted_forecast({"one": 1.0, "other": 1.0}, runs=6), asked).goal
    assert of_both.guarded is not None


def test_a_longer_run_moves_the_answer_towards_what_targets_are_made_of() -> None:
    """The law is forgotten, from four times on wholly."""
    forecast = planted_forecast(runs=4)
    law = dataclasses.replace(
        forecast.draws,
        slope=forecast.draws.slope * torch.tensor([0.3, 2.0, 1.0, 1.0, 1.0]),
        openness=torch.full_like(forecast.draws.openness, 1e-3),
    )
    forecast = dataclasses.replace(forecast, draws=law)
    off = [
        best_of(forecast, question(run=as_long_as(length))).decision.weights - MADE["one"]
        for length in (1.0, 2.0, 4.0)
    ]
    apart = [float(one.abs().sum()) / 2 for one in off]
    assert apart[0] > apart[1] > apart[2]
    assert apart[2] < 0.01 < apart[0] - 0.05
