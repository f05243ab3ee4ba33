"""Trial runs: which mixtures are tried, on what text, and that nothing is trained twice."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from method_options import WITHHELD, options_for

from bydore_pyro.answer.answer import candidate
from bydore_pyro.answer.steps import FIRST, next_length
from bydore_pyro.proxy.proxy import Cost
from bydore_pyro.runs.domains import load_domains
from bydore_pyro.runs.run import question_of
from bydore_pyro.runs.searching import search_in
from bydore_pyro.runs.trials import TrialPlan, plain_problem, trial_plan


def test_the_trials_are_those_of_the_options(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--target_tokens", "1e5", "--max_epochs", "9", "--trials")
    options = options_for(store, *given, "3")
    domains = load_domains(options)
    plan = trial_plan(options, domains, tmp_path)
    assert plan == TrialPlan(plan.problem, 3, options.search.trial_steps)
    problem = plain_problem(options, domains, tmp_path)
    assert (problem.budget, problem.runs, problem.run_tokens) == (math.inf, tmp_path, 1e5)
    assert problem.most == domains.most_weights(9, 1e5)
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
    assert tried.lengths == (*FIRST, next_length(list(FIRST), list(tried.losses[:3])))
    for length, mixture in zip(tried.lengths, tried.mixtures, strict=True):
        expected = candidate(found, drawn, length)
        assert mixture.weights == pytest.approx(expected.tolist(), abs=1e-8)
    of_one = tried.steps * options.batch_tokens
    different = len({mixture.weights for mixture in tried.mixtures})
    assert different <= cost.report()["parts"]["trial_train"]["tokens"] / of_one <= 4
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")}
    again = Cost()
    assert plan.tried(found, drawn, question, again) == (tried, readings)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")} == files
    assert again.report()["tokens"] == cost.report()["tokens"], "finished ones are charged, too"
