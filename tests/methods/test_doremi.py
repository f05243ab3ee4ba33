"""DoReMi's rule by hand, and what it leads to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny import steps_spent

from bydore_pyro.methods.doremi import SMOOTHING, GroupWeights, domain_scores, fit_doremi
from bydore_pyro.trials.problem import Problem


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
