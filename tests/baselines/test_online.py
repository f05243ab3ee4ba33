"""DoReMi's rule by hand, FastMix's gradient against differences of the loss after a step."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny import Bigram, steps_spent
from transformers import AutoConfig, AutoModelForCausalLM

from bydore_pyro.baselines.online import (
    SMOOTHING,
    FastMixConfig,
    GroupWeights,
    domain_scores,
    fastmix_gradient,
    fit_doremi,
    fit_fastmix,
    unembedding,
)
from bydore_pyro.baselines.problem import Problem


def test_clipping_is_by_token_and_absent_domains_keep_their_score() -> None:
    excess = torch.tensor([[1.0, -3.0], [2.0, 2.0], [-1.0, -1.0]])
    scores = domain_scores(excess, torch.tensor([0, 0, 1]), torch.tensor([9.0, 9.0, 7.0]))
    # Clipped domain means would give 0.5 for the first domain.
    torch.testing.assert_close(scores, torch.tensor([(1 + 0 + 2 + 2) / 4, 0.0, 7.0]))


def test_the_group_updates_before_it_makes_the_weighted_token_mean() -> None:
    group = GroupWeights(torch.tensor([0.5, 0.5]).double())
    losses, domain = torch.tensor([[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 1, 1])
    factors = group.factors(torch.ones(3, 2), domain, losses)
    assert group.scores.tolist() == [1.0, 0.0]
    alpha = (1 - SMOOTHING) * math.e / (math.e + 1) + SMOOTHING / 2
    assert group.weights.tolist() == pytest.approx([alpha, 1 - alpha])
    expected = (alpha * 2 + (1 - alpha) * (1 + 1)) / (alpha + 2 * (1 - alpha))
    assert (factors * losses.mean(1)).mean().item() == pytest.approx(expected)


def test_doremis_weights_stay_on_the_simplex_and_their_average_is_returned(
    problem: Problem,
) -> None:
    fit = fit_doremi(problem)
    assert fit.trajectory is not None
    np.testing.assert_allclose(fit.trajectory.sum(1), 1)
    assert (fit.trajectory > 0).all()
    np.testing.assert_allclose(fit.mixture.weights, fit.trajectory.mean(0))
    spent = steps_spent(problem)
    assert 0.95 * 800 < spent <= 800, "within the budget, and using it"
    assert set(problem.cost.report()["parts"]) == {"train", "evaluate", "reference"}


def test_the_gradient_is_that_of_the_loss_after_one_step() -> None:
    """f(theta - eta sum_k p_k g_k) by autograd through the softmax, for a quadratic loss."""
    torch.manual_seed(0)
    theta, gradients = torch.randn(5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    logits = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    eta, target = 1e-7, torch.randn(5, dtype=torch.float64)
    after = theta - eta * torch.softmax(logits, 0) @ gradients
    (0.5 * (after - target).square().sum()).backward()
    weights = torch.softmax(logits.detach(), 0)
    found = fastmix_gradient(weights, gradients @ (theta - target), eta)
    torch.testing.assert_close(found, logits.grad, rtol=1e-5, atol=0)
    assert found.sum().abs() < 1e-18  # logits matter up to a constant


def test_the_unembedding_is_found() -> None:
    config = AutoConfig.for_model(
        "llama", hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        vocab_size=16, tie_word_embeddings=False,
    )  # fmt: skip
    assert unembedding(AutoModelForCausalLM.from_config(config)) == "lm_head.weight"
    assert unembedding(Bigram(8)) == "table"


def test_fastmixs_target_gains_and_the_authors_rate_hardly_moves(problem: Problem) -> None:
    """An update of AdamW moves a logit by about its step size."""
    fit = fit_fastmix(problem, FastMixConfig())
    assert max(fit.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    assert fit.mixture.as_dict()["birds"] > 0.4
    assert fit.trajectory.shape == (fit.details.steps, 4)
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 800
    still = fit_fastmix(problem, FastMixConfig(fastmix_rate=1e-4)).mixture.weights
    assert max(still) / min(still) < 1.01 ** (fit.details.steps / 20 + 1)
    assert max(still) < 0.26
