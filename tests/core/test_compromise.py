"""One mixture for several targets, against many other mixtures."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Dirichlet

from bydore_pyro.core.compromise import best_for_mean, best_for_worst, given_away


@pytest.fixture
def gram() -> Tensor:
    """Of domains of unlike lengths."""
    means = torch.randn(5, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    means = means * torch.tensor([1.0, 5.0, 2.0, 0.5, 1.0])[:, None]
    return means @ means.T


TARGETS = torch.tensor(
    [[0.8, 0.1, 0.0, 0.0, 0.0], [0.0, 0.1, 0.9, 0.0, 0.0], [0.0, 0.2, 0.2, 0.5, 0.0]],
    dtype=torch.float64,
)


def cosines(gram: Tensor, weights: Tensor) -> Tensor:
    """With every target ``(..., T)``."""
    lengths = ((TARGETS @ gram) * TARGETS).sum(-1) * ((weights @ gram) * weights).sum(-1)[..., None]
    return weights @ gram @ TARGETS.T / lengths.sqrt()


def test_no_other_mixture_is_better(gram: Tensor) -> None:
    torch.manual_seed(0)
    anywhere = Dirichlet(torch.full((5,), 0.7).double()).sample((50_000,))
    for find, judged in ((best_for_mean, Tensor.mean), (best_for_worst, Tensor.amin)):
        found = find(gram, TARGETS)
        assert float(found.sum()) == pytest.approx(1)
        assert float(found.min()) >= 0
        near = Dirichlet(3000 * found + 0.01).sample((50_000,))
        best = float(judged(cosines(gram, found), -1))
        assert float(judged(cosines(gram, anywhere), -1).max()) <= best
        assert float(judged(cosines(gram, near), -1).max()) <= best + 1e-6
    worst, mean = best_for_worst(gram, TARGETS), best_for_mean(gram, TARGETS)
    assert float(cosines(gram, worst).min()) > float(cosines(gram, mean).min()) + 0.05


def test_a_targets_length_does_not_matter(gram: Tensor) -> None:
    longer = TARGETS * torch.tensor([[1.0], [30.0], [0.1]])
    for find in (best_for_mean, best_for_worst):
        torch.testing.assert_close(find(gram, longer), find(gram, TARGETS), atol=1e-5, rtol=0)


def test_of_one_target_both_are_its_own_mixture(gram: Tensor) -> None:
    own = TARGETS[:1] / TARGETS[0].sum()
    for find in (best_for_mean, best_for_worst):
        torch.testing.assert_close(find(gram, TARGETS[:1]), own[0], atol=1e-5, rtol=0)


def test_what_a_mixture_gives_away_is_the_least_over_its_scale(gram: Tensor) -> None:
    weights = torch.full((5,), 0.2, dtype=torch.float64)
    scales = torch.linspace(0, 5, 5001, dtype=torch.float64)[:, None, None]
    apart = TARGETS - scales * weights  # (S, T, K)
    brute = ((apart @ gram) * apart).sum(-1).min(0).values / ((TARGETS @ gram) * TARGETS).sum(-1)
    torch.testing.assert_close(given_away(gram, TARGETS, weights), brute, atol=1e-4, rtol=1e-4)
    own = given_away(gram, TARGETS[0], TARGETS[0] / TARGETS[0].sum())
    assert float(own) < 1e-9
