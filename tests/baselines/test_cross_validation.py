"""Left-out runs choose the regression and the width of its intervals."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines.cross_validation import (
    FEWEST_RUNS,
    CrossValidated,
    best_of,
    calibrated,
    cross_validate,
)
from bydore_pyro.baselines.log_linear import LogLinear, fit_log_linear
from bydore_pyro.baselines.regression import PointRegression, deviation_of_run, fit_regression
from bydore_pyro.utils.errors import DataError


def log_linear_runs(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Runs of olmix's law, with a heavy-tailed noise that no regression expects."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(4, 0.5), count)
    losses = 1 + np.exp(weights @ [-2.0, 2.0, 0.0, 0.5])
    return weights, losses + 0.05 * rng.standard_t(3, count)


def test_the_best_on_left_out_runs_comes_first() -> None:
    weights, losses = log_linear_runs(60)
    found = best_of(weights, losses, kinds=("linear", "lightgbm", "log_linear"))
    assert found[0].kind == "log_linear"
    ranks = [one.spearman_x100 for one in found]
    assert ranks == sorted(ranks, reverse=True)
    by_kind = {one.kind: one for one in found}
    model = fit_regression("linear", weights, losses)
    misses = np.sqrt(np.mean((model.predict(weights) - losses) ** 2))
    assert by_kind["linear"].rmse > misses, "runs were left out"
    assert set(by_kind["linear"].row()) == {"spearman_x100", "rmse", "coverage", "width", "seconds"}
    few = best_of(weights[:30], losses[:30], kinds=("linear", "lightgbm"))
    assert [one.kind for one in few] == ["linear"], "LightGBM needs 40 runs"
    with pytest.raises(DataError, match="LightGBM"):
        best_of(weights[:30], losses[:30], kinds=("lightgbm",))


def test_calibrated_intervals_hold_new_runs() -> None:
    test, measured = log_linear_runs(2000, seed=9)
    for kind, seeds in (("log_linear", range(4)), ("linear", range(4))):
        held, claimed = [], []
        for seed in seeds:
            weights, losses = log_linear_runs(60, seed)
            by = cross_validate(kind, weights, losses)  # type: ignore[arg-type]
            model = calibrated(fit_regression(kind, weights, losses), by)  # type: ignore[arg-type]
            deviation = deviation_of_run(model, test)
            assert deviation is not None
            held.append((np.abs(model.predict(test) - measured) < 1.881 * deviation).mean())
            claimed.append(by.coverage)
        assert 0.89 < np.mean(held) < 0.985, kind
        assert np.mean(claimed) == pytest.approx(np.mean(held), abs=0.05)
    assert isinstance(model, PointRegression)
    assert model.deviation == by.width
    law = calibrated(fit_log_linear(weights, losses), by)
    assert isinstance(law, LogLinear)
    plain = fit_log_linear(weights, losses).standard_deviation(test[:3])
    np.testing.assert_allclose(law.standard_deviation(test[:3]), by.width * plain)


def test_copies_of_a_run_are_left_out_together() -> None:
    """Losses are noise: who has seen a copy would know the other one."""
    weights, _ = planted(60)
    losses = np.random.default_rng(0).standard_normal(60)
    twice, both = np.tile(weights, (2, 1)), np.tile(losses, 2)
    found = cross_validate("gaussian_process", twice, both)
    assert isinstance(found, CrossValidated)
    assert found.spearman_x100 < 40


def test_too_few_runs_are_not_left_out() -> None:
    weights, losses = planted(FEWEST_RUNS - 1)
    with pytest.raises(DataError, match="at least 20 runs to cross-validate, found 19"):
        cross_validate("linear", weights, losses)
    with pytest.raises(DataError, match="at least 20 runs to cross-validate, found 19"):
        best_of(weights, losses)
