"""Every method by its name, on one text, within one budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import steps_spent

from bydore_pyro.cli.fit import SMALL
from bydore_pyro.data.store import TokenStore
from bydore_pyro.runs.inputs import domains_of, load_domains
from bydore_pyro.runs.methods import (
    METHODS,
    MethodOptions,
    bydore_steps,
    fit,
    fit_bydore,
    problem_of,
)
from bydore_pyro.runs.options import SMOKE
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.utils.errors import DataError, NonFiniteError


def options_for(text: Path, *more: str) -> MethodOptions:
    given = ["--smoke", "--data", str(text), "--validation", "a", "--cache", str(text.parent / "c")]
    presets = {"--smoke": {**SMOKE, **SMALL}}
    return parse_options([*given, *more], "x", "", MethodOptions, presets=presets)


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
        least = 0.7 if method != "bydore" else 0.02  # it needs no more than its steps
        assert least * 24 * 6 < spent < 1.05 * 24 * 6
        again = problem_of(options, domains, tmp_path / "proxies")
        assert fit(method, again, options, tmp_path / "search").mixture == found.mixture
    if method in ("doremi", "fastmix", "bydore"):
        assert found.trajectory.shape[1] == 3


def test_algorithm_1_is_as_long_as_the_budget_allows(text: Path, tmp_path: Path) -> None:
    options = options_for(text, "--budget", "10", "--evidence", "linear")
    domains = load_domains(options)
    problem = problem_of(options, domains, tmp_path / "proxies")
    # A step trains on 8 sequences, takes a gradient on 8, and reads 2 x 3 forward.
    assert bydore_steps(problem, options) == int(60 / (1 + 1 + 6 / 24))
    found = fit_bydore(problem, options, tmp_path / "search")
    assert found.details["steps"] == 26
    assert found.mixture.standard_deviation is not None


def test_matching_takes_its_steps_or_fewer(text: Path, tmp_path: Path) -> None:
    """Two rounds of 3 x 8 + 32 sequences and a check of two passes, (112 + 4) / 8 = 14.5 steps'
    worth; then 0.42 of a step for each."""
    given = ("--steps", "100", "--check_sequences", "2")
    for budget, expected in (("10", 100), ("0.4", int((40 - 14.5) / 0.42)), ("0.15", 5)):
        options = options_for(text, *given, "--budget", budget)
        problem = problem_of(options, load_domains(options), tmp_path / budget)
        assert bydore_steps(problem, options) == expected, budget


def test_unknown_methods(text: Path, tmp_path: Path) -> None:
    options = options_for(text)
    problem = problem_of(options, load_domains(options), tmp_path)
    with pytest.raises(ValueError, match=r"Expected a method .*, found 'magic'"):
        fit("magic", problem, options, tmp_path)


TRAINED = ("doremi", "regmix", "autoscale", "mde", "mixmin", "fastmix", "bydore")


@pytest.mark.parametrize("method", TRAINED)
def test_a_loss_that_is_no_number_stops_every_method(
    method: str, text: Path, tmp_path: Path
) -> None:
    options = options_for(text, "--budget", "24", "--learning_rate", "1e30")
    problem = problem_of(options, load_domains(options), tmp_path / "proxies")
    with pytest.raises(NonFiniteError, match=r"nan|inf|NaN"):
        fit(method, problem, options, tmp_path / "search")


@pytest.mark.parametrize("method", TRAINED)
def test_a_budget_that_does_not_reach(method: str, text: Path, tmp_path: Path) -> None:
    options = options_for(text, "--budget", "0.01")
    problem = problem_of(options, load_domains(options), tmp_path / "proxies")
    with pytest.raises(DataError, match="budget"):
        fit(method, problem, options, tmp_path / "search")


def test_the_problem_is_that_of_the_options(text: Path, tmp_path: Path) -> None:
    options = options_for(text, "--seed", "5")
    domains = domains_of(options, load_domains(options).corpus, 5)
    assert isinstance(domains.corpus, TokenStore)
    problem = problem_of(options, domains, tmp_path, ("b",))
    assert (problem.seed, problem.steps, problem.evaluated) == (5, 6, ("b", "a"))
    assert (problem.sequence_length, problem.batch_sequences) == (32, 8)
    assert problem.run_tokens is None, "proxies are given all text"
    repeating = options_for(text, "--proxies_repeat", "--target_tokens", "9e4")
    assert problem_of(repeating, domains, tmp_path).run_tokens == 9e4
