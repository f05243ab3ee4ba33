"""MixMin's loss against brute force and differences, its optimum against a planted mixture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import steps_spent

from bydore_pyro.baselines.mixmin import MixMinConfig, fit_mixmin, mixmin_loss, mixmin_weights
from bydore_pyro.baselines.problem import Problem


def test_the_loss_and_its_gradient_against_autograd() -> None:
    rng = np.random.default_rng(0)
    losses, lengths = rng.uniform(300, 900, (4, 30)), rng.integers(50, 200, 30).astype(float)
    shares, weights = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(4))
    p = torch.tensor(weights, requires_grad=True)
    mixed = torch.logsumexp(p.log()[:, None] - torch.tensor(losses), 0)
    loss = -(torch.tensor(shares / lengths) * mixed).sum()
    loss.backward()
    found, gradient = mixmin_loss(weights, losses, lengths, shares)
    assert found == pytest.approx(loss.item())
    np.testing.assert_allclose(gradient, p.grad.numpy())


def test_texts_of_known_kinds_give_their_shares() -> None:
    """Where each text is possible under one expert alone, the optimum is the share of its texts."""
    kinds = np.repeat([0, 1, 2], [50, 30, 20])
    losses = np.where(np.arange(3)[:, None] == kinds, 100.0, 900.0)
    found = mixmin_weights(losses, np.full(100, 10.0), np.full(100, 0.01), 1.0, 2000)
    np.testing.assert_allclose(found, [0.5, 0.3, 0.2], atol=1e-6)


def test_the_descent_by_hand() -> None:
    """Two experts, one text that the first makes e times as likely: one step from (1/2, 1/2)."""
    losses = np.array([[1.0], [2.0]])
    found = mixmin_weights(losses, np.ones(1), np.ones(1), 1.0, 1)
    first, second = 2 * np.e / (np.e + 1), 2 / (np.e + 1)  # minus the gradient
    assert found[0] / found[1] == pytest.approx(np.exp(first - second))


def test_the_targets_own_domain_wins(problem: Problem) -> None:
    fit = fit_mixmin(problem, MixMinConfig())
    assert max(fit.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 800
