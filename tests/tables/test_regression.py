"""Regressions of losses on weights: planted answers, runs left out, and bad input."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from planted_tables import planted

pytest.importorskip("botorch")

from bydore_pyro.tables.regression import (
    LogLinear,
    PointRegression,
    best_of,
    cross_validate,
    fit_log_linear,
    fit_regression,
    interval_of_run,
    spearman_x100,
)
from bydore_pyro.utils import errors
from bydore_pyro.utils.errors import DataError

SLOPES = np.array([-1.0, 0.5, 1.0, -0.2])


def test_linear_finds_a_planted_line() -> None:
    weights, _ = planted(30)
    slope = np.array([1.0, -2.0, 0.5, 3.0])
    model = fit_regression("linear", weights, weights @ slope + 4)
    other, _ = planted(7, seed=1)
    np.testing.assert_allclose(model.predict(other), other @ slope + 4, rtol=1e-12)


def test_lightgbm_finds_a_planted_order_and_is_deterministic(
    capfd: pytest.CaptureFixture[str],
) -> None:
    (weights, losses), (test, expected) = planted(300), planted(100, seed=1)
    model = fit_regression("lightgbm", weights, losses)
    assert isinstance(model, PointRegression)
    assert model.estimator.num_trees() == 1000
    assert (spearman_x100(model.predict(test), expected) or 0) > 95
    again = fit_regression("lightgbm", weights, losses)
    np.testing.assert_array_equal(model.predict(test), again.predict(test))
    assert capfd.readouterr() == ("", ""), "it must be silent"


def test_a_planted_log_linear_law_is_found() -> None:
    weights, test = planted(60)[0], planted(500, seed=1)[0]

    def law(mixtures: np.ndarray) -> np.ndarray:
        return 1.5 + np.exp(mixtures @ SLOPES)

    noise = 0.02 * np.random.default_rng(0).standard_normal(60)
    model = fit_log_linear(weights, law(weights) + noise)
    assert isinstance(model, LogLinear)
    np.testing.assert_allclose(model.predict(test), law(test), atol=0.06)
    exact = fit_log_linear(weights, law(weights))
    np.testing.assert_allclose(exact.predict(test), law(test), atol=2e-3)
    with pytest.raises(DataError, match="Expected losses > 0"):
        fit_log_linear(weights, law(weights) - 9)


def test_fewer_runs_than_domains_do_not_explode() -> None:
    """Shrinkage: 12 noisy runs of 30 domains, most of which do nothing."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(30, 0.1), 212)
    slopes = np.append([-1.0, 1.0], np.zeros(28))
    losses = 1 + np.exp(weights @ slopes) + 0.05 * rng.standard_normal(212)
    predicted = fit_log_linear(weights[:12], losses[:12]).predict(weights[12:])
    assert np.abs(predicted - losses[12:]).max() < 2 * np.ptp(losses)


@pytest.mark.parametrize("kind", ["linear", "lightgbm", "gaussian_process"])
def test_bad_runs_are_refused(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, losses = planted(50)
    few = 39 if kind == "lightgbm" else 1
    with pytest.raises(DataError, match=f"at least {few + 1} runs for .*, found {few}"):
        fit_regression(kind, weights[:few], losses[:few])
    for rounding in (0, 1e-15):
        with pytest.raises(DataError, match="runs that differ in loss, found 3 in all"):
            fit_regression(kind, weights, 3 + rounding * np.arange(50))

    def fail(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(errors.importlib, "import_module", fail)
    with pytest.raises(ValueError, match=r"pip install 'bydore-pyro\[baselines\]'"):
        fit_regression(kind, *planted(50))


def test_ranks_and_intervals_by_hand() -> None:
    assert spearman_x100(np.array([1.0, 2, 3]), np.array([5.0, 9, 7])) == pytest.approx(50)
    assert spearman_x100(np.ones(3), np.arange(3.0)) is None
    weights, losses = planted(30)
    model = fit_regression("linear", weights, losses)
    assert np.isnan(interval_of_run(model, weights)).all()
    assert model.gap(weights[0], weights[1])[1] is None
    known = dataclasses.replace(model, width=0.1)
    low, high = interval_of_run(known, weights).T
    np.testing.assert_allclose(high - low, 2 * 1.8808 * 0.1, rtol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "log_linear", "gaussian_process"])
def test_intervals_hold_as_many_new_runs_as_they_say(kind: Any) -> None:
    model, compared = best_of(kind, *planted(80, noise=0.1))
    assert list(compared) == [kind]
    assert compared[kind].coverage == pytest.approx(0.94, abs=0.05)
    assert model.width == compared[kind].width
    test, measured = planted(500, noise=0.1, seed=1)
    low, high = interval_of_run(model, test).T
    assert ((low <= measured) & (measured <= high)).mean() == pytest.approx(0.94, abs=0.06)


def test_auto_is_the_best_on_left_out_runs_and_the_process_for_few() -> None:
    steps = list[int]()
    _, found = best_of("auto", *planted(52, noise=0.05), progress=lambda: steps.append(1))
    ranks = [one.spearman_x100 for one in found.values()]
    assert ranks == sorted(ranks, key=lambda rank: -(rank or 0))
    assert (next(iter(found)), len(found), len(steps)) == ("gaussian_process", 4, 20)
    _, some = best_of("lightgbm", *planted(45))
    assert some == {}, "40 runs are needed, and 36 are left where a fifth is left out"
    model, few = best_of("auto", *planted(10))
    assert (hasattr(model, "sample"), few) == (True, {})


def test_copies_of_a_run_share_a_fold() -> None:
    """Each mixture twice with one loss: trees that saw the copy would have no error."""
    weights, losses = planted(48, noise=0.02)
    twice = cross_validate("lightgbm", np.repeat(weights, 2, 0), np.repeat(losses, 2))
    assert (twice.rmse or 0) > 0.05
    with pytest.raises(DataError, match="at least 20 runs to cross-validate, found 12"):
        cross_validate("linear", weights[:12], losses[:12])
