"""Every method by its name, on one text, within one budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from method_options import options_for
from tiny import steps_spent

from bydore_pyro.data.store import TokenStore
from bydore_pyro.runs.domains import domains_of, load_domains
from bydore_pyro.runs.methods import (
    METHODS,
    fit,
    problem_of,
)
from bydore_pyro.utils.errors import DataError, NonFiniteError


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
        again = problem_of(options, domains, tmp_path / "proxies")
        assert fit(method, again, options, tmp_path / "search").mixture == found.mixture
    if method in ("doremi", "fastmix", "bydore"):
        assert found.trajectory.shape[1] == 3


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
