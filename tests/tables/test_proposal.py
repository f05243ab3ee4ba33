"""The mixture that is proposed: near the runs, its own prediction the best, told with its doubt."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from planted_tables import planted

pytest.importorskip("botorch")

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.tables.left_out import cross_validate, validated
from bydore_pyro.tables.proposal import (
    SimulatedOptimum,
    TrustRegion,
    beyond,
    gain_over,
    in_own_direction,
    proposed,
    relative_entropy,
    simulated_optimum,
    with_intervals,
)
from bydore_pyro.tables.record import Distance, Gain
from bydore_pyro.tables.regression import fit_regression

PRIOR = np.array([0.5, 0.3, 0.15, 0.05])
EVEN = np.full(4, 0.25)
NAMES = Mixture(names=("a", "b", "c", "d"), weights=(0.25,) * 4)


def region_of(runs: np.ndarray) -> TrustRegion:
    return TrustRegion(runs, [f"r{n}" for n in range(len(runs))])


def test_the_trust_region_is_that_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    runs = rng.dirichlet(np.full(4, 20.0), 60)
    region = region_of(np.concatenate([runs, runs[:5]]))
    gaps = np.abs(runs[:, None] - runs[None]).sum(2) / 2 + np.diag(np.full(60, np.inf))
    assert region.reach == pytest.approx(np.quantile(gaps.min(1), 0.94))
    mixtures = rng.dirichlet(np.ones(4), 300)
    places, distances = region.nearest(mixtures)
    brute = np.abs(mixtures[:, None] - region.runs[None]).sum(2) / 2
    np.testing.assert_array_equal(places, brute.argmin(1))
    np.testing.assert_allclose(distances, brute.min(1))
    moved = region.moved_in(mixtures)
    np.testing.assert_allclose(moved.sum(1), 1)
    assert region.nearest(moved)[1].max() <= region.reach + 1e-12
    inside = distances <= region.reach
    within = inside & (mixtures <= region.most).all(1)
    np.testing.assert_allclose(moved[within], mixtures[within])
    assert (moved <= region.most + 1e-12).all()
    vertex = np.eye(4)[0]
    told = region.described(vertex)
    assert isinstance(told, Distance)
    assert (told.far, told.held) == (True, False)
    assert "nothing like this mixture was run" in told.words
    assert "A weight is above 1.25 times the largest of a run." in told.words
    assert "mixtures like this one were run" in region.described(runs[3]).words
    assert region.described(region.moved_in(vertex[None])[0]).held


def test_the_optimum_of_a_line_is_where_it_is_least_and_keeps_region_and_caps() -> None:
    runs = np.random.default_rng(0).dirichlet(np.full(4, 20.0), 60)
    model = fit_regression("linear", runs, runs @ np.array([0.0, 1, 2, 3]))
    free = simulated_optimum(model, PRIOR, draws=2000)
    assert isinstance(free, SimulatedOptimum)
    assert free.weights[0] > 0.97, "as RegMix: wherever the line points"
    assert free.draws is None
    region = region_of(runs)
    assert not region.far(simulated_optimum(model, PRIOR, region, draws=2000).weights)
    caps = np.array([0.3, 0.5, 0.5, 0.5])
    assert (simulated_optimum(model, PRIOR, region, draws=2000, caps=caps).weights <= caps).all()
    home = simulated_optimum(model, PRIOR, draws=2000, kl=1e6).weights
    assert relative_entropy(home[None], PRIOR)[0] < 0.05


@pytest.mark.parametrize("kind", ["law", "linear", "log_linear"])
def test_nothing_far_from_every_run_is_proposed_or_sure(kind: Any) -> None:
    """64 runs of 22 domains; by chance a domain that none held above 1.1 % seems to help."""
    rng = np.random.default_rng(0)
    runs = np.concatenate([rng.dirichlet(np.ones(21), 64), rng.uniform(0, 0.011, (64, 1))], axis=1)
    runs /= runs.sum(1, keepdims=True)
    losses = 3 - 20 * runs[:, 21] + 0.3 * runs[:, 0] + 0.02 * rng.standard_normal(64)
    told = None if kind == "law" else cross_validate(kind, runs, losses)[0]
    model = validated(fit_regression(kind, runs, losses), told)
    region, prior = region_of(runs), runs.mean(0)
    named = Mixture(names=tuple(f"d{k}" for k in range(22)), weights=tuple(prior))
    mixture, gain, distance = proposed(model, named, region, draws=3000)
    assert not distance.far
    assert mixture.weights[21] <= 1.25 * runs[:, 21].max() + 1e-9
    shares = np.array(mixture.weights)
    assert not (gain.sure and beyond(model, shares))
    vertex = gain_over(model, np.eye(22)[21], prior, region)
    assert isinstance(vertex, Gain)
    assert (vertex.sure, vertex.probability) == (False, None)


def test_a_note_on_doubt_does_not_contradict_itself() -> None:
    """A probability of 100 % that left-out runs do not confirm is no "not sure ... 100 %"."""
    weights, losses = planted(40, noise=0.05)
    model = validated(fit_regression("gaussian_process", weights, losses), None)
    mixture, gain, _ = proposed(model, NAMES, region_of(weights), draws=1000)
    assert (gain.sure, gain.probability or 0) == (False, pytest.approx(1, abs=0.03))
    notes = " ".join(mixture.notes)
    assert "lower than the prior's, but the runs do not confirm it." in notes
    assert "No sure improvement" not in notes


def test_the_gaussian_process_tells_loss_intervals_and_gain() -> None:
    weights, losses = planted(60, noise=0.05)
    model, region = fit_regression("gaussian_process", weights, losses), region_of(weights)
    mixture, told, _ = proposed(model, NAMES, region, draws=1000)
    written = np.array([mixture.weights])
    assert told.predicted_loss["weights"].mean == pytest.approx(model.predict(written)[0])
    assert {"weights", "prior", "uniform"} == set(told.predicted_loss)
    assert told.prior == NAMES.as_dict()
    assert told.sure is True
    assert mixture.hdi is not None
    for weight, (low, high) in zip(mixture.weights, mixture.hdi, strict=True):
        assert low <= weight <= high
    wide, good = dataclasses.replace(model, width=20.0), written[0]
    one, other = (gain_over(each, good, EVEN, region) for each in (model, wide))
    assert one.mean == pytest.approx(other.mean)
    assert 0.5 < other.probability < one.probability, "doubt brings it nearer to a half"
    assert gain_over(wide, EVEN, good, region).probability < 0.5, "worse stays worse"
    assert gain_over(model, EVEN, EVEN, region).probability == 0


def test_a_stretched_interval_decides_nothing() -> None:
    mixture = dataclasses.replace(NAMES, weights=(0.7, 0.1, 0.1, 0.1))
    draws = np.random.default_rng(0).dirichlet([40.0, 20.0, 20.0, 20.0], 400)
    found = with_intervals(mixture, EVEN, draws)
    assert found.hdi is not None
    assert found.hdi[0][0] <= 0.25
    assert found.hdi[0][1] >= 0.7
    assert found.verdicts()["a"] == "undecided"


def test_only_maximised_predictions_change_their_sign() -> None:
    losses = np.array([-40.3, -38.0])
    assert in_own_direction(losses, "maximised").tolist() == [40.3, 38.0]
    assert in_own_direction(losses, "minimised").tolist() == losses.tolist()
    assert in_own_direction(losses, "both").tolist() == losses.tolist()
