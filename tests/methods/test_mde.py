"""MDE's feature against brute force, and what it leads to."""

from __future__ import annotations

import numpy as np

from bydore_pyro.methods.mde import draw_mixtures, mixture_of_experts_loss


def test_the_feature_is_the_loss_of_mixed_probabilities() -> None:
    rng = np.random.default_rng(0)
    losses, weights = rng.uniform(0, 9, (3, 50)), draw_mixtures(40, 3, rng)
    shares = rng.dirichlet(np.ones(50))
    brute = [
        -sum(
            shares[x] * np.log(sum(w[k] * np.exp(-losses[k, x]) for k in range(3)))
            for x in range(50)
        )
        for w in weights
    ]
    np.testing.assert_allclose(mixture_of_experts_loss(losses, weights, shares), brute)


def test_one_expert_alone_has_its_own_loss() -> None:
    losses = np.array([[1.0, 2.0, 800.0], [3.0, 5.0, 700.0]])
    found = mixture_of_experts_loss(losses, np.eye(2), np.full(3, 1 / 3))
    np.testing.assert_allclose(found, losses.mean(1))


def test_drawn_mixtures_are_on_the_simplex_and_differ_in_spread() -> None:
    drawn = draw_mixtures(500, 6, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.sum(1), 1)
    assert drawn.max(1).min() < 0.4
    assert drawn.max(1).max() > 0.95
