"""Domains that share a weight: their gradient is that of their text mixed by size."""

from __future__ import annotations

import torch

from bydore_pyro.core.matching import match, measured_round
from bydore_pyro.core.samples import Sample, members_of, pooled


def sample(mean: float, count: int) -> Sample:
    generator = torch.Generator().manual_seed(int(mean * 10))
    noise = 0.01 * torch.randn(count, 6, generator=generator)
    return Sample(mean * torch.eye(6)[int(mean) - 1] + noise, torch.arange(count) // 2)


def test_as_many_sequences_as_a_domains_share_and_documents_stay_apart() -> None:
    found = pooled([sample(1.0, 30), sample(2.0, 30)], [3000, 1000])
    assert len(found.gradients) == 40
    assert torch.equal(found.gradients[:30], sample(1.0, 30).gradients)
    assert torch.equal(found.gradients[30:], sample(2.0, 30).gradients[:10])
    assert len(torch.unique(found.documents)) == 15 + 5
    alone = sample(1.0, 30)
    assert pooled([alone], [7]) is alone
    few = pooled([sample(1.0, 30), sample(2.0, 30)], [1e6, 1.0])
    assert len(few.gradients) == 31, "of every domain one at least"


def test_a_target_of_both_in_their_proportion_is_made_of_the_pool_alone() -> None:
    first, second, other = sample(1.0, 40), sample(2.0, 40), sample(3.0, 40)
    sizes = [3.0, 1.0, 5.0]
    target = pooled([first, second], sizes[:2])
    merged = [pooled([first, second], sizes[:2]), other]
    found = match([measured_round(merged, target)])
    torch.testing.assert_close(found.weights, torch.tensor([1.0, 0.0]).double(), atol=0.02, rtol=0)
    members = members_of([[0, 1], [2]], sizes)
    torch.testing.assert_close(members.sum(1), torch.ones(2).double())
    expected = torch.tensor([0.75, 0.25, 0.0]).double()
    torch.testing.assert_close(found.weights @ members, expected, atol=0.02, rtol=0)
    apart = match([measured_round([first, second, other], target)])
    torch.testing.assert_close(apart.weights, expected, atol=0.05, rtol=0)
