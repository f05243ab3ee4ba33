"""The mixture that is written: its own prediction is the best one, and told beside the prior's."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.baselines.proposal import (
    few_runs,
    gain_over,
    nearest_run,
    proposed,
    with_distance,
    with_intervals,
)
from bydore_pyro.baselines.regression import fit_regression
from bydore_pyro.baselines.simulated_optimum import SimulatedOptimum, simulated_optimum
from bydore_pyro.mixture.mixture import Mixture

PRIOR = np.array([0.25, 0.25, 0.25, 0.25])
NAMES = Mixture(names=("a", "b", "c", "d"), weights=(0.25,) * 4)


def process(losses: np.ndarray | None = None) -> GaussianProcess:
    weights, found = planted(60, noise=0.02)
    return fit_gaussian_process(weights, found if losses is None else losses, kernel_draws=4)


def two_vertices() -> tuple[GaussianProcess, SimulatedOptimum]:
    """Either of two domains alone is good, their mean is bad: the optimum has two modes."""
    weights, _ = planted(60)
    losses = 3 + 4 * weights[:, 0] * weights[:, 1] + weights[:, 2] + weights[:, 3]
    model = fit_gaussian_process(weights, losses + 0.01 * np.sin(97 * losses), kernel_draws=4)
    optimum = simulated_optimum(model, PRIOR, draws=600, best=16)
    draws = np.repeat([[1.0, 0, 0, 0], [0, 1.0, 0, 0]], 200, axis=0)
    return model, dataclasses.replace(optimum, weights_draws=draws)


def test_the_mean_of_optima_near_different_vertices_is_not_written() -> None:
    model, optimum = two_vertices()
    mixture, details = proposed(model, optimum, NAMES, PRIOR, runs=60)
    mean = np.array([[0.5, 0.5, 0, 0]])
    assert mixture.predicted_loss is not None
    assert mixture.predicted_loss["weights"][0] < model.predict(mean)[0] - 0.5
    assert max(mixture.weights) > 0.8
    assert details["gain_over_prior"]["probability"] > 0.97
    assert details["gain_over_prior"]["sure"] is True
    assert not any("improvement" in note for note in mixture.notes)


def test_what_is_predicted_is_of_the_weights_in_the_file(tmp_path: Path) -> None:
    model = process()
    optimum = simulated_optimum(model, PRIOR, draws=600, best=16)
    mixture, _ = proposed(model, optimum, NAMES, PRIOR, runs=60)
    path = tmp_path / "mixture.json"
    path.write_text(mixture.to_json())
    content = json.loads(path.read_text())
    written = np.array([list(content["weights"].values())])
    found = content["predicted_loss"]
    assert found["weights"]["mean"] == pytest.approx(model.predict(written)[0])
    deviation = model.standard_deviation(written)[0]
    assert found["weights"]["standard_deviation"] == pytest.approx(deviation)
    assert found["prior"]["mean"] == pytest.approx(model.predict(PRIOR[None])[0])
    assert {"weights", "prior", "uniform"} <= set(found)
    assert Mixture.from_json(path) == mixture
    for weight, (low, high) in zip(mixture.weights, mixture.hdi or (), strict=True):
        assert low <= weight <= high


def test_no_improvement_is_called_none() -> None:
    """The prior is the best mixture that there is: it is written, and that is said."""
    weights, _ = planted(60)
    losses = 3 + ((weights - PRIOR) ** 2).sum(1)
    model = fit_gaussian_process(weights, losses, kernel_draws=4)
    optimum = simulated_optimum(model, PRIOR, draws=200, best=128)
    optimum = dataclasses.replace(optimum, single=optimum.weights_draws[0])  # type: ignore[index]
    mixture, details = proposed(model, optimum, NAMES, PRIOR, runs=60)
    assert details["gain_over_prior"]["mean"] <= 0.01
    assert any("improvement" in note for note in mixture.notes)
    chance = process(np.random.default_rng(0).standard_normal(60))
    optimum = simulated_optimum(chance, PRIOR, draws=600, best=16)
    mixture, details = proposed(chance, optimum, NAMES, PRIOR, runs=60)
    assert details["gain_over_prior"]["probability"] < 0.97
    assert details["gain_over_prior"]["sure"] is False
    assert any("mprovement" in note for note in mixture.notes)


def test_authors_regressions_keep_their_mean_and_have_no_deviation() -> None:
    weights, losses = planted(60)
    model = fit_regression("linear", weights, losses)
    optimum = simulated_optimum(model, PRIOR, draws=500, best=16)
    mixture, details = proposed(model, optimum, NAMES, PRIOR, runs=60)
    np.testing.assert_allclose(mixture.weights, optimum.weights)
    assert mixture.predicted_loss is not None
    assert mixture.predicted_loss["weights"] == (pytest.approx(optimum.loss), None)
    assert "probability" not in details["gain_over_prior"]
    assert with_intervals(mixture, optimum.weights_draws) == mixture


def test_few_runs_are_told() -> None:
    assert few_runs(4, 4) is None
    assert "3 runs of 4 domains" in str(few_runs(3, 4))


def test_a_prune_that_is_predicted_to_hurt_is_told() -> None:
    """The second domain's interval lies below its share, and yet some of it helps."""
    weights, _ = planted(80)
    losses = 3 - np.log(weights[:, 0] + 0.05) - 0.2 * np.log(weights[:, 1] + 1e-3)
    model = fit_gaussian_process(weights, losses + 0.01 * np.sin(97 * losses), kernel_draws=4)
    prior = np.array([0.4, 0.5, 0.05, 0.05])
    optimum = simulated_optimum(model, prior, draws=600, best=16)
    mixture, _ = proposed(model, optimum, NAMES, prior, runs=80)
    assert mixture.verdicts()["b"] == "below", "of its share of the prior, 0.5"
    assert mixture.pruning_hurts()
    assert mixture.predicted_loss is not None
    pruned = np.array([mixture.pruned().weights])
    assert mixture.predicted_loss["pruned"][0] == pytest.approx(model.predict(pruned)[0])
    assert "Pruned, these weights are predicted to be worse" in mixture.notes[-1]


