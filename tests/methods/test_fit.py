"""What a method found: the weights, and as much more as there is to tell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tiny import steps_spent

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


@pytest.mark.parametrize("method", SWEEPS)
def test_the_targets_own_domain_wins_within_the_budget(method: str, problem: Problem) -> None:
    """Of AutoScale's steps, whole ones, half a one more or less in each run."""
    weights = SWEEPS[method](problem).mixture.as_dict()
    assert max(weights, key=lambda name: weights[name]) == "birds"
    assert 0.9 * 800 < steps_spent(problem) <= 800 * (1.05 if method == "autoscale" else 1)
