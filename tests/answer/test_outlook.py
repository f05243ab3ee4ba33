"""What an answer is expected to lose and what its bounds cost, against the forecast itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from planted_forecasts import MADE, NAMES, UNIFORM, bound, planted_forecast, question

from bydore_pyro.answer.best import best_of
from bydore_pyro.answer.forecast import ALL
from bydore_pyro.answer.outlook import ANSWER, Bound, Outlook, outlook_of
from bydore_pyro.answer.question import TargetRun

BOTH = {"one": 3.0, "other": 1.0}


def test_it_tells_the_losses_of_the_answer_and_of_the_references() -> None:
    forecast, asked = planted_forecast(BOTH), question(references={"uniform": UNIFORM})
    found = outlook_of(forecast, asked, MADE["one"])
    assert isinstance(found, Outlook)
    assert (found.tokens, found.asked) == (forecast.length, forecast.length)
    assert found.importance == {"one": 0.75, "other": 0.25}
    assert found.expected == {
        ANSWER: forecast.expected(MADE["one"]),
        "uniform": forecast.expected(UNIFORM),
    }
    assert found.differences == {"uniform": forecast.difference(MADE["one"], UNIFORM)}
    rows = found.differences["uniform"]
    assert rows["one"].better > 0.9
    assert rows["other"].better < 0.1
    assert [*rows] == ["one", "other", *(f"domain {name}" for name in NAMES), ALL]
    assert [*found.curves] == [*NAMES]
    nothing = (found.freedom, found.bounds, found.frontier)
    assert nothing == ({}, (), {}), "a mixture that nobody decided has no prices"
    assert found.none_worse is None


def test_a_bound_costs_what_the_answer_without_it_would_lose_less() -> None:
    forecast = planted_forecast()

    def of(least: float) -> tuple[Outlook, float]:
        asked = question(at_least=bound(0, e=least), at_most=bound(1, a=0.3))
        best = best_of(forecast, asked)
        found = outlook_of(forecast, asked, best.decision.weights, best)
        return found, best.decision.objective

    found, _ = of(0.205)
    *each, both = found.bounds
    assert {(one.domain, one.side, one.weight) for one in each} == {
        ("e", "at least", 0.205),
        ("a", "at most", 0.3),
    }
    lower = next(one for one in each if one.domain == "e")
    assert isinstance(lower, Bound)
    assert lower.of_more == pytest.approx(of(0.21)[1] - of(0.2)[1], rel=0.03)
    assert lower.costs.loss == pytest.approx(of(0.205)[1] - of(0.0)[1], abs=2e-4)
    free = best_of(forecast, question()).decision.objective
    assert both.costs.loss == pytest.approx(of(0.205)[1] - free, abs=2e-4)
    assert lower.costs.low < lower.costs.loss < lower.costs.high
    assert lower.costs.high - lower.costs.low < 0.1, "no run's own noise is in it"
    assert (both.domain, both.of_more) == ("", None)


def test_more_text_is_worth_the_fall_of_the_objective_that_was_asked_for() -> None:
    """Of two targets the one whose loss lies higher is the worst: text of its domains is worth
    something, though by its composition alone the other would be."""
    run = TargetRun(
        tokens=1.0, repetition_constant=2.0, rates=torch.full((5,), 9.0), before=torch.zeros(5)
    )
    forecast = planted_forecast({"one": 1.0, "other": 1.0}, levels={"one": 0.0, "other": 1.0})
    asked = question(run=run, objective="worst")
    best = best_of(forecast, asked)
    found = outlook_of(forecast, asked, best.decision.weights, best)
    assert found.worth_of_text["e"] > 0.001
    assert found.worth_of_text["e"] > 3 * found.worth_of_text["a"]
    more = replace(run, rates=torch.tensor([9.0] * 4 + [9.0 / 1.1]))
    richer = best_of(forecast, question(run=more, objective="worst")).decision
    fall = best.decision.objective - richer.objective
    assert found.worth_of_text["e"] == pytest.approx(fall, rel=0.1)


def test_each_guard_holds_with_a_probability_of_its_own() -> None:
    forecast = planted_forecast({"one": 1.0, "other": 0.0}, runs=6)
    asked = question(objective="none_worse", tolerance=0.03, guards=("other",))
    best = best_of(forecast, asked)
    found = outlook_of(forecast, asked, best.decision.weights, best)
    assert found.guards == {"other": pytest.approx(best.decision.probability)}
    assert found.none_worse == best.decision.probability
    assert [*found.expected[ANSWER]] == ["one", "other", *(f"domain {name}" for name in NAMES)]
    assert found.together == "one"
    assert [*found.saved["uniform"]] == ["one", "other"]
    assert found.frontier == {}, "of one target alone"
    free = outlook_of(forecast, question(), best.decision.weights, best_of(forecast, question()))
    assert (free.guards, free.none_worse) == ({}, None)
    both = planted_forecast(BOTH)
    best = best_of(both, question())
    assert outlook_of(both, question(), best.decision.weights, best).together == ALL
    assert Outlook().together == ""


def test_weights_are_as_free_as_a_hundredth_of_a_nat_allows() -> None:
    forecast, asked = planted_forecast(), question()
    best = best_of(forecast, asked)
    answer = best.decision.weights
    found = outlook_of(forecast, asked, answer, best)
    least = float(forecast.losses(answer[None])[..., 0].mean())
    for place, (low, high) in enumerate(found.freedom.values()):
        assert low <= float(answer[place]) <= high
        for end in (low, high):
            others = answer.clone()
            others[place] = 0
            moved = (1 - end) * others / others.sum()
            moved[place] = end
            rise = float(forecast.losses(moved[None])[..., 0].mean()) - least
            at_end = end in (0.0, 1.0)
            assert rise <= 0.012 if at_end else rise == pytest.approx(0.01, abs=2e-3)


def test_the_frontier_is_of_two_or_three_targets_with_their_levels() -> None:
    forecast, asked = planted_forecast(BOTH), question()
    best = best_of(forecast, asked)
    line = outlook_of(forecast, asked, best.decision.weights, best).frontier
    assert [*line] == ["one", "other"]
    one, other = (torch.tensor(line[name]) for name in line)
    assert (one.diff() > 0).all()
    assert (other.diff() < 0).all()
    both = forecast.losses(best.decision.weights[None])[:, 0, :2].mean(0)
    shares = torch.tensor([0.75, 0.25])
    on_it = torch.stack([one, other], 1) @ shares
    assert float(both.float() @ shares) <= float(on_it.min()) + 1e-3
    alone = planted_forecast()
    best = best_of(alone, asked)
    assert outlook_of(alone, asked, best.decision.weights, best).frontier == {}
