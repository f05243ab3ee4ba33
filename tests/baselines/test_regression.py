"""Regressions of losses on weights: planted answers and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from planted_tables import planted

from bydore_pyro.baselines.regression import PointRegression, fit_regression
from bydore_pyro.utils import extras
from bydore_pyro.utils.errors import DataError


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    return float(pandas.DataFrame({0: one, 1: other}).corr(method="spearman").iloc[0, 1])


def test_linear_finds_a_planted_line() -> None:
    weights, _ = planted(30)
    slope = np.array([1.0, -2.0, 0.5, 3.0])
    model = fit_regression("linear", weights, weights @ slope + 4)
    assert isinstance(model, PointRegression)
    assert model.kind == "linear"
    other, _ = planted(7, seed=1)
    np.testing.assert_allclose(model.predict(other), other @ slope + 4, rtol=1e-12)


def test_lightgbm_finds_a_planted_order_and_is_deterministic(
    capfd: pytest.CaptureFixture[str],
) -> None:
    weights, losses = planted(300)
    test, expected = planted(100, seed=1)
    model = fit_regression("lightgbm", weights, losses)
    assert isinstance(model, PointRegression)
    assert model.estimator.num_trees() == 1000
    assert spearman(model.predict(test), expected) > 0.95
    again = fit_regression("lightgbm", weights, losses)
    np.testing.assert_array_equal(model.predict(test), again.predict(test))
    assert capfd.readouterr() == ("", ""), "it must be silent"


@pytest.mark.parametrize("kind", ["linear", "lightgbm", "gaussian_process"])
def test_bad_runs_are_refused(kind: Any) -> None:
    weights, losses = planted(50)
    few = 1 if kind != "lightgbm" else 39
    with pytest.raises(DataError, match=f"at least {few + 1} runs for .*, found {few}"):
        fit_regression(kind, weights[:few], losses[:few])
    with pytest.raises(DataError, match="runs that differ in loss, found 3 in all"):
        fit_regression(kind, weights, np.full(50, 3.0))


@pytest.mark.parametrize("kind", ["linear", "lightgbm", "gaussian_process"])
@pytest.mark.parametrize("error", [ImportError, OSError])
def test_a_missing_package_is_told(
    kind: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise error(f"No module named '{name}'")

    monkeypatch.setattr(extras.importlib, "import_module", fail)
    with pytest.raises(ValueError, match=r"pip install 'bydore-pyro\[baselines\]'"):
        fit_regression(kind, *planted(50))
