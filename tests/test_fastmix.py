"""FastMix's gradient against differences of the loss after a step, and what it leads to."""

from __future__ import annotations

import torch
from fastmix import FastMixConfig, fastmix_gradient, fit_fastmix, unembedding
from tiny import Bigram, steps_spent
from transformers import AutoConfig, AutoModelForCausalLM

from bydore_pyro.trials.problem import Problem


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
        "llama",
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        vocab_size=16,
        tie_word_embeddings=False,
    )
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
