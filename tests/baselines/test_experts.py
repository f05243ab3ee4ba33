"""MDE's feature and MixMin's loss against brute force, and what they lead to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import make_problem, steps_spent

from bydore_pyro.baselines.experts import (
    MDEConfig,
    draw_mixtures,
    expert_losses,
    fit_mde,
    fit_mixmin,
    mixmin_gradient,
    mixmin_weights,
    mixture_of_experts_loss,
)
from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.proxy_runs import train_mixtures
from bydore_pyro.data.store import TokenStore


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


def test_mdes_target_wins(problem: Problem) -> None:
    fit = fit_mde(problem, MDEConfig(mde_proxies=20, mde_candidates=2000))
    assert max(fit.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 800


def test_the_feature_of_an_expert_is_its_run(problem: Problem) -> None:
    place = problem.names.index("greek")
    alone = np.eye(len(problem.names))[[place]]
    (run,) = train_mixtures(problem, alone, 5, "x")
    losses, shares = expert_losses(problem, 5, "x")
    np.testing.assert_array_equal(losses[place], run.token_losses()["birds"])
    tokens, length = losses.reshape(len(losses), -1), losses.shape[2]
    feature = mixture_of_experts_loss(tokens, alone, np.repeat(shares, length) / length)
    assert feature[0] == pytest.approx(run.target_loss(problem.target), rel=1e-6)


def test_the_texts_of_a_domain_share_it_evenly(corpus: TokenStore, tmp_path: Path) -> None:
    target = {"birds": 1.0, "digits": 3.0}
    problem = make_problem(corpus, tmp_path, target=target, validation_sequences=16)
    losses, shares = expert_losses(problem, 1, "x")
    assert losses.shape[:2] == (4, 32)
    np.testing.assert_allclose(shares, [1 / 64] * 16 + [3 / 64] * 16)


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
