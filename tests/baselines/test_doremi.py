"""DoReMi's rule, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny import steps_spent

from bydore_pyro.baselines.doremi import (
    DoReMiConfig,
    GroupWeights,
    domain_scores,
    doremi_factors,
    fit_doremi,
)
from bydore_pyro.baselines.problem import Problem


def test_clipping_is_by_token_and_absent_domains_keep_their_score() -> None:
    excess = torch.tensor([[1.0, -3.0], [2.0, 2.0], [-1.0, -1.0]])
    scores = domain_scores(excess, torch.tensor([0, 0, 1]), torch.tensor([9.0, 9.0, 7.0]))
    # Clipped domain means would give 0.5 for the first domain.
    torch.testing.assert_close(scores, torch.tensor([(1 + 0 + 2 + 2) / 4, 0.0, 7.0]))


def test_factors_make_the_weighted_token_mean() -> None:
    weights, domain = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0, 1, 1, 2])
    losses = torch.tensor([1.0, 2.0, 3.0, 4.0])
    expected = (0.7 * 1 + 0.2 * 2 + 0.2 * 3 + 0.1 * 4) / 1.2
    assert (doremi_factors(weights, domain) * losses).mean().item() == pytest.approx(expected)


def test_a_step_of_the_group_updates_before_it_weighs() -> None:
    group = GroupWeights(torch.tensor([0.5, 0.5]).double(), torch.zeros(2).double(), DoReMiConfig(
        doremi_smoothing=0.0))  # fmt: skip
    losses = torch.tensor([[2.0, 2.0], [1.0, 1.0]])
    factors = group.factors(torch.ones(2, 2), torch.tensor([0, 1]), losses)
    raised = math.e / (math.e + 1)
    assert group.weights.tolist() == pytest.approx([raised, 1 - raised])
    assert group.scores.tolist() == [1.0, 0.0]
    assert factors.tolist() == pytest.approx([2 * raised, 2 * (1 - raised)])


def test_weights_stay_on_the_simplex_and_their_average_is_returned(problem: Problem) -> None:
    fit = fit_doremi(problem, DoReMiConfig())
    assert fit.trajectory is not None
    np.testing.assert_allclose(fit.trajectory.sum(1), 1)
    assert (fit.trajectory > 0).all()
    np.testing.assert_allclose(fit.mixture.weights, fit.trajectory.mean(0))
    spent = steps_spent(problem)
    assert 0.95 * 800 < spent <= 800, "within the budget, and using it"
    assert set(problem.cost.report()["parts"]) == {"train", "evaluate", "reference"}
