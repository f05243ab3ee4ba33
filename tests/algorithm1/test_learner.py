"""Learners of the weights: they follow g; the posterior is isolated and repeatable."""

from __future__ import annotations

import dataclasses
import math

import pyro
import pytest
import torch
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.learners import (
    BayesianLearner,
    ExponentiatedLearner,
    PointLearner,
    Weights,
    WeightsLearner,
    learner_of,
)

CONFIG = SearchConfig(evidence="linear", steps=60, guide_warmup=0)
SIGNALS, G = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])


def test_weights_follow_g_and_nothing_is_shared() -> None:
    learners: list[WeightsLearner] = [BayesianLearner(3, CONFIG, 0) for _ in range(2)]
    before, stored = torch.get_rng_state(), dict(pyro.get_param_store())
    first = learners[0].update(SIGNALS, G, 0.05, learn=False)
    learners[1].update(SIGNALS, G, 0.05, learn=False)
    for _ in range(60):
        losses = [learner.update(SIGNALS, G, 0.05, learn=True) for learner in learners]
        assert losses[0] == losses[1]
    assert losses[0] < first - 0.2, "the loss falls as the weights follow g"
    drawn: Weights = learners[0].draw(SIGNALS)
    assert drawn.mean[0] > 0.6 > drawn.mean[1] > drawn.mean[2]
    torch.testing.assert_close(drawn.weights.sum(), torch.tensor(1.0))
    assert torch.equal(torch.get_rng_state(), before)
    assert dict(pyro.get_param_store()).keys() == stored.keys()


def test_without_learning_only_the_random_numbers_move() -> None:
    learner = BayesianLearner(3, CONFIG, 0)
    first = learner.draw(SIGNALS)
    learner.update(SIGNALS, G, 0.05, learn=False)
    again = learner.draw(SIGNALS)
    assert torch.equal(first.mean, again.mean)
    assert not torch.equal(first.weights, again.weights)


@pytest.mark.parametrize("kind", ["point", "exponentiated"])
def test_points_follow_g(kind: str) -> None:
    learner: WeightsLearner = learner_of(dataclasses.replace(CONFIG, learner=kind), 3, 0)
    assert type(learner) is {"point": PointLearner, "exponentiated": ExponentiatedLearner}[kind]
    start = learner.draw(SIGNALS)
    torch.testing.assert_close(start.mean, torch.full((3,), 1 / 3))
    assert learner.update(SIGNALS, G, 1.0, learn=False) == pytest.approx(0, abs=1e-6)
    assert torch.equal(learner.draw(SIGNALS).mean, start.mean)
    for _ in range(20):
        learner.update(SIGNALS, G, 1.0, learn=True)
    drawn = learner.draw(SIGNALS)
    loss = learner.update(SIGNALS, G, 1.0, learn=False)
    assert loss == pytest.approx(-(G * drawn.mean).sum().item())
    assert loss < -0.1, "the loss falls as the weights follow g"
    assert drawn.mean[0] > drawn.mean[1] > drawn.mean[2]
    assert torch.equal(drawn.weights, drawn.mean)
    assert drawn.standard_deviation.eq(0).all()


def test_the_points_gradient_is_the_covariance_with_g() -> None:
    """At equal outputs, d(-g.w)/d a_k = -(g_k - mean g) w_k / a_k for w = a / sum a."""
    learner = PointLearner(3, CONFIG, 0)
    weights = learner.weights(SIGNALS)
    assert weights.tolist() == pytest.approx([1 / 3] * 3)
    (-(torch.tensor([1.0, 0.0, 0.0]) * weights).sum()).backward()
    gradient = learner.network.domain_bias.grad
    assert gradient is not None
    slope = 1 - 2.718281828459045**-1  # of softplus where it is 1
    expected = [-(1 - 1 / 3) / 3 * slope, slope / 9, slope / 9]
    assert gradient[:, 0].tolist() == pytest.approx(expected, rel=1e-4)


def test_doremis_update_of_two_domains_by_hand() -> None:
    learner = ExponentiatedLearner(2, eta=1.0, smoothing=0.1)
    learner.update(torch.zeros(2), torch.tensor([math.log(3), 0.0]), 0.0, learn=True)
    expected = torch.tensor([0.9 * 0.75 + 0.05, 0.9 * 0.25 + 0.05])
    torch.testing.assert_close(learner.draw(torch.zeros(2)).mean, expected)
