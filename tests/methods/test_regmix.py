"""RegMix's rule: random mixtures, trees, and a simulated optimum."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted

pytest.importorskip("lightgbm")

from bydore_pyro.errors import DataError
from bydore_pyro.methods.regmix import (
    RegMixConfig,
    Trees,
    fit_regmix_to_table,
    fit_trees,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.tables.left_out import spearman_x100
from bydore_pyro.tables.tables import RunsTable

CONFIG = RegMixConfig(regmix_draws=2000)
EVEN = np.full(4, 0.25)


def test_draws_keep_the_simplex_the_limit_and_the_seed() -> None:
    prior = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
    drawn = sample_mixtures(prior, 400, 0)
    np.testing.assert_allclose(drawn.sum(1), 1)
    assert (drawn <= 15 * prior + 1e-12).all()
    assert ((drawn == 0) | (drawn >= 2e-4)).all()
    np.testing.assert_array_equal(drawn, sample_mixtures(prior, 400, 0))
    with pytest.raises(DataError, match="no weight above 15 times its prior"):
        sample_mixtures(np.full(400, 1 / 400), 5, 0)


def test_trees_find_a_planted_order_and_are_deterministic(
    capfd: pytest.CaptureFixture[str],
) -> None:
    (weights, losses), (test, expected) = planted(300), planted(100, seed=1)
    trees = fit_trees(weights, losses[:, None])
    assert isinstance(trees, Trees)
    assert trees.boosters[0].num_trees() == 1000
    assert (spearman_x100(trees.predict(test)[:, 0], expected) or 0) > 95
    again = fit_trees(weights, losses[:, None])
    np.testing.assert_array_equal(trees.predict(test), again.predict(test))
    assert capfd.readouterr() == ("", ""), "it must be silent"


def test_trees_divide_24_runs_too() -> None:
    (weights, losses), (test, expected) = planted(24), planted(200, seed=1)
    trees = fit_trees(weights, losses[:, None])
    assert (spearman_x100(trees.predict(test)[:, 0], expected) or 0) > 50


def test_the_optimum_of_a_line_is_where_it_is_least() -> None:
    prior = np.array([0.25, 0.25, 0.5, 0])
    found = simulated_optimum(lambda w: w @ np.array([0.0, 1, 2, -9]), prior, 2000)
    assert found[0] > 0.8, "wherever the line points, except where the prior is 0"
    assert found[3] == 0
    assert found.sum() == pytest.approx(1)


def table_of(runs: int) -> RunsTable:
    weights, losses = planted(runs, noise=0.02)
    names = tuple(f"r{n}" for n in range(runs))
    return RunsTable(
        runs=names, domains=(*"abcd",), weights=weights, targets=("t",), losses=losses[:, None]
    )


def test_a_table_leads_to_its_optimum_and_errors_of_left_out_runs_to_intervals() -> None:
    fit = fit_regmix_to_table(table_of(120), {"t": 1.0}, CONFIG, prior=EVEN)
    assert fit.mixture.weights[0] == max(fit.mixture.weights)
    assert fit.mixture.hdi is None
    mean = fit.record.mean
    assert (mean.left_out.spearman_x100 or 0) > 80
    half = mean.expected["answer"].high - mean.expected["answer"].loss
    assert half == pytest.approx(1.88 * (mean.left_out.rmse or 0), rel=0.01)
    assert mean.differences["prior"].better > 0.8
    capped = fit_regmix_to_table(
        table_of(120), {"t": 1.0}, CONFIG, prior=EVEN, caps=np.array([0.2, 1, 1, 1])
    ).mixture
    assert capped.weights[0] <= 0.2
    assert capped.free_weights == fit.mixture.weights
    with pytest.raises(DataError, match=r"as many runs as domains \(4\), found 3"):
        fit_regmix_to_table(table_of(3), {"t": 1.0}, CONFIG, prior=EVEN)
