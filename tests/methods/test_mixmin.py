"""MixMin's loss against autograd and by hand, and what it leads to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import steps_spent

from bydore_pyro.measure.problem import Problem
from bydore_pyro.methods.mixmin import fit_mixmin, mixmin_gradient, mixmin_weights


def test_the_gradient_against_autograd() -> None:
    rng = np.random.default_rng(0)
    losses, lengths = rng.uniform(300, 900, (4, 30)), rng.integers(50, 200, 30).astype(float)
    shares, weights = rng.dirichlet(np.ones(30)) / lengths, rng.dirichlet(np.ones(4))
    p = torch.tensor(weights, requires_grad=True)
    mixed = torch.logsumexp(p.log()[:, None] - torch.tensor(losses), 0)
    (-(torch.tensor(shares) * mixed).sum()).backward()
    np.testing.assert_allclose(mixmin_gradient(weights, losses, shares), p.grad.numpy())


def test_texts_of_known_kinds_give_their_shares() -> None:
    """Where each text is possible under one expert alone, the optimum is the share of its texts."""
    kinds = np.repeat([0, 1, 2], [50, 30, 20])
    losses = np.where(np.arange(3)[:, None] == kinds, 100.0, 900.0)
    found = mixmin_weights(losses, np.full(100, 0.001), 2000)
    np.testing.assert_allclose(found, [0.5, 0.3, 0.2], atol=1e-6)


def test_the_descent_by_hand() -> None:
    """Two experts, one text that the first makes e times as likely: one step from (1/2, 1/2)."""
    found = mixmin_weights(np.array([[1.0], [2.0]]), np.ones(1), 1)
    first, second = 2 * np.e / (np.e + 1), 2 / (np.e + 1)  # minus the gradient
    assert found[0] / found[1] == pytest.approx(np.exp(first - second))


def test_mixmins_target_wins(problem: Problem) -> None:
    fit = fit_mixmin(problem)
    assert max(fit.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 800
