"""The calibration's targets are what a round would measure; its bands hold uniform ranks."""

from __future__ import annotations

import calibration_targets as targets
import numpy as np
import pytest
import torch
from calibration import is_uniform

from bydore_pyro.core.matching import Sample, round_evidence


def test_uniform_ranks_lie_within_their_bands() -> None:
    rng = np.random.default_rng(1)
    inside = [is_uniform(rng.random(100)) for _ in range(400)]
    assert 0.91 < np.mean(inside) < 0.99
    assert not is_uniform(0.5 + 0.5 * (rng.random(400) - 0.5))


@pytest.fixture
def rounds() -> list[targets.Round]:
    """Two checkpoints of three domains, three sequences a document."""
    generator = torch.Generator().manual_seed(0)
    means = 2 * torch.randn(3, 16, generator=generator)

    def sample(mean: torch.Tensor) -> Sample:
        return Sample(mean + torch.randn(60, 16, generator=generator), torch.arange(60) // 3)

    checkpoints = [
        {side: {n: sample(m) for n, m in zip("abc", means, strict=True)} for side in targets.SIDES}
        for _ in range(2)
    ]
    return targets.split(checkpoints, each=20, kept=20, seed=0)


def test_a_target_is_what_a_round_would_measure(rounds: list[targets.Round]) -> None:
    chosen = [np.array([0, 3]), np.array([], int), np.array([5])]
    for regime in targets.REGIMES:
        target = targets.chosen_of(rounds[1].pools[regime], chosen)
        expected = round_evidence(rounds[1].measured, target)
        found = rounds[1].of_target(regime, chosen)
        for one, other in zip(found.products, expected.products, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found.held_out, expected.held_out, atol=1e-4, rtol=1e-4)
        assert torch.equal(found.held_out_documents, expected.held_out_documents)
        known = targets.about_own_domain(found, torch.tensor([0, 0, 2]))
        torch.testing.assert_close(known.cross, found.cross)
        torch.testing.assert_close(known.held_out[2], known.held_out.mean(0))


def test_targets_have_the_shares_that_they_claim(rounds: list[targets.Round]) -> None:
    found = list(targets.targets_of(rounds, ["a", "b", "c"], range(4), 30))
    assert len(found) == 3 * 2 * 4
    for target in found:
        assert target.truth.sum() == pytest.approx(1)
        assert 0 < target.counts.sum() <= 32
        if target.design == targets.DESIGNS[0]:
            np.testing.assert_allclose(target.truth, target.shares, atol=1 / target.counts.sum())
        else:
            np.testing.assert_array_equal(target.truth, target.shares)
    np.testing.assert_array_equal(found[0].shares, found[1].shares)
