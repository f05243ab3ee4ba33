"""Points in place of a posterior, in the ablation: they follow g by their own rules."""

from __future__ import annotations

import math

import pytest
import torch
from point_learners import ExponentiatedLearner, PointLearner

from bydore_pyro.algorithm1.config import LinearConfig
from bydore_pyro.algorithm1.learner import WeightsLearner
from bydore_pyro.methods.doremi import raised_weights

SIGNALS, G = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])
LEARNERS = {
    "point": lambda count: PointLearner(count, LinearConfig(guide_warmup=0), 60, 0),
    "exponentiated": ExponentiatedLearner,
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_points_follow_g(kind: str) -> None:
    learner: WeightsLearner = LEARNERS[kind](3)
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
    learner = PointLearner(3, LinearConfig(guide_warmup=0), 60, 0)
    weights = learner.weights(SIGNALS)
    assert weights.tolist() == pytest.approx([1 / 3] * 3)
    (-(torch.tensor([1.0, 0.0, 0.0]) * weights).sum()).backward()
    gradient = learner.network.domain_bias.grad
    assert gradient is not None
    slope = 1 - 2.718281828459045**-1  # of softplus where it is 1
    expected = [-(1 - 1 / 3) / 3 * slope, slope / 9, slope / 9]
    assert gradient[:, 0].tolist() == pytest.approx(expected, rel=1e-4)


def test_doremis_update_of_two_domains_by_hand() -> None:
    learner = ExponentiatedLearner(2)
    scores = torch.tensor([math.log(3), 0.0])
    learner.update(torch.zeros(2), scores, 0.0, learn=True)
    found = learner.draw(torch.zeros(2)).mean
    torch.testing.assert_close(found, torch.tensor([0.999 * 0.75 + 5e-4, 0.999 * 0.25 + 5e-4]))
    assert torch.equal(found, raised_weights(torch.tensor([0.5, 0.5]), scores))