def test_a_gain_is_as_sure_as_left_out_runs_allow() -> None:
    weights, losses = planted(60, noise=0.02)
    good = np.array([0.7, 0.1, 0.1, 0.1])
    point = fit_regression("linear", weights, losses)
    assert "probability" not in gain_over(point, good, PRIOR)
    told = []
    for deviation in (0.01, 1.0):
        known = dataclasses.replace(point, deviation=deviation)  # type: ignore[type-var]
        told.append(gain_over(known, good, PRIOR)["probability"])
    assert told[0] > 0.99 > told[1] > 0.5  # type: ignore[operator]
    wide = dataclasses.replace(process(), width=20.0)
    narrow, wider = gain_over(process(), good, PRIOR), gain_over(wide, good, PRIOR)
    assert wider["mean"] == narrow["mean"]
    assert wider["standard_deviation"] == pytest.approx(20 * narrow["standard_deviation"])  # type: ignore[operator]
    assert gain_over(process(), PRIOR, PRIOR)["probability"] == 0


def test_a_mixture_that_nothing_was_run_like_says_so() -> None:
    runs = np.random.default_rng(0).dirichlet(np.full(4, 30.0), 40)
    names = tuple(f"r{i}" for i in range(40))
    near, told = with_distance(NAMES, names, runs)
    assert near == NAMES
    assert told["far"] is False
    vertex = dataclasses.replace(NAMES, weights=(1.0, 0.0, 0.0, 0.0))
    far, told = with_distance(vertex, names, runs)
    assert "nothing like this mixture was run" in far.notes[0]
    assert told["far"] is True
    assert told["nearest_run"] == names[int(np.abs(runs - np.eye(4)[0]).sum(1).argmin())]


def test_distances_are_those_of_brute_force() -> None:
    runs = np.random.default_rng(0).dirichlet(np.full(4, 20.0), 300)
    runs = np.concatenate([runs, runs[:5]])  # copies are no neighbours
    one = runs[3] * 0.999 + 0.001 * np.eye(4)[0]
    place, distance = nearest_run(one, runs)
    assert place == 3
    assert distance == pytest.approx(np.abs(runs[3] - one).sum() / 2)
    gaps = np.abs(runs[:300, None] - runs[None, :300]).sum(2) / 2 + np.diag(np.full(300, np.inf))
    names = tuple(f"r{i}" for i in range(305))
    _, told = with_distance(dataclasses.replace(NAMES, weights=tuple(one.tolist())), names, runs)
    assert (told["nearest_run"], told["total_variation"]) == ("r3", pytest.approx(distance))
    assert told["median_among_runs"] == pytest.approx(np.median(gaps.min(1)))
    assert told["farther_than"] == pytest.approx((gaps.min(1) < distance).mean())
    assert not told["far"]
    assert "mixtures like this one were run" in told["words"]
    _, alone = with_distance(NAMES, ("r", "s"), np.full((2, 4), 0.25))
    assert alone["total_variation"] == alone["median_among_runs"] == alone["farther_than"] == 0
