"""Systematic sampling: exact batch size, unbiased counts, floor or ceiling."""

from __future__ import annotations

import pytest
import torch

from bydore_pyro.proxy.scheduling import STRATEGIES, Strategy, schedule, systematic_counts

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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_the_weighted_loss_as_its_expectation(strategy: Strategy) -> None:
    generator = torch.Generator().manual_seed(0)
    weights, losses = torch.tensor([0.5, 0.3, 0.15, 0.05]), torch.tensor([1.0, 2.0, 4.0, 8.0])
    found, domains = [], []
    for _ in range(4000):
        counts, factors = schedule(strategy, weights, 6, generator)
        assert counts.sum() == 6
        found.append(float((counts * factors * losses).sum() / 6))
        domains.append(int((counts > 0).sum()))
    expected = float((weights * losses).sum())
    error = torch.tensor(found).std() / 4000**0.5
    assert abs(sum(found) / 4000 - expected) < 4 * error + 1e-6
    if strategy.startswith("inter"):
        assert set(domains) == {1}, "a batch of one domain"
    else:
        assert min(domains) > 1


def test_factors_are_one_where_the_weights_are_sampled() -> None:
    weights = torch.tensor([0.7, 0.3])
    for strategy in ("intra_sampling", "inter_sampling"):
        assert schedule(strategy, weights, 4)[1].tolist() == [1, 1]
    for strategy in ("intra_weighting", "inter_weighting"):
        assert schedule(strategy, weights, 4)[1].tolist() == pytest.approx([1.4, 0.6])
    with pytest.raises(ValueError, match="Expected strategy one of"):
        schedule("all_at_once", weights, 4)  # type: ignore[arg-type]
