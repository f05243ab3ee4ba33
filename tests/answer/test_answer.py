"""An answer: caps, repeated text, steps of chance length; pure of files, models and clocks."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pytest
import torch
from gaussian_evidence import matching_of
from planted_forecasts import MADE, bound, planted_forecast, question
from trial_runs import trials_of

from bydore_pyro.answer.answer import (
    COVERED,
    Answer,
    answer_of,
    by_law,
    candidate,
    covered_up_to,
)
from bydore_pyro.answer.best import best_of
from bydore_pyro.answer.outlook import outlook_of
from bydore_pyro.answer.question import Question, TargetRun
from bydore_pyro.answer.steps import LAW, tried_steps
from bydore_pyro.core.importance import GuideFit
from bydore_pyro.core.matching import Matching
from bydore_pyro.core.metropolis import GROUPS
from bydore_pyro.core.point import central_weights, run_mixture
from bydore_pyro.core.posterior import Convergence, Posterior
from bydore_pyro.errors import DataError
from bydore_pyro.law.goal import Goal

NAMES = ("a", "b", "c")
QUESTION = Question(names=NAMES, tokenizer="t", data_sha256="d")
FOUND: Matching = matching_of(torch.tensor([0.6, 0.4, 0.0]))

CONVERGED = Convergence(settled=True, rhat=1.01)


def drawn(count: int = 2000) -> Posterior:
    weights = np.random.default_rng(0).dirichlet([6, 4, 1], count)
    return Posterior(torch.from_numpy(weights), torch.ones(count).double(), CONVERGED)


def run_of(rate: float, **given: float) -> TargetRun:
    usual: Any = {"tokens": 1e6, "repetition_constant": 4.0, **given}
    return TargetRun(**usual, rates=torch.full((3,), rate).double(), before=torch.zeros(3).double())


def asked(**changes: Any) -> Question:
    return dataclasses.replace(QUESTION, **changes)


def test_the_draws_are_the_posteriors_where_nothing_changes_them() -> None:
    """Whole steps, or a run that reads no text twice."""
    posterior = drawn()
    answer = answer_of(FOUND, posterior, QUESTION)
    assert isinstance(answer, Answer)
    assert answer.sites["w"].shape == (GROUPS, 500, 3)
    assert torch.equal(answer.draws, posterior.weights)
    assert answer.evidence == (FOUND, posterior)
    assert answer.mixture.notes == ()
    expected = central_weights(posterior.weights).numpy()
    np.testing.assert_allclose(answer.mixture.weights, expected)
    short = answer_of(FOUND, posterior, asked(run=run_of(0.9)))
    assert set(short.sites) == {"w", "s"}
    assert short.mixture == answer.mixture


def test_text_that_is_read_again_and_caps() -> None:
    plain, long, slower, capped = (
        answer_of(FOUND, drawn(), question)
        for question in (
            QUESTION,
            asked(run=run_of(4)),
            asked(run=run_of(4, repetition_constant=15.0)),
            asked(run=run_of(4), goal=Goal(at_most=torch.full((3,), 0.45).double())),
        )
    )
    assert "a repetition constant of 4." in long.mixture.notes[0]
    assert "constant of 15" in slower.mixture.notes[0]
    assert long.mixture.weights == capped.mixture.free_weights != plain.mixture.weights
    assert max(capped.mixture.weights) <= 0.45 + 1e-12
    np.testing.assert_allclose(long.mixture.weights, central_weights(long.draws), atol=1e-12)
    assert slower.mixture.weights != long.mixture.weights


def test_each_draw_takes_its_length_by_chance() -> None:
    posterior, tried = drawn(), trials_of(5.0, 5.03, 5.5)
    answer = answer_of(FOUND, posterior, QUESTION, tried)
    sites = answer.sites
    draws = posterior.weights.unflatten(0, (GROUPS, -1))[:, :50]  # 200 in all, in the tests
    assert torch.equal(sites["composition"], draws)
    first = sites["length"] == 1
    assert 0.5 < float(first.double().mean()) < 0.8
    torch.testing.assert_close(sites["w"][first], draws[first])
    expected = run_mixture(FOUND, draws[~first], torch.ones(int((~first).sum())).double(), 0.5)
    torch.testing.assert_close(sites["w"][~first], expected)
    assert answer.tried is tried
    assert answer.mixture.notes == (tried.note(),)
    pushed = candidate(FOUND, posterior, 0.5)
    centre = central_weights(posterior.weights)[None]
    torch.testing.assert_close(pushed, run_mixture(FOUND, centre, torch.ones(1).double(), 0.5)[0])


@pytest.mark.parametrize("fit", [None, GuideFit(0.4, 300.0, 1000, 1.2)])
def test_arviz_gets_names_and_whether_the_draws_are_to_be_believed(fit: GuideFit | None) -> None:
    posterior = dataclasses.replace(drawn(), fit=fit)
    answer = answer_of(FOUND, posterior, QUESTION, trials_of(5.0, 5.01))
    found = answer.to_inference_data()
    data = found["posterior"]
    assert set(data.data_vars) == {"w", "s", "composition", "length"}
    assert data["w"].dims == data["composition"].dims == ("chain", "draw", "domain")
    assert data["length"].dims == ("chain", "draw")
    assert tuple(data["domain"].values) == NAMES
    np.testing.assert_array_equal(data["w"], answer.sites["w"])
    assert (data.attrs["settled"], data.attrs["nested_rhat"]) == (1, 1.01)
    of_guide = {name: data.attrs.get(name) for name in ("khat", "effective_draws", "width")}
    assert list(of_guide.values()) == ([None] * 3 if fit is None else [0.4, 300.0, 1.2])
    assert list(arviz.summary(found, var_names=["w"], kind="stats").index) == [
        f"w[{name}]" for name in NAMES
    ]


def test_arviz_gets_the_prior_and_the_evidence(tmp_path: Path) -> None:
    answer = answer_of(FOUND, drawn(), QUESTION)
    answer.to_inference_data().to_netcdf(str(tmp_path / "posterior.nc"))
    data = arviz.from_netcdf(str(tmp_path / "posterior.nc"))
    np.testing.assert_array_equal(data["posterior"]["w"], answer.sites["w"])
    size = len(NAMES)
    # A symmetric Dirichlet of concentration alpha has the variance (1/K)(1 - 1/K) / (K alpha + 1).
    variances = [(1 / size) * (1 - 1 / size) / (size * a + 1) for a in FOUND.concentrations]
    prior = data["prior"]["w"].stack(all=("chain", "draw"))
    np.testing.assert_allclose(prior.mean("all"), 1 / size, atol=0.06)
    np.testing.assert_allclose(prior.var("all"), np.mean(variances), rtol=0.15)
    assert float(np.log(data["prior"]["s"]).std()) == pytest.approx(1, abs=0.1)
    evidence = data["constant_data"]
    assert evidence["precision"].dims == ("domain", "other_domain")
    np.testing.assert_array_equal(evidence["linear"], FOUND.linear)
    np.testing.assert_array_equal(evidence["precision"], FOUND.precision)


def covered(unexplained: float) -> Matching:
    """Evidence of the five domains of `planted_forecasts`, of which so much is left."""
    found = matching_of(MADE["one"])
    return dataclasses.replace(found, target=found.target / (1 - unexplained))


def drawn_of_five() -> Posterior:
    weights = np.random.default_rng(0).dirichlet(300 * MADE["one"].numpy() + 0.05, 2000)
    return Posterior(torch.from_numpy(weights), torch.ones(2000).double(), CONVERGED)


def test_a_covered_target_gets_the_mixture_that_is_forecast_to_be_best() -> None:
    forecast, asked = (
        planted_forecast(),
        question(at_least=bound(0, e=0.1), at_most=bound(1, a=0.5)),
    )
    answer = answer_of(covered(0.1), drawn_of_five(), asked, None, forecast)
    best = best_of(forecast, asked)
    np.testing.assert_allclose(answer.mixture.weights, best.decision.weights, atol=1e-12)
    assert answer.mixture.free_weights is None, "its bounds are in the programme"
    rows = {tuple(row) for row in best.draws.tolist()}
    assert {tuple(row) for row in answer.draws.tolist()} <= rows
    assert (answer.sites["length"] == LAW).all()
    assert answer.forecast is forecast
    weights = torch.tensor(answer.mixture.weights).double()
    expected = outlook_of(forecast, asked, weights, best)
    assert answer.outlook == dataclasses.replace(expected, decided="law")
    for weight, (low, high) in zip(answer.mixture.weights, answer.mixture.hdi or (), strict=True):
        assert low <= weight <= high


def test_the_law_decides_for_tasks_whose_responses_were_measured() -> None:
    by_responses = dataclasses.replace(covered(0.9), left_out=0.9)
    tasks, text = (
        planted_forecast(unexplained=0.9, unit="bits per byte"),
        planted_forecast(unexplained=0.9),
    )
    assert tasks.of_tasks
    assert by_law(by_responses, question(), tasks)
    assert not by_law(covered(0.9), question(), tasks), "gradients alone"
    assert not by_law(by_responses, question(), text)
    both = planted_forecast({"one": 1.0, "other": 1.0}, unexplained=0.9)
    mixed = dataclasses.replace(both, units={"one": "bits per byte", "other": both.units["other"]})
    assert not by_law(by_responses, question(), mixed), "a text is among the targets"
    answer = answer_of(by_responses, drawn_of_five(), question(), None, tasks)
    assert answer.mixture.hdi is None, "it is still called a guess"
    assert answer.mixture.notes[0].startswith("The domains explain hardly anything")


def test_pools_are_forecast_as_one_domain_and_told_by_their_own() -> None:
    forecast = planted_forecast()
    asked = question(pools={"a": {"a/x": 0.25, "a/y": 0.75}}, at_least=bound(0, a=0.4))
    answer = answer_of(covered(0.1), drawn_of_five(), asked, None, forecast)
    weights, best = answer.mixture.as_dict(), best_of(forecast, asked).decision.weights
    assert [*weights] == ["a/x", "a/y", "b", "c", "d", "e"]
    assert weights["a/x"] == pytest.approx(0.25 * float(best[0]))
    assert weights["a/x"] + weights["a/y"] == pytest.approx(float(best[0]))
    assert float(best[0]) >= 0.4 - 1e-6
    assert answer.names == forecast.names


def test_an_uncovered_target_gets_the_whole_step_and_what_it_will_lose() -> None:
    forecast, found = planted_forecast(unexplained=0.7), covered(0.7)
    assert not by_law(found, question(), forecast)
    answer = answer_of(found, drawn_of_five(), question(), None, forecast)
    expected = central_weights(drawn_of_five().weights)
    np.testing.assert_allclose(answer.mixture.weights, expected, atol=0.01)
    assert answer.outlook is not None
    weights = torch.tensor(answer.mixture.weights).double()
    assert answer.outlook.expected["answer"] == forecast.expected(weights)
    assert answer.outlook.decided == "match"
    for weight, (low, high) in zip(
        answer.mixture.weights, answer.outlook.freedom.values(), strict=True
    ):
        assert low <= weight <= high


@pytest.mark.parametrize("decided", ["law", "match", "trials"])
def test_every_answer_says_all_of_its_losses_and_bounds_are_never_a_gain(decided: str) -> None:
    """Whatever chose the weights. Without a bound an answer is as good at least."""
    both = {"one": 1.0, "other": 1.0}
    forecast = planted_forecast(both, unexplained=0.3 if decided == "law" else 0.7)
    found = covered(0.1 if decided == "law" else 0.6)
    tried = None
    if decided == "trials":
        ways = [{"a": first, "b": 1 - first} for first in (0.5, 0.4)]
        tried = tried_steps(10, (LAW, 0.5), ways, (5.0, 5.01))
    asked = question(at_least=bound(0, d=0.3, c=0.02), at_most=bound(1, a=0.0, b=0.9))
    outlook = answer_of(found, drawn_of_five(), asked, tried, forecast).outlook
    assert outlook is not None
    assert outlook.decided == decided
    assert [*outlook.freedom] == ["a", "b", "c", "d", "e"]
    assert [*outlook.frontier] == ["one", "other"]
    assert [*outlook.differences] == ["uniform"]
    assert {one.domain for one in outlook.bounds} >= {"d", ""}
    assert all(one.costs.loss >= 0 for one in outlook.bounds)
    for one in outlook.bounds:
        if one.side == "at most":
            assert one.of_more is not None
            assert one.of_more <= one.costs.loss
    *each, together = outlook.bounds
    assert together.costs.loss >= max(one.costs.loss for one in each) - 1e-6


BOUNDS: dict[str, Any] = {
    "at_least": bound(0, c=0.123456789, d=1e-7),
    "at_most": bound(1, a=0.0, b=1e-7, c=0.3, d=1.0, e=1.0),
}


@pytest.mark.parametrize("decided", ["law", "match", "trials", "run"])
def test_bounds_hold_exactly_in_every_answer(decided: str) -> None:
    """Not a token of a domain of which none is allowed, in 150 billion."""
    forecast, found = planted_forecast(unexplained=0.7), covered(0.1 if decided == "law" else 0.6)
    tried, changes = None, dict(BOUNDS)
    if decided == "trials":
        ways = [{"a": first, "b": 1 - first} for first in (0.5, 0.4)]
        tried = tried_steps(10, (LAW, 0.5), ways, (5.0, 5.01))
    if decided == "run":
        rates = torch.full((5,), 4.0).double()
        changes["run"] = TargetRun(
            tokens=1e6, repetition_constant=4.0, rates=rates, before=torch.zeros(5).double()
        )
    given = None if decided == "run" else forecast
    answer = answer_of(found, drawn_of_five(), question(**changes), tried, given)
    weights = answer.mixture.as_dict()
    assert weights["a"] == 0.0
    bounds = zip(weights.values(), *(bound.tolist() for bound in BOUNDS.values()), strict=True)
    assert all(least <= weight <= most for weight, least, most in bounds)
    assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
    again = json.loads(answer.mixture.to_json())["weights"]
    assert again == weights, "the file has the same numbers"
    if decided == "law":
        assert (answer.draws[:, 0] == 0).all()
        assert (answer.mixture.hdi or ())[0] == (0.0, 0.0)


def test_what_decides_by_the_law() -> None:
    unsure = planted_forecast(unexplained=0.7)
    assert by_law(covered(COVERED - 0.01), question(), unsure)
    assert not by_law(covered(COVERED + 0.01), question(), unsure)
    responds = dataclasses.replace(covered(0.9), left_out=COVERED + 0.01)
    assert covered_up_to(responds) > COVERED == covered_up_to(covered(0.9))
    assert by_law(responds, question(), unsure), "its responses are explained"
    assert by_law(covered(0.9), question(objective="worst"), unsure), "trials have no such loss"
    assert by_law(covered(0.9), question(), planted_forecast()), "all is known of the targets"
    assert not by_law(covered(0.0), question(), None)
    answer = answer_of(covered(0.9), drawn_of_five(), question(objective="worst"), None, unsure)
    assert (answer.sites["length"] == LAW).all()
    with pytest.raises(DataError, match=r"read twice or more, .* for the objective worst"):
        answer_of(covered(0.1), drawn_of_five(), question(objective="worst"))


def test_trials_choose_among_the_laws_mixture_and_shorter_steps() -> None:
    forecast, found = planted_forecast(unexplained=0.7), covered(0.7)
    lengths, losses = (LAW, 0.5, 0.25), (5.0, 5.01, 5.5)
    mixtures = [{"a": first, "b": 1 - first} for first in (0.5, 0.4, 0.3)]
    tried = tried_steps(10, lengths, mixtures, losses)
    answer = answer_of(found, drawn_of_five(), question(), tried, forecast)
    shares = [float((answer.sites["length"] == length).double().mean()) for length in lengths]
    assert shares == pytest.approx([one.probability for one in tried.tried], abs=0.1)
    best = best_of(forecast, question())
    of_law = answer.draws[answer.sites["length"].flatten() == LAW]
    assert {tuple(row) for row in of_law.tolist()} <= {tuple(row) for row in best.draws.tolist()}
    step = candidate(found, drawn_of_five(), 0.5)
    expected = shares[0] * best.decision.weights + shares[1] * step
    np.testing.assert_allclose(answer.mixture.weights, expected, atol=0.02)
