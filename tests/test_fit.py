"""Every method by its name, on one text, within one budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from method_options import WITHHELD, options_for
from tiny import steps_spent

from bydore_pyro.answer.steps import FIRST, LAW
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError, NonFiniteError
from bydore_pyro.fit import METHODS, bydore_steps, fit, fit_bydore, problem_of
from bydore_pyro.setup.domains import domains_of, load_domains


@pytest.mark.parametrize("method", [*METHODS])
def test_every_method_finds_a_mixture_within_the_budget(
    method: str, text: Path, tmp_path: Path
) -> None:
    options = options_for(text, "--budget", "24", "--human", str(tmp_path / "human.json"))
    (tmp_path / "human.json").write_text('{"a": 0.5, "b": 0.5}')
    domains = load_domains(options)
    problem = problem_of(options, domains, tmp_path / "proxies")
    found = fit(method, problem, options, tmp_path / "search")
    assert found.mixture.names == domains.names
    assert sum(found.mixture.weights) == pytest.approx(1)
    spent = steps_spent(problem)
    if method in ("uniform", "natural", "unimax", "human", "single"):
        assert spent == 0
    else:
        # A search needs no more than its steps, its trials are three trainings of 24.
        least = {"bydore": 3 / 24}.get(method, 0.7)
        assert least * 24 * 6 < spent < 1.05 * 24 * 6
    if method == "doremi":  # it keeps no finished runs
        again = problem_of(options, domains, tmp_path / "proxies")
        assert fit(method, again, options, tmp_path / "search").mixture == found.mixture
    if method in ("doremi", "bydore"):
        assert found.trajectory.shape[1] == 3


KINDS = ("doremi", "regmix", "bydore")  # of one proxy, of a sweep, and ours


@pytest.mark.parametrize("method", KINDS)
def test_a_loss_that_is_no_number_stops_every_method(
    method: str, text: Path, tmp_path: Path
) -> None:
    options = options_for(text, "--budget", "24", "--learning_rate", "1e30")
    problem = problem_of(options, load_domains(options), tmp_path / "proxies")
    with pytest.raises(NonFiniteError, match=r"nan|inf|NaN"):
        fit(method, problem, options, tmp_path / "search")


@pytest.mark.parametrize("method", KINDS)
def test_a_budget_that_does_not_reach(method: str, text: Path, tmp_path: Path) -> None:
    options = options_for(text, "--budget", "0.01")
    problem = problem_of(options, load_domains(options), tmp_path / "proxies")
    with pytest.raises(DataError, match="budget"):
        fit(method, problem, options, tmp_path / "search")


@pytest.mark.parametrize("method", ["natural", "bydore"])
def test_every_method_keeps_bounds_exactly(method: str, text: Path, tmp_path: Path) -> None:
    bounds = ("--at_most", "a=0", "b=0.3", "--at_least", "b=0.25")
    options = options_for(text, "--budget", "24", *bounds)
    problem = problem_of(options, load_domains(options), tmp_path / "proxies")
    weights = fit(method, problem, options, tmp_path / "search").mixture.as_dict()
    assert weights["a"] == 0
    assert 0.25 <= weights["b"] <= 0.3
    assert weights["c"] >= 0.7 - 1e-12


def test_the_problem_is_that_of_the_options(text: Path, tmp_path: Path) -> None:
    options = options_for(text, "--seed", "5")
    domains = domains_of(options, load_domains(options).corpus, 5)
    assert isinstance(domains.corpus, TokenStore)
    problem = problem_of(options, domains, tmp_path)
    assert (problem.seed, problem.steps, problem.evaluated) == (
        5,
        6,
        {"a": len(domains.targets["a"])},
    )
    assert (problem.sequence_length, problem.batch_sequences) == (32, 8)
    assert problem.run_tokens is None, "proxies are given all text"
    more = ("--proxies_repeat", "--target_tokens", "9e4", "--max_epochs", "9")
    repeating = problem_of(options_for(text, *more), domains, tmp_path)
    assert repeating.run_tokens == 9e4
    assert repeating.most == domains.most_weights(9, 9e4)


def test_algorithm_1_is_as_long_as_the_budget_allows(text: Path, tmp_path: Path) -> None:
    options = options_for(text, "--budget", "10", "--evidence", "linear")
    domains = load_domains(options)
    problem = problem_of(options, domains, tmp_path / "proxies")
    # A step trains on 8 sequences, takes a gradient on 8, and reads 2 x 3 forward.
    assert bydore_steps(problem, options) == int(60 / (1 + 1 + 6 / 24))
    found = fit_bydore(problem, options, tmp_path / "search")
    assert found.details.steps == 26
    assert found.mixture.standard_deviation is not None


def test_matching_takes_its_steps_or_fewer(text: Path, tmp_path: Path) -> None:
    """Two rounds of 3 x 8 + 32 sequences and 3 x 64 of one pass, and a check of two passes, are
    (112 + 128 + 4) / 8 = 30.5 steps' worth. Branches read 3 x 8 + 32 sequences four times, 9.33
    steps' worth, and are three times an eighth of the steps."""
    given = ("--steps", "100", "--check_sequences", "2", "--trials", "0", "--branches")
    for budget, branches, expected in (
        ("10", "0", 100),
        ("0.4", "0", 9),
        ("0.32", "0", 2),
        ("10", "24", 100),
        ("0.6", "24", int((60 - 30.5 - 9.34) / (1 + 3 / 8))),
        ("1.5", "24", int(150 - 30.5 - 9.34 - 3 * 8)),
    ):
        options = options_for(text, *given, branches, "--branch_steps", "8", "--budget", budget)
        problem = problem_of(options, load_domains(options), tmp_path / budget)
        assert bydore_steps(problem, options) == expected, budget


def test_trials_weigh_the_lengths(text: Path, tmp_path: Path) -> None:
    options = options_for(text, *WITHHELD, "--budget", "40", "--trials", "3")
    problem = problem_of(options, load_domains(options), tmp_path / "proxies")
    found = fit_bydore(problem, options, tmp_path / "search")
    tried = found.details.trials.tried
    assert [one.length for one in tried] == [LAW, *FIRST[:2]]
    assert found.details.trials.steps == options.search.steps, "as long as a plain training"
    assert found.draws is not None
    assert found.mixture.hdi is None, "hardly anything explains this target"
