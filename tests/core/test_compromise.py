"""One mixture for several targets, against a general optimiser and many mixtures."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Dirichlet

from bydore_pyro.core.compromise import best_for_mean, best_for_worst, given_away


@pytest.fixture
def gram() -> Tensor:
    means = torch.randn(5, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return means @ means.T


TARGETS = torch.tensor(
    [[0.8, 0.1, 0.0, 0.0, 0.0], [0.0, 0.1, 0.9, 0.0, 0.0], [0.0, 0.2, 0.2, 0.5, 0.0]],
    dtype=torch.float64,
)


def losses(gram: Tensor, weights: Tensor) -> Tensor:
    """Of every target ``(..., T)``, at its own scale."""
    apart = TARGETS.sum(1)[:, None] * weights.unsqueeze(-2) - TARGETS
    return ((apart @ gram) * apart).sum(-1)


def test_no_other_mixture_is_better(gram: Tensor) -> None:
    torch.manual_seed(0)
    anywhere = Dirichlet(torch.full((5,), 0.7).double()).sample((50_000,))
    for find, judged in ((best_for_mean, Tensor.mean), (best_for_worst, Tensor.amax)):
        found = find(gram, TARGETS)
        assert float(found.sum()) == pytest.approx(1)
        assert float(found.min()) >= 0
        near = Dirichlet(3000 * found + 0.01).sample((50_000,))
        best = judged(losses(gram, found), -1)
        assert float(judged(losses(gram, anywhere), -1).min()) >= float(best)
        assert float(judged(losses(gram, near), -1).min()) >= float(best) - 1e-3
    worst, mean = best_for_worst(gram, TARGETS), best_for_mean(gram, TARGETS)
    assert float(losses(gram, worst).max()) < float(losses(gram, mean).max()) - 0.1


def test_of_one_target_both_are_its_own_mixture(gram: Tensor) -> None:
    own = TARGETS[:1] / TARGETS[0].sum()
    for find in (best_for_mean, best_for_worst):
        torch.testing.assert_close(find(gram, TARGETS[:1]), own[0], atol=1e-5, rtol=0)


def test_what_a_mixture_gives_away_is_the_least_over_its_scale(gram: Tensor) -> None:
    weights = torch.tensor([0.2, 0.2, 0.2, 0.2, 0.2], dtype=torch.float64)
    found = given_away(gram, TARGETS, weights)
    scales = torch.linspace(0, 3, 3001, dtype=torch.float64)[:, None, None]
    apart = TARGETS - scales * weights  # (S, T, K)
    brute = ((apart @ gram) * apart).sum(-1).min(0).values
    torch.testing.assert_close(found, brute, atol=1e-4, rtol=1e-4)
    own = given_away(gram, TARGETS[0], TARGETS[0] / TARGETS[0].sum())
    assert abs(float(own)) < 1e-9
