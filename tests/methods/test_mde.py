"""MDE's feature against brute force, and what it leads to."""

from __future__ import annotations

import numpy as np
from tiny import steps_spent

from bydore_pyro.measure.problem import Problem
from bydore_pyro.methods.mde import MDEConfig, draw_mixtures, fit_mde, mixture_of_experts_loss


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


def test_mdes_target_wins(problem: Problem) -> None:
    fit = fit_mde(problem, MDEConfig(mde_proxies=20, mde_candidates=2000))
    assert max(fit.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 800
