"""Regressions of losses on weights: planted answers, runs left out, and bad input."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines.regression import (
    CrossValidated,
    PointRegression,
    best_of,
    calibrated,
    cross_validate,
    deviation_of_run,
    fit_regression,
    interval_of_run,
    spearman_x100,
)
from bydore_pyro.utils import errors
from bydore_pyro.utils.errors import DataError


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


@pytest.mark.parametrize("kind", ["linear", "lightgbm", "gaussian_process"])
def test_bad_runs_are_refused(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, losses = planted(50)
    few = 39 if kind == "lightgbm" else 1
    with pytest.raises(DataError, match=f"at least {few + 1} runs for .*, found {few}"):
        fit_regression(kind, weights[:few], losses[:few])
    with pytest.raises(DataError, match="runs that differ in loss, found 3 in all"):
        fit_regression(kind, weights, np.full(50, 3.0))

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
    assert deviation_of_run(model, weights) is None
    assert np.isnan(interval_of_run(model, weights)).all()
    known = dataclasses.replace(model, deviation=0.1)  # type: ignore[type-var]
    low, high = interval_of_run(known, weights).T
    np.testing.assert_allclose(high - low, 2 * 1.8808 * 0.1, rtol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "log_linear", "gaussian_process"])
def test_intervals_hold_as_many_new_runs_as_they_say(kind: Any) -> None:
    if kind == "gaussian_process":
        pytest.importorskip("botorch")
    weights, losses = planted(80, noise=0.1)
    found = cross_validate(kind, weights, losses)
    assert isinstance(found, CrossValidated)
    assert found.coverage == pytest.approx(0.94, abs=0.05)
    assert set(found.row()) == {"spearman_x100", "rmse", "coverage", "width", "seconds"}
    model = calibrated(fit_regression(kind, weights, losses), found)
    test, measured = planted(500, noise=0.1, seed=1)
    low, high = interval_of_run(model, test).T
    assert ((low <= measured) & (measured <= high)).mean() == pytest.approx(0.94, abs=0.06)


def test_the_best_ranks_first_and_copies_of_a_run_share_a_fold() -> None:
    weights, losses = planted(48, noise=0.02)
    found = best_of(weights, losses, ("linear", "log_linear"))
    assert found[0].spearman_x100 >= found[1].spearman_x100
    with pytest.raises(DataError, match="at least 20 runs to cross-validate, found 12"):
        best_of(weights[:12], losses[:12], ("linear",))
    # Each mixture twice with one loss: trees that saw the copy would have no error.
    twice = cross_validate("lightgbm", np.repeat(weights, 2, 0), np.repeat(losses, 2))
    assert twice.rmse > 0.05
