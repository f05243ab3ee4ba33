"""The law and the Gaussian process on planted runs: means of metrics, units, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted, truth

pytest.importorskip("botorch")

from bydore_pyro import errors
from bydore_pyro.errors import DataError
from bydore_pyro.tables import gaussian_process
from bydore_pyro.tables.gaussian_process import Either, GaussianProcess
from bydore_pyro.tables.regression import (
    FEWEST_RUNS,
    REACH,
    Regression,
    RunsRegression,
    check_runs_differ,
    fit_runs,
    worth_of,
)


def one_metric(runs: int) -> tuple[np.ndarray, np.ndarray]:
    weights, losses = planted(runs, noise=0.05)
    return weights, losses[:, None]


def several(runs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixtures of four domains, and noisy losses on their own text: power laws."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(4, 0.7), runs)
    amounts = weights + 0.1 * weights.sum(1, keepdims=True)
    losses = 2 + amounts ** -np.array([0.2, 0.3, 0.4, 0.5])
    return weights, losses + 0.01 * rng.standard_normal((runs, 4))


def test_bad_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, losses = one_metric(50)
    few = FEWEST_RUNS - 1
    with pytest.raises(DataError, match=f"at least {few + 1} runs, found {few}"):
        fit_runs(weights[:few], losses[:few])
    with pytest.raises(DataError, match="on different mixtures, found one in all 50 runs"):
        fit_runs(np.repeat(weights[:1], 50, 0), losses)
    for rounding in (0, 1e-15):
        with pytest.raises(DataError, match="runs that differ in loss, found one value in all"):
            fit_runs(weights, 3 + rounding * np.arange(50.0)[:, None])
    with pytest.raises(DataError, match="Expected small runs on different mixtures"):
        check_runs_differ(weights * 0, losses, "small runs")

    def fail(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(errors.importlib, "import_module", fail)
    with pytest.raises(ValueError, match=r"pip install 'bydore-pyro\[baselines\]'"):
        fit_runs(*one_metric(50))


def test_the_law_is_ahead_with_few_runs_of_own_text_and_shares_with_the_process_later() -> None:
    (weights, losses), (test, expected) = several(40), several(200, seed=1)
    shares = [0.25] * 4
    few = fit_runs(weights[:8], losses[:8], shares, range(4))
    both = fit_runs(weights[:8], losses[:8], shares)
    assert isinstance(few, RunsRegression)
    assert (few.law_alone, both.law_alone) == (True, False)
    off = [np.abs(one.predict(test) - expected).mean() for one in (few, both)]
    assert off[0] < off[1]
    for runs, shared in ((12, {0.5}), (40, None)):
        found = fit_runs(weights[:runs], losses[:runs], shares, range(4)).models
        known = {one.share for one in found if isinstance(one, Either)}
        assert known == (shared or known)
        assert all(0.25 <= share <= 0.75 for share in known)
    held = np.abs(few.predict(test) - expected) < REACH * few.deviation(test)
    assert held.mean() > 0.9


def test_a_difference_is_that_of_draws_and_of_two_runs_noise() -> None:
    weights, losses = one_metric(30)
    model: Regression = fit_runs(weights, losses)
    assert isinstance(model, RunsRegression)
    (test, _), (process,) = planted(2, seed=3), model.models
    drawn = model.sample(test, 8000, 0)
    apart, deviation = model.apart(test[0], test[1])
    assert apart[0] == pytest.approx(np.diff(model.predict(test)[::-1, 0])[0])
    assert apart[0] == pytest.approx((drawn[:, 0] - drawn[:, 1]).mean(), abs=0.05)
    noise = process.deviation(test) ** 2 - process.deviation(test, of_run=False) ** 2
    expected = (drawn[:, 0] - drawn[:, 1]).var() + (model.units[0] ** 2 * noise).sum()
    assert deviation[0] == pytest.approx(np.sqrt(expected), rel=0.1)
    same, doubt = model.apart(test[0], test[0])
    assert same[0] == pytest.approx(0, abs=1e-9)
    assert doubt[0] == pytest.approx(model.units[0] * np.sqrt(2 * noise[0]), rel=1e-3)


def test_metrics_of_different_sizes_are_fitted_together() -> None:
    (weights, losses), test = several(20), several(50, seed=1)[0]
    one, other = (fit_runs(weights, losses * by, [0.25] * 4) for by in (1, [1, 1, 1, 1000]))
    ratio = other.predict(test)[:, 3] / one.predict(test)[:, 3]
    np.testing.assert_allclose(ratio, 1000, rtol=0.02)


def test_what_smaller_runs_say_of_domains_ranks_better_than_four_runs_alone() -> None:
    small = planted(60, noise=0.05)
    worth = worth_of(small[0], small[1][:, None], [-1])
    assert worth[0].argmax() == 0
    unseen, ranks = planted(200, seed=5)[0], []
    for seed in range(10, 14):
        weights, losses = planted(6, noise=0.05, seed=seed)
        runs = (weights, losses[:, None])
        fits = [fit_runs(*runs, worth=one) for one in (None, worth)]
        laws = [model.models[0] for model in fits]
        plain = [one.law if isinstance(one, Either) else one for one in laws]
        ranks.append([np.corrcoef(one.predict(unseen), truth(unseen))[0, 1] for one in plain])
    alone, scaled_up = np.mean(ranks, 0)
    assert scaled_up > alone + 0.02


def test_a_process_that_is_a_constant_leaves_the_law_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, losses = one_metric(20)
    assert fit_runs(weights, losses).flat == 0
    monkeypatch.setattr(gaussian_process, "FLAT", np.inf)
    found = fit_runs(weights, np.concatenate([losses, 2 * losses], 1), (0.5, 0.5))
    assert all(isinstance(one, GaussianProcess) for one in found.models)
    assert found.flat == 2
