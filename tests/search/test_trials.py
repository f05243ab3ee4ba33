"""Trial runs: which mixtures are tried, on what text, and that nothing is trained twice."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from method_options import WITHHELD, options_for

from bydore_pyro.answer.answer import candidate
from bydore_pyro.answer.best import best_of
from bydore_pyro.answer.fitting import Target, forecast_of
from bydore_pyro.answer.steps import FIRST, LAW
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.measure.readings import read_readings
from bydore_pyro.proxy.proxy import Cost
from bydore_pyro.search.matching import search, search_in
from bydore_pyro.search.trials import TrialPlan, plain_problem, trial_plan
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.question import question_of
from bydore_pyro.setup.run import Found


def test_the_trials_are_those_of_the_options(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--target_tokens", "1e5", "--trials")
    options = options_for(store, *given, "3")
    domains = load_domains(options)
    plan = trial_plan(options, domains, tmp_path)
    assert plan == TrialPlan(plan.problem, 3, options.search.trial_steps)
    problem = plain_problem(options, domains, tmp_path)
    assert (problem.budget, problem.runs, problem.run_tokens) == (math.inf, tmp_path, 1e5)
    assert plain_problem(options_for(store), domains, tmp_path).run_tokens is None
    for none in (("--trials", "0"), ("--evidence", "linear")):
        assert trial_plan(options_for(store, *none), domains, tmp_path) is None
    assert "no trial runs" not in capsys.readouterr().err
    long = options_for(store, "--target_tokens", "1e12")
    assert trial_plan(long, domains, tmp_path) is None
    assert "no trial runs: Expected at least one sequence" in capsys.readouterr().err


def test_lengths_are_tried_once_from_the_whole_step_on(store: Path, tmp_path: Path) -> None:
    options = options_for(store, *WITHHELD, "--trials", "4")
    domains = load_domains(options)
    searched = search_in(
        options_for(store, *WITHHELD, "--trials", "0"), domains.corpus, tmp_path / "s", "x"
    )
    found, drawn = searched.answer.evidence
    plan, question = trial_plan(options, domains, tmp_path / "t"), question_of(options, domains)
    assert plan is not None
    cost = Cost()
    tried, readings = plan.tried(found, drawn, question, cost)
    assert tried.steps == options.search.trial_steps
    assert [one.of for one in readings] == [f"trial {n}" for n in (1, 2, 3)]
    for one, trial in zip(readings, tried.tried, strict=True):
        tokens = tried.steps * options.batch_tokens
        assert one.tokens == pytest.approx({n: w * tokens for n, w in trial.weights.items()})
        assert tuple(one.losses) == domains.names, "every domain is read, though none is the target"
    assert tuple(one.length for one in tried.tried) == FIRST, "no law, so no mixture of it"
    for one in tried.tried:
        expected = candidate(found, drawn, one.length)
        assert [*one.weights.values()] == pytest.approx(expected.tolist(), abs=1e-8)
    of_one = tried.steps * options.batch_tokens
    different = len({tuple(one.weights.values()) for one in tried.tried})
    assert different <= cost.report()["parts"]["trial_train"]["tokens"] / of_one <= 3
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")}
    again = Cost()
    assert plan.tried(found, drawn, question, again) == (tried, readings)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")} == files
    assert again.report()["tokens"] == cost.report()["tokens"], "finished ones are charged, too"


def searched(store: Path, out: Path, *more: str) -> Found:
    options = options_for(store, "--trials", "2", *more)
    return search(options, load_domains(options), RunFolder(out), "test")


def test_what_trials_lose_joins_the_table_and_the_law(store: Path, tmp_path: Path) -> None:
    """The law's own mixture is tried before the steps, all within its bounds."""
    found = searched(store, tmp_path / "run", *WITHHELD, "--at_least", "c=0.3")
    tried, forecast = found.answer.tried, found.answer.forecast
    assert tried is not None
    assert forecast is not None
    assert [one.length for one in tried.tried] == [LAW, 1.0]
    assert all(one.weights["c"] >= 0.3 for one in tried.tried), "rounded within it"
    table = read_readings(tmp_path / "run")
    assert [one.of for one in table] == [
        *("the search after 3 steps", "the search after 6 steps", "trial 1", "trial 2")
    ]
    rows = torch.tensor([[one.losses[name] for name in "bc"] for one in table]).double()
    torch.testing.assert_close(forecast.known.losses, rows)
    alone = forecast_of(
        forecast.names,
        dataclasses.replace(
            forecast.known, tokens=forecast.known.tokens[:2], losses=forecast.known.losses[:2]
        ),
        {
            "a": Target(
                importance=1.0,
                compositions=found.answer.evidence[1].weights,
                unexplained=found.answer.evidence[0].unexplained,
            )
        },
    )
    bounded = options_for(store, *WITHHELD, "--at_least", "c=0.3")
    asked = question_of(bounded, load_domains(bounded))
    law = best_of(alone, asked).decision.weights
    assert [*tried.tried[0].weights.values()] == pytest.approx(law.tolist(), abs=1e-6)


def test_no_trial_is_run_where_the_law_decides(store: Path, tmp_path: Path) -> None:
    for number, more in enumerate(((), (*WITHHELD, "--objective", "worst"))):
        found = searched(store, tmp_path / str(number), *more)
        assert found.answer.tried is None
        assert found.answer.outlook is not None
        assert (found.answer.sites["length"] == LAW).all()
        assert not (tmp_path / str(number) / "trials").exists()
        assert len(read_readings(tmp_path / str(number))) == 2
