"""Draws from the exact posterior, against closed forms and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from torch.distributions import Categorical, Dirichlet, MixtureSameFamily

from bydore_pyro.core import metropolis
from bydore_pyro.core.metropolis import CHAINS, MOST_EXACT, ExactDraws, exact_draws, nested_rhat

SPARSE = (0.1, 0.2, 0.4, 0.8, 1.6)


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """All draws and sweeps are taken."""


def test_without_evidence_it_is_the_prior() -> None:
    """Moments in closed form, of one concentration and of all; the scale's logs are normal."""
    size = 4
    nothing, almost = torch.zeros(1, size).double(), 1e-6 * torch.eye(size).double()[None]
    for concentrations in ((0.1,), SPARSE):
        found = exact_draws(nothing, almost, concentrations=concentrations, draws=20)
        assert isinstance(found, ExactDraws)
        assert found.settled
        mean = 1 / size
        of_each = [mean * (1 - mean) / (size * a + 1) for a in concentrations]
        weights = found.weights[0]
        assert weights.shape == (20 * CHAINS, size)
        torch.testing.assert_close(weights.sum(-1), torch.ones(20 * CHAINS).double())
        np.testing.assert_allclose(weights.mean(0), mean, atol=0.02)
        np.testing.assert_allclose(weights.var(0), np.mean(of_each), rtol=0.12)
        log_scale = found.scale[0].log()
        np.testing.assert_allclose([log_scale.mean(), log_scale.std()], [0, 1], atol=0.06)


@pytest.mark.parametrize("p", [0.5, 0.98, 1.0])
def test_two_domains_against_quadrature(p: float) -> None:
    """Quantiles of the first weight, by a sum over a grid of weight and scale."""
    precision = torch.tensor([[60.0, 20.0], [20.0, 40.0]], dtype=torch.float64)
    linear = precision @ torch.tensor([p, 1 - p], dtype=torch.float64)

    alpha = torch.tensor(SPARSE, dtype=torch.float64)
    parts = Dirichlet(alpha[:, None].expand(-1, 2))
    prior = MixtureSameFamily(Categorical(torch.ones_like(alpha)), parts)
    found = exact_draws(linear[None], precision[None], concentrations=SPARSE, draws=40)
    logit = torch.linspace(-60, 60, 4001, dtype=torch.float64)
    w = torch.stack([logit.sigmoid(), (-logit).sigmoid()], -1).clamp(min=1e-30)  # (G, 2)
    log_scale = torch.linspace(-4, 3, 401, dtype=torch.float64)[:, None]
    u = log_scale.exp()[..., None] * w
    height = (linear * u).sum(-1) - ((u @ precision) * u).sum(-1) / 2
    height = height + prior.log_prob(w / w.sum(-1, keepdim=True))
    height = height + w.log().sum(-1) - log_scale.square() / 2  # d w / d logit = w (1 - w)
    mass = (height - height.max()).exp().sum(0)
    below = (mass / mass.sum()).cumsum(0)
    for level in (0.1, 0.3, 0.5, 0.7, 0.9):
        exactly = w[int(torch.searchsorted(below, level)), 0]
        share = float((found.weights[0, :, 0] < exactly).double().mean())
        assert share == pytest.approx(level, abs=0.03), (level, exactly)


def test_many_posteriors_at_once_are_those_one_at_a_time() -> None:
    """And other starts change nothing but the noise."""
    generator = torch.Generator().manual_seed(3)
    size, many = 5, 2
    root = torch.randn(many, size, size + 2, generator=generator, dtype=torch.float64)
    precision = 50 * root @ root.mT
    ones = torch.ones(many, size, dtype=torch.float64)
    truth = torch._sample_dirichlet(ones, generator=generator)
    linear = (precision @ truth[..., None]).squeeze(-1)
    together = exact_draws(linear, precision, seed=1)
    for n in range(many):
        alone = exact_draws(linear[n : n + 1], precision[n : n + 1], seed=2)
        spread = together.weights[n].std(0)
        apart = (together.weights[n].mean(0) - alone.weights[0].mean(0)).abs()
        assert bool((apart < 0.12 * spread).all())
        ratio = together.weights[n].std(0) / alone.weights[0].std(0)
        np.testing.assert_allclose(ratio, 1, atol=0.12)


def test_a_group_begins_at_one_place_and_the_places_are_spread_as_the_evidence() -> None:
    """Where no weight is near 0: about the optimum, with the inverse of the precision."""
    root = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).double()
    precision, optimum = 4000 * root @ root.T, torch.tensor([0.5, 0.3, 0.2]).double()
    starts = torch.stack(
        [metropolis._starts(precision @ optimum, precision, 8, seed) for seed in range(500)]
    )
    assert torch.equal(starts[:, ::2], starts[:, 1::2])
    places = starts[:, ::2].flatten(0, 1)
    expected = torch.linalg.inv(precision)
    error = (expected.diagonal() / len(places)).sqrt()
    assert bool(((places.mean(0) - optimum).abs() < 4 * error).all())
    torch.testing.assert_close(
        places.T.cov() / expected, torch.ones(3, 3).double(), rtol=0, atol=0.2
    )


def test_nested_rhat_by_hand() -> None:
    """Two groups of two draws: their means 1 and 5 have variance 8, each group has 2."""
    values = np.array([[0.0, 2.0], [4.0, 6.0]])[None, :, :, None]
    assert nested_rhat(values) == pytest.approx(5**0.5)
    of_three = np.concatenate([values, 10 * values + 3, 0 * values], 3)
    assert nested_rhat(of_three) == pytest.approx(5**0.5)
    assert nested_rhat(0 * values) == 1


def test_chains_that_have_not_forgotten_their_start_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linear, precision = gaussian_evidence(8, 0.05, alike=2, seed=1)
    assert len(linear) <= MOST_EXACT
    settled = exact_draws(linear[None], precision[None])
    assert settled.settled
    assert 1 <= settled.rhat < 1.02
    monkeypatch.setattr(metropolis, "MOST_WINDOWS", 1)
    monkeypatch.setattr(metropolis, "THIN", 1)
    begun = exact_draws(linear[None], precision[None], draws=2)
    assert not begun.settled
    assert begun.rhat > 1.1


def test_the_same_seed_draws_the_same_bits_and_bad_shapes_are_refused() -> None:
    linear, precision = torch.ones(1, 3).double(), torch.eye(3).double()[None]
    before = torch.get_rng_state()
    one, two, other = (
        exact_draws(linear, precision, chains=8, seed=seed, draws=2) for seed in (5, 5, 6)
    )
    assert torch.equal(one.weights, two.weights)
    assert not torch.equal(one.weights, other.weights)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match=r"Expected precision \(1, 3, 3\), actual \(1, 2, 3\)"):
        exact_draws(linear, precision[:, :2])
    with pytest.raises(ValueError, match="8 or more, 4 groups, actual 6"):
        exact_draws(linear, precision, chains=6)
