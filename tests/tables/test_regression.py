"""Regressions of losses on weights: planted answers, means of targets, and bad input."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from planted_tables import planted

pytest.importorskip("botorch")

from bydore_pyro import errors
from bydore_pyro.errors import DataError
from bydore_pyro.tables import gaussian_process
from bydore_pyro.tables.gaussian_process import GaussianProcess
from bydore_pyro.tables.left_out import spearman_x100
from bydore_pyro.tables.regression import (
    FEWEST_FOR_LAW,
    LIGHTGBM,
    REACH,
    TREES,
    WHOSE,
    Either,
    PointRegression,
    Regression,
    check_runs_differ,
    fit_regression,
    interval_of_run,
    kind_of,
)


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
    (trees,) = model.models
    assert isinstance(trees, PointRegression)
    assert trees.estimator.num_trees() == TREES == 1000
    assert LIGHTGBM["learning_rate"] == 0.01
    assert (spearman_x100(model.predict(test), expected) or 0) > 95
    again = fit_regression("lightgbm", weights, losses)
    np.testing.assert_array_equal(model.predict(test), again.predict(test))
    assert capfd.readouterr() == ("", ""), "it must be silent"


@pytest.mark.parametrize("kind", ["law", "linear", "lightgbm", "gaussian_process"])
def test_bad_runs_are_refused(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, losses = planted(50)
    few = {"lightgbm": 39, "law": FEWEST_FOR_LAW - 1}.get(kind, 1)
    with pytest.raises(DataError, match=f"at least {few + 1} runs for .*, found {few}"):
        fit_regression(kind, weights[:few], losses[:few])
    with pytest.raises(DataError, match="on different mixtures, found one in all 50 runs"):
        fit_regression(kind, np.repeat(weights[:1], 50, 0), losses)
    for rounding in (0, 1e-15):
        with pytest.raises(DataError, match="runs that differ in loss, found one value in all"):
            fit_regression(kind, weights, 3 + rounding * np.arange(50))
    with pytest.raises(DataError, match="Expected small runs on different mixtures"):
        check_runs_differ(weights * 0, losses[:, None], "small runs")

    def fail(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(errors.importlib, "import_module", fail)
    with pytest.raises(ValueError, match=r"pip install 'bydore-pyro\[baselines\]'"):
        fit_regression(kind, *planted(50))


def test_intervals_by_hand() -> None:
    weights, losses = planted(30)
    model = fit_regression("linear", weights, losses)
    assert np.isnan(interval_of_run(model, weights)).all()
    assert model.gap(weights[0], weights[1])[1] is None
    known = dataclasses.replace(model, width=0.1)
    low, high = interval_of_run(known, weights).T
    np.testing.assert_allclose(high - low, 2 * REACH * 0.1, rtol=1e-12)


def several(runs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixtures of four domains, and noisy losses on their own text: power laws."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(4, 0.7), runs)
    amounts = weights + 0.1 * weights.sum(1, keepdims=True)
    return weights, 2 + amounts ** -np.array([0.2, 0.3, 0.4, 0.5]) + 0.01 * rng.standard_normal(
        (runs, 4)
    )


def test_the_mean_is_that_of_one_regression_a_target() -> None:
    weights, losses = several(60)
    shares, other = (0.4, 0.3, 0.2, 0.1), several(9, seed=1)[0]
    for kind in ("law", "log_linear"):
        model = fit_regression(kind, weights, losses, shares)
        assert isinstance(model, Regression)
        each = [model.of_target(place).predict(other) for place in range(4)]
        np.testing.assert_allclose(model.predict(other), shares @ np.stack(each))
        np.testing.assert_allclose(model.mean_of(each), model.predict(other))
        assert model.least == pytest.approx((losses @ shares).min())
    each = [model.of_target(place) for place in range(4)]
    assert [one.deviation(other) for one in each] == [None] * 4


def test_the_law_is_ahead_with_few_runs_of_own_text_and_shares_with_the_process_later() -> None:
    (weights, losses), (test, expected) = several(40), several(200, seed=1)
    own, shares = range(4), [0.25] * 4
    few = fit_regression("law", weights[:8], losses[:8], shares, own)
    process = fit_regression("gaussian_process", weights[:8], losses[:8], shares)
    off = [np.abs(one.predict(test) - expected.mean(1)).mean() for one in (few, process)]
    assert off[0] < 0.8 * off[1]
    assert all(isinstance(one, GaussianProcess) for one in few.models), "the law alone"
    benchmark = fit_regression("law", weights[:8], losses[:8, 0]).models[0]
    assert isinstance(benchmark, Either)
    for runs, shared in ((12, {0.5}), (40, None)):
        found = fit_regression("law", weights[:runs], losses[:runs], shares, own).models
        known = {one.share for one in found if isinstance(one, Either)}
        assert known == (shared or known)
        assert all(0.25 <= share <= 0.75 for share in known)
    held = np.abs(few.predict(test) - expected.mean(1)) < REACH * few.deviation(test)
    assert held.mean() > 0.9


def test_either_has_the_moments_of_a_draw_of_one_of_two() -> None:
    weights, losses = planted(30, noise=0.05)
    model = fit_regression("law", weights, losses)
    (either,) = model.models
    assert isinstance(either, Either)
    test = planted(5, seed=3)[0]
    parts = [either.law, either.process]
    chances = np.array([either.share, 1 - either.share])
    mean = chances @ np.stack([one.predict(test) for one in parts])
    square = chances @ np.stack(
        [one.deviation(test) ** 2 + one.predict(test) ** 2 for one in parts]
    )
    np.testing.assert_allclose(either.predict(test), mean)
    np.testing.assert_allclose(either.deviation(test), np.sqrt(square - mean**2))
    spread = np.sqrt(either.covariance(test).diagonal())
    np.testing.assert_allclose(spread, either.deviation(test, of_run=False))
    drawn = model.sample(test, 4000, 0)
    np.testing.assert_allclose(drawn.std(0), spread, rtol=0.1)
    gap, unsure = model.gap(test[0], test[1])
    assert gap == pytest.approx(mean[1] - mean[0])
    assert unsure == pytest.approx((drawn[:, 1] - drawn[:, 0]).std(), rel=0.1)


@pytest.mark.parametrize("kind", ["law", "linear", "lightgbm", "log_linear", "gaussian_process"])
@pytest.mark.parametrize("unit", [1e-9, 1e25])
def test_losses_in_any_unit(kind: Any, unit: float) -> None:
    (weights, losses), test = planted(40, noise=0.05), planted(50, seed=1)[0]
    one, other = (fit_regression(kind, weights, losses * by) for by in (1, unit))
    np.testing.assert_allclose(other.predict(test) / unit, one.predict(test), rtol=1e-3)
    assert other.least == pytest.approx(unit * one.least)


def test_a_process_that_is_a_constant_leaves_the_law_alone_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights, losses = planted(20, noise=0.05)
    assert fit_regression("law", weights, losses).notes == ()
    monkeypatch.setattr(gaussian_process, "FLAT", np.inf)
    found = fit_regression("law", weights, np.stack([losses, 2 * losses], 1), (0.5, 0.5))
    assert all(isinstance(one, GaussianProcess) for one in found.models)
    (note,) = found.notes
    assert note.startswith("The law of losses decides alone on 2 of 2 metrics")
    with pytest.raises(DataError, match="losses that depend on the weights"):
        fit_regression("gaussian_process", weights, losses)


def test_each_method_has_regressions_of_its_own() -> None:
    assert [kind_of(method, "auto", 40) for method in WHOSE] == ["law", "lightgbm", "log_linear"]
    assert kind_of("regmix", "auto", 39) == "linear", "LightGBM needs 40 runs"
    assert kind_of("regmix", "linear", 99) == "linear"
    assert kind_of("bydore", "gaussian_process", 9) == "gaussian_process"
    for method, choice, other in (
        ("regmix", "law", "bydore"),
        ("regmix", "gaussian_process", "bydore"),
        ("bydore", "lightgbm", "regmix"),
        ("bydore", "log_linear", "olmix"),
    ):
        with pytest.raises(DataError, match=f"a regression of {method} .* --method {other} fits"):
            kind_of(method, choice, 99)  # type: ignore[arg-type]
