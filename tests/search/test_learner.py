"""The posterior as a search's learner: isolated, repeatable, and it moves towards g."""

from __future__ import annotations

import pyro
import torch

from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.learner import BayesianLearner, Weights, WeightsLearner

CONFIG = SearchConfig(evidence="linear", steps=60, guide_warmup=0)
SIGNALS, G = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])


def test_weights_follow_g_and_nothing_is_shared() -> None:
    learners: list[WeightsLearner] = [BayesianLearner(3, CONFIG, None, 0) for _ in range(2)]
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
    learner = BayesianLearner(3, CONFIG, None, 0)
    first = learner.draw(SIGNALS)
    learner.update(SIGNALS, G, 0.05, learn=False)
    again = learner.draw(SIGNALS)
    assert torch.equal(first.mean, again.mean)
    assert not torch.equal(first.weights, again.weights)


def test_a_broken_posterior_is_handed_on() -> None:
    learner = BayesianLearner(3, CONFIG, None, 0)
    with torch.no_grad():
        learner.guide.network.domain_bias[1] = float("nan")
    assert learner.draw(SIGNALS).concentration.isnan().any()
