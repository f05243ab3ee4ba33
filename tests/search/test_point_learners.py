"""The ablation's learners: points on the simplex that follow g."""

from __future__ import annotations

import math

import pytest
import torch

from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.point_learners import (
    ExponentiatedLearner,
    PointLearner,
    exponentiated_step,
)

CONFIG = SearchConfig(evidence="linear", steps=60, guide_warmup=0)
SIGNALS, G = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])


@pytest.mark.parametrize("kind", ["point", "exponentiated"])
def test_points_follow_g(kind: str) -> None:
    learner = PointLearner(3, CONFIG, None, 0) if kind == "point" else ExponentiatedLearner(3)
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


def test_doremis_update_of_two_domains_by_hand() -> None:
    new = exponentiated_step(torch.tensor([0.5, 0.5]), torch.tensor([math.log(3), 0.0]), 1.0, 0.1)
    torch.testing.assert_close(new, torch.tensor([0.9 * 0.75 + 0.05, 0.9 * 0.25 + 0.05]))
    assert torch.equal(
        exponentiated_step(torch.tensor([0.2, 0.8]), torch.zeros(2), 5.0, 0.0).round(decimals=6),
        torch.tensor([0.2, 0.8]),
    )


def test_the_multiplicative_update_by_hand() -> None:
    learner = ExponentiatedLearner(2, eta=1.0, smoothing=0.1)
    learner.update(SIGNALS[:2], torch.tensor([1.0, 0.0]), 1.0, learn=True)
    e = 2.718281828459045
    expected = [0.9 * e / (e + 1) + 0.05, 0.9 / (e + 1) + 0.05]
    assert learner.draw(SIGNALS[:2]).mean.tolist() == pytest.approx(expected)


def test_the_points_gradient_is_the_covariance_with_g() -> None:
    """At equal outputs, d(-g.w)/d a_k = -(g_k - mean g) w_k / a_k for w = a / sum a."""
    learner = PointLearner(3, CONFIG, None, 0)
    weights = learner.weights(SIGNALS)
    assert weights.tolist() == pytest.approx([1 / 3] * 3)
    (-(torch.tensor([1.0, 0.0, 0.0]) * weights).sum()).backward()
    gradient = learner.network.domain_bias.grad
    assert gradient is not None
    slope = 1 - 2.718281828459045**-1  # of softplus where it is 1
    expected = [-(1 - 1 / 3) / 3 * slope, slope / 9, slope / 9]
    assert gradient[:, 0].tolist() == pytest.approx(expected, rel=1e-4)
