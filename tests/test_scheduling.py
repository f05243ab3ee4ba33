"""Systematic sampling: exact batch size, unbiased counts, floor or ceiling."""

from __future__ import annotations

import pytest
import torch

from bydore_pyro.scheduling import systematic_counts

WEIGHTS = [
    torch.tensor([0.5, 0.3, 0.2]),
    torch.full((13,), 1 / 13),
    torch.tensor([1.0, 0.0]),
    torch.tensor([0.0, 1.0]),
    torch.tensor([1e-30, 0.999, 0.001]),
    torch.cat([torch.full((500,), 1e-4), torch.tensor([0.95])]),
]


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("batch_size", [1, 7, 32])
def test_counts_add_up_and_are_floor_or_ceiling(weights: torch.Tensor, batch_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    share = weights.double() / weights.double().sum() * batch_size
    for _ in range(200):
        counts = systematic_counts(weights, batch_size, generator)
        assert counts.sum() == batch_size
        assert (counts >= (share - 1e-9).floor()).all()
        assert (counts <= (share + 1e-9).ceil()).all()


def test_counts_are_unbiased() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.41, 0.33, 0.17, 0.09])
    draws = torch.stack([systematic_counts(weights, 10, generator) for _ in range(20_000)]).double()
    error = draws.std(0) / len(draws) ** 0.5
    assert ((draws.mean(0) - 10 * weights.double()).abs() < 5 * error + 1e-9).all()
    # the paper's floor(w B) would give 4, 3, 1, 0: eight of ten sequences
    assert draws.sum(1).eq(10).all()


def test_bad_batch_size_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_size >= 1"):
        systematic_counts(WEIGHTS[0], 0)
