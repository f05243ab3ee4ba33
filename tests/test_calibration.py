"""The calibration's draws, intervals and ranks against integration, ArviZ and the uniform law."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import arviz
import numpy as np
import pytest
import torch

from bydore_pyro.analysis.diagnostics import to_the_bounds
from bydore_pyro.core.matching import measured_round
from bydore_pyro.core.samples import Sample

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
import calibration_posterior as posterior
import calibration_targets as targets
from calibration_pools import Pools


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """As many draws as a search takes: they are judged here."""


def test_intervals_are_arvizs() -> None:
    draws = np.random.default_rng(0).dirichlet(np.array([0.5, 3, 8]), (2, 2000))
    low, high = posterior.intervals(torch.from_numpy(draws), 0.8)
    for own, *ends in zip(draws, low, high, strict=True):
        found = arviz.hdi(own[None], hdi_prob=0.8)
        np.testing.assert_allclose(np.stack(ends, 1), to_the_bounds(found, own))


def test_ranks_of_right_posteriors_lie_within_their_bands() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = torch._sample_dirichlet(torch.ones(400, 400, 4).double(), generator)
    truth, draws = draws[:, 0], draws[:, 1:]
    assert posterior.is_uniform(posterior.joint_ranks(draws, truth).numpy(), 0.99)
    for own in posterior.ranks(draws, truth).numpy().T:
        assert posterior.is_uniform(own, 0.99)
    narrow = draws.mean(1, keepdim=True) + 0.5 * (draws - draws.mean(1, keepdim=True))
    assert not posterior.is_uniform(posterior.ranks(narrow, truth)[:, 0].numpy())
    assert not posterior.is_uniform(posterior.joint_ranks(narrow, truth).numpy())
    rng = np.random.default_rng(1)
    inside = [posterior.is_uniform(rng.random(100)) for _ in range(400)]
    assert 0.91 < np.mean(inside) < 0.99


@pytest.fixture
def checkpoints() -> list[Pools]:
    """Two checkpoints of three domains, three sequences a document."""
    generator = torch.Generator().manual_seed(0)
    names = ("a", "b", "c")
    means = 2 * torch.randn(3, 16, generator=generator)
    documents = {
        side: dict.fromkeys(names, torch.arange(60) // 3) for side in ("measured", "held_out")
    }
    return [
        Pools(
            {
                side: {
                    name: mean + torch.randn(60, 16, generator=generator)
                    for name, mean in zip(names, means, strict=True)
                }
                for side in documents
            },
            documents,
        )
        for _ in range(2)
    ]


def test_a_target_is_what_a_round_would_measure(checkpoints: list[Pools]) -> None:
    rounds = targets.split(checkpoints, each=20, kept=20, seed=0)
    chosen = [np.array([0, 3]), np.array([], int), np.array([5])]
    for regime in targets.REGIMES:
        target = targets.chosen_of(rounds[1].pools[regime], chosen)
        expected = measured_round(rounds[1].measured, target)
        found = rounds[1].of_target(regime, chosen)
        for one, other in zip(found.products, expected.products, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found.held_out, expected.held_out, atol=1e-4, rtol=1e-4)
        assert torch.equal(found.held_out_documents, expected.held_out_documents)
        known = targets._about_own_domain(found, torch.tensor([0, 0, 2]))
        torch.testing.assert_close(known.cross, found.cross)
        torch.testing.assert_close(known.held_out[2], known.held_out.mean(0))


def test_targets_have_the_shares_that_they_claim(checkpoints: list[Pools]) -> None:
    rounds = targets.split(checkpoints, each=20, kept=20, seed=0)
    found = list(targets.targets_of(rounds, ["a", "b", "c"], range(4), 30))
    assert len(found) == 3 * 2 * 4
    for target in found:
        assert target.truth.sum() == pytest.approx(1)
        assert 0 < target.counts.sum() <= 32
        if target.design == targets.DESIGNS[0]:
            np.testing.assert_allclose(target.truth, target.shares, atol=1 / target.counts.sum())
        else:
            np.testing.assert_array_equal(target.truth, target.shares)
        assert set(target.moments) == set(targets.COUNTINGS)
        by_document, by_sequence = (target.matchings[name] for name in targets.COUNTINGS[:2])
        covariance = by_document.covariance_by_sequence
        expected = by_document.gram @ torch.linalg.inv(covariance) @ by_document.gram
        torch.testing.assert_close(by_sequence.precision, (expected + expected.T) / 2)
    same, other = (t for t in found[:2])
    np.testing.assert_array_equal(same.shares, other.shares)
    assert dataclasses.replace(same, design=targets.DESIGNS[1]).truth is same.shares


def test_whole_documents_are_taken_as_often_as_their_shares_say() -> None:
    rng = np.random.default_rng(0)
    sizes = (1, 5)
    pools = [Sample(torch.zeros(2000, 1), torch.arange(2000) // size) for size in sizes]
    shares = np.array([0.4, 0.6])
    rows = [targets.documents_of(shares, pools, 1000, rng) for _ in range(20)]
    counts = np.array([[len(own) for own in one] for one in rows])
    assert (counts[:, 1] % 5 == 0).all()
    np.testing.assert_allclose((counts / counts.sum(1, keepdims=True)).mean(0), shares, atol=0.02)
    assert all(len(np.unique(own)) == len(own) for one in rows for own in one)
