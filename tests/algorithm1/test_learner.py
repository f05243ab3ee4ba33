"""The learner of the posterior: it follows g, is isolated and repeatable."""

from __future__ import annotations

import pyro
import pytest
import torch

from bydore_pyro.algorithm1.config import LinearConfig
from bydore_pyro.algorithm1.learner import (
    NETWORK_LEARNING_RATE,
    BayesianLearner,
    Weights,
    WeightsLearner,
)

CONFIG = LinearConfig(guide_warmup=0)
SIGNALS, G = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])


def test_weights_follow_g_and_nothing_is_shared() -> None:
    learners: list[WeightsLearner] = [BayesianLearner(3, CONFIG, 60, 0) for _ in range(2)]
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
    learner = BayesianLearner(3, CONFIG, 60, 0)
    first = learner.draw(SIGNALS)
    learner.update(SIGNALS, G, 0.05, learn=False)
    again = learner.draw(SIGNALS)
    assert torch.equal(first.mean, again.mean)
    assert not torch.equal(first.weights, again.weights)


def test_the_domains_biases_take_larger_steps_than_the_network() -> None:
    """The first step of Adam is the step size, of most."""
    learner = BayesianLearner(3, CONFIG, 60, 0)
    before = {name: p.detach().clone() for name, p in learner.guide.network.named_parameters()}
    learner.update(SIGNALS, G, 0.05, learn=True)
    moved = {"domain_bias": 0.0, "others": 0.0}
    for name, parameter in learner.guide.network.named_parameters():
        kind = "domain_bias" if name.startswith("domain_bias") else "others"
        change = float((parameter - before[name]).detach().abs().max())
        moved[kind] = max(moved[kind], change)
    assert moved["domain_bias"] == pytest.approx(CONFIG.guide_learning_rate, rel=0.05)
    assert moved["others"] == pytest.approx(NETWORK_LEARNING_RATE, rel=0.05)
