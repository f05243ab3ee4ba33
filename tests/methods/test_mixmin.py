"""MixMin's optimum against closed forms and another solver, and what it leads to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bydore_pyro.methods.mixmin import mixmin_weights


def loss(weights: np.ndarray, losses: np.ndarray, shares: np.ndarray) -> float:
    return float(-shares @ np.log(weights @ np.exp(-losses)))


@pytest.mark.parametrize("seed", range(3))
def test_no_other_solver_finds_a_lower_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses, shares = rng.gamma(2.0, size=(6, 40)), rng.dirichlet(np.ones(40))
    found = mixmin_weights(losses, shares)
    simplex = {"type": "eq", "fun": lambda p: p.sum() - 1}
    other = minimize(
        loss,
        np.full(6, 1 / 6),
        (losses, shares),
        "SLSQP",
        bounds=[(0, 1)] * 6,
        constraints=simplex,
        options={"ftol": 1e-12},
    )
    assert loss(found, losses, shares) == pytest.approx(other.fun, abs=2e-6)
    np.testing.assert_allclose(found, other.x, atol=5e-3)


def test_texts_of_known_kinds_give_their_shares() -> None:
    """Where each text is possible under one expert alone, the optimum is the share of its texts,
    whatever the unit of the shares: a text's 127 tokens once left it half-way to uniform."""
    kinds = np.repeat([0, 1, 2], [50, 30, 20])
    losses = np.where(np.arange(3)[:, None] == kinds, 100.0, 900.0)
    found = mixmin_weights(losses, np.full(100, 0.01 / 127))
    np.testing.assert_allclose(found, [0.5, 0.3, 0.2], atol=1e-6)


def test_two_texts_by_hand() -> None:
    """With ratios a and b of the other expert's probability the optimum has a closed form."""
    a, b = 0.1, 0.3
    found = mixmin_weights(-np.log([[1.0, b], [a, 1.0]]), np.ones(2))
    assert found[0] == pytest.approx((1 - 2 * a + a * b) / (2 * (1 - a) * (1 - b)), abs=1e-4)
    assert found.sum() == pytest.approx(1)
