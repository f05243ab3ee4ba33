"""RegMix with proxies that are trained here, in random and in adaptive order."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from planted_tables import truth
from tiny import steps_spent

from bydore_pyro.baselines.gaussian_process import fit_gaussian_process
from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.regmix import RegMixConfig, adaptive_runs, fit_regmix, next_mixtures
from bydore_pyro.utils.tensor_tree import read_tree


@pytest.mark.parametrize("regression", ["linear", "gaussian_process"])
def test_the_targets_own_domain_wins(problem: Problem, regression: Any) -> None:
    if regression == "gaussian_process":
        pytest.importorskip("botorch")
    config = RegMixConfig(regmix_proxies=16, regmix_draws=1000, regmix_regression=regression)
    found = fit_regmix(problem, config)
    assert max(found.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    assert (found.mixture.hdi is not None) == (regression == "gaussian_process")
    assert found.details["distance"]["far"] is False
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 800


def test_adaptive_proxies_keep_caps_and_the_budget(problem: Problem) -> None:
    pytest.importorskip("botorch")
    capped = dataclasses.replace(problem, most=dict.fromkeys(problem.names, 0.6))
    config = RegMixConfig(regmix_proxies=4, regmix_draws=200, adaptive=5)
    found = fit_regmix(capped, config)
    told = found.details["adaptive"]
    assert found.details["proxies"] == 4 + told["runs"] > 4, told
    runs = [dict(read_tree(path)[0]["run"]["weights"]) for path in problem.runs.iterdir()]
    assert sum(max(weights.values()) <= 0.6 + 1e-9 for weights in runs) >= told["runs"]
    assert steps_spent(capped) <= 800


def test_few_adaptive_runs_find_what_many_random_ones_do_not() -> None:
    pytest.importorskip("botorch")
    rng = np.random.default_rng(0)
    prior = np.full(4, 0.25)
    design = rng.dirichlet(np.ones(4), 10)

    def measure(weights: np.ndarray) -> np.ndarray:
        return truth(weights)

    weights, losses, ahead = adaptive_runs(measure, design, prior, 8)
    assert len(weights) == len(losses) <= 18
    assert losses.min() < truth(rng.dirichlet(np.ones(4), 60)).min()
    model = fit_gaussian_process(weights, losses)
    again = next_mixtures(model, weights, prior, len(ahead.weights))
    np.testing.assert_allclose(again.weights, ahead.weights)
