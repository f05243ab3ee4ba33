"""What a method found: the weights, and as much more as there is to tell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from scored_text import with_task
from tiny import make_problem, steps_spent

from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError
from bydore_pyro.files import plain
from bydore_pyro.methods.autoscale import fit_autoscale
from bydore_pyro.methods.d_optimal import DOptimalConfig, fit_d_optimal
from bydore_pyro.methods.fit import Details, Fit
from bydore_pyro.methods.mde import MDEConfig, fit_mde
from bydore_pyro.methods.mixmin import fit_mixmin
from bydore_pyro.methods.regmix import RegMixConfig, fit_regmix
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.trials.problem import Problem

SWEEPS: dict[str, Callable[[Problem], Fit]] = {
    "autoscale": fit_autoscale,
    "d_optimal": partial(fit_d_optimal, config=DOptimalConfig(d_optimal_runs=12)),
    "mde": partial(fit_mde, config=MDEConfig(mde_proxies=20, mde_candidates=2000)),
    "mixmin": fit_mixmin,
    "regmix": partial(fit_regmix, config=RegMixConfig(regmix_proxies=16, regmix_draws=1000)),
}


def test_a_fit_of_weights_alone_tells_nothing_more() -> None:
    found = Fit(mixture=Mixture(names=("a",), weights=(1.0,)))
    assert found.details == Details()
    assert plain(found.details) == {}
    assert found.trajectory is found.draws is None


@pytest.mark.parametrize("method", ["mde", "mixmin", "regmix"])
def test_a_task_from_a_domains_text_is_a_target(
    method: str, corpus: TokenStore, tmp_path: Path
) -> None:
    store = with_task(corpus, "exam", "birds", count=80, context=12, answer=12)
    problem = make_problem(store, tmp_path, names=corpus.names, target={"exam": 1.0})
    weights = SWEEPS[method](problem).mixture.as_dict()
    assert max(weights, key=lambda name: weights[name]) == "birds"


@pytest.mark.parametrize("method", ["mde", "mixmin"])
def test_choices_are_no_mixture_of_probabilities(
    method: str, corpus: TokenStore, tmp_path: Path
) -> None:
    store = with_task(corpus, "exam", "birds", choices=3)
    problem = make_problem(store, tmp_path, names=corpus.names, target={"exam": 1.0})
    with pytest.raises(DataError, match="for this method, found score=choice of 'exam'"):
        SWEEPS[method](problem)


@pytest.mark.parametrize("method", SWEEPS)
def test_the_targets_own_domain_wins_within_the_budget(method: str, problem: Problem) -> None:
    """Of AutoScale's steps, whole ones, half a one more or less in each run."""
    weights = SWEEPS[method](problem).mixture.as_dict()
    assert max(weights, key=lambda name: weights[name]) == "birds"
    assert 0.9 * 800 < steps_spent(problem) <= 800 * (1.05 if method == "autoscale" else 1)
