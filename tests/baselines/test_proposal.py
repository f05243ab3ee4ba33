"""The mixture that is written: near the runs, its own prediction the best, told with its doubt."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines.proposal import gain_over, proposed, with_intervals
from bydore_pyro.baselines.regression import calibrated, cross_validate, fit_regression
from bydore_pyro.baselines.simulated import TrustRegion, simulated_optimum
from bydore_pyro.mixture.mixture import Mixture

PRIOR = np.full(4, 0.25)
NAMES = Mixture(names=("a", "b", "c", "d"), weights=(0.25,) * 4)


@pytest.mark.parametrize("kind", ["linear", "log_linear", "gaussian_process"])
def test_nothing_far_from_every_run_is_proposed_or_sure(kind: Any) -> None:
    """64 runs of 22 domains; by chance a domain that none held above 1.1 % seems to help."""
    if kind == "gaussian_process":
        pytest.importorskip("botorch")
    rng = np.random.default_rng(0)
    runs = np.concatenate([rng.dirichlet(np.ones(21), 64), rng.uniform(0, 0.011, (64, 1))], axis=1)
    runs /= runs.sum(1, keepdims=True)
    losses = 3 - 20 * runs[:, 21] + 0.3 * runs[:, 0] + 0.02 * rng.standard_normal(64)
    model = calibrated(fit_regression(kind, runs, losses), cross_validate(kind, runs, losses))
    region, prior = TrustRegion(runs, [f"r{i}" for i in range(64)]), runs.mean(0)
    named = Mixture(names=tuple(f"d{k}" for k in range(22)), weights=tuple(prior))
    optimum = simulated_optimum(model, np.full(22, 1 / 22), region, draws=3000)
    mixture, details = proposed(model, optimum, named, prior, region)
    assert not details["distance"]["far"]
    assert mixture.weights[21] < 0.4
    vertex = gain_over(model, np.eye(22)[21], prior, region)
    assert vertex["sure"] is False
    if kind != "gaussian_process":
        assert "probability" not in vertex


def test_the_gaussian_process_tells_loss_intervals_and_gain() -> None:
    pytest.importorskip("botorch")
    weights, losses = planted(60, noise=0.05)
    model = fit_regression("gaussian_process", weights, losses)
    region = TrustRegion(weights, [str(n) for n in range(60)])
    optimum = simulated_optimum(model, PRIOR, region, draws=1000, best=16)
    mixture, details = proposed(model, optimum, NAMES, PRIOR, region)
    assert mixture.predicted_loss is not None
    written = np.array([mixture.weights])
    assert mixture.predicted_loss["weights"][0] == pytest.approx(model.predict(written)[0])
    assert {"weights", "prior", "uniform"} <= set(mixture.predicted_loss)
    assert details["gain_over_prior"]["sure"] is True
    assert mixture.hdi is not None
    for weight, (low, high) in zip(mixture.weights, mixture.hdi, strict=True):
        assert low <= weight <= high
    low, high = details["interval_of_a_run"]
    assert low < mixture.predicted_loss["weights"][0] < high
    wide = dataclasses.replace(model, width=20.0)  # type: ignore[type-var]
    good = written[0]
    one, other = (gain_over(each, good, PRIOR, region) for each in (model, wide))
    assert one["mean"] == pytest.approx(other["mean"])
    assert other["standard_deviation"] == pytest.approx(20 * one["standard_deviation"])
    assert 0.5 < other["probability"] < one["probability"], "doubt brings it nearer to a half"
    assert gain_over(wide, PRIOR, good, region)["probability"] < 0.5, "worse stays worse"
    assert gain_over(model, PRIOR, PRIOR, region)["probability"] == 0


def test_a_stretched_interval_decides_nothing() -> None:
    mixture = dataclasses.replace(NAMES, weights=(0.7, 0.1, 0.1, 0.1), prior=(0.25,) * 4)
    draws = np.random.default_rng(0).dirichlet([40.0, 20.0, 20.0, 20.0], 400)
    found = with_intervals(mixture, draws)
    assert found.hdi is not None
    assert found.hdi[0][0] <= 0.25
    assert found.hdi[0][1] >= 0.7
    assert found.verdicts()["a"] == "undecided"
    assert with_intervals(mixture, None) == mixture


def test_without_doubt_of_its_own_a_regression_has_that_of_left_out_runs() -> None:
    weights, losses = planted(60)
    model = fit_regression("linear", weights, losses)
    region = TrustRegion(weights, [str(n) for n in range(60)])
    optimum = simulated_optimum(model, PRIOR, region, draws=500, best=16)
    _, details = proposed(model, optimum, NAMES, PRIOR, region)
    assert details["gain_over_prior"]["sure"] is None
    told = []
    for deviation in (0.01, 1.0):
        known = dataclasses.replace(model, deviation=deviation)  # type: ignore[type-var]
        told.append(gain_over(known, weights[losses.argmin()], PRIOR, region)["probability"])
    assert told[0] > 0.99 > told[1] > 0.5
    flat = dataclasses.replace(model, deviation=1.0)  # type: ignore[type-var]
    mixture, _ = proposed(flat, optimum, NAMES, PRIOR, TrustRegion(weights[:3], list("xyz")))
    assert "fewer runs than domains" in mixture.notes[0]
    assert any("No sure improvement" in note for note in mixture.notes)
