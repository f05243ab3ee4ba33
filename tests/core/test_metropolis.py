"""Draws from the exact posterior, and a guide that is fitted to them, against quadrature."""

from __future__ import annotations

import numpy as np
import pyro
import pytest
import torch
from gaussian_evidence import exact_moments, gaussian_evidence
from torch import Tensor
from torch.distributions import Categorical, Dirichlet, MixtureSameFamily

from bydore_pyro.core import metropolis
from bydore_pyro.core.guide import FreeConcentrations, MixtureGuide, PriorNetwork
from bydore_pyro.core.importance import guide_fit
from bydore_pyro.core.inference import InferenceConfig, infer
from bydore_pyro.core.metropolis import (
    ExactDraws,
    exact_draws,
    fit_to_draws,
    guide_draws,
    infer_and_refine,
)
from bydore_pyro.core.model import mixture_model

SPARSE = (0.1, 0.2, 0.4, 0.8, 1.6)


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """All draws, sweeps and steps are taken."""


def starts(count: int, size: int, chains: int = 400) -> Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.rand(count, chains, size, generator=generator, dtype=torch.float64) + 0.01


def test_without_evidence_it_is_the_prior() -> None:
    """Moments in closed form, of each concentration and of all; the scale's logs are normal."""
    size, nothing = 4, torch.zeros(1, 4, dtype=torch.float64)
    for concentrations in ((1.0,), (0.1,), SPARSE):
        found = exact_draws(
            nothing, nothing[..., None] * nothing, starts(1, size), concentrations=concentrations,
            draws=40,
        )  # fmt: skip
        assert isinstance(found, ExactDraws)
        assert found.settled
        mean = 1 / size
        of_each = [mean * (1 - mean) / (size * a + 1) for a in concentrations]
        weights = found.weights[0]
        assert weights.shape == (16_000, size)
        torch.testing.assert_close(weights.sum(-1), torch.ones(16_000).double())
        np.testing.assert_allclose(weights.mean(0), mean, atol=0.02)
        np.testing.assert_allclose(weights.var(0), np.mean(of_each), rtol=0.1)
        log_scale = found.scale[0].log()
        np.testing.assert_allclose([log_scale.mean(), log_scale.std()], [0, 1], atol=0.06)


def test_heights_that_are_updated_are_those_of_the_density() -> None:
    """Single moves, each in time of K, leave every chain where the density says."""
    linear, precision = gaussian_evidence(6, 0.05, seed=3)
    start = starts(2, 6, chains=5).numpy() ** 8  # weights far apart
    evidence = (np.stack([linear.numpy()] * 2), np.stack([precision.numpy(), np.zeros((6, 6))]))
    chains = metropolis._Chains(*evidence, start, SPARSE, seed=0)
    begun = chains.log_u.copy()
    for _ in range(20):
        chains.sweep()
    assert (np.abs(chains.log_u - begun) > 0).mean() > 0.9
    np.testing.assert_allclose(chains.height, chains.density(chains.log_u), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("p", [0.5, 0.98, 1.0])
def test_two_domains_against_quadrature(p: float) -> None:
    """Quantiles of the first weight, by a sum over a grid of weight and scale."""
    precision = torch.tensor([[60.0, 20.0], [20.0, 40.0]], dtype=torch.float64)
    linear = precision @ torch.tensor([p, 1 - p], dtype=torch.float64)

    alpha = torch.tensor(SPARSE, dtype=torch.float64)
    parts = Dirichlet(alpha[:, None].expand(-1, 2))
    prior = MixtureSameFamily(Categorical(torch.ones_like(alpha)), parts)
    found = exact_draws(linear[None], precision[None], starts(1, 2), draws=40)
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
    """And a start at another place changes nothing but the noise."""
    generator = torch.Generator().manual_seed(3)
    size, many = 5, 3
    root = torch.randn(many, size, size + 2, generator=generator, dtype=torch.float64)
    precision = 50 * root @ root.mT
    truth = Dirichlet(torch.ones(size).double()).sample((many,))
    linear = (precision @ truth[..., None]).squeeze(-1)
    together = exact_draws(linear, precision, starts(many, size), seed=1, draws=20)
    for n in range(many):
        other = 0.02 + 5 * starts(1, size)[:, :, torch.randperm(size, generator=generator)]
        alone = exact_draws(linear[n : n + 1], precision[n : n + 1], other, seed=2, draws=20)
        spread = together.weights[n].std(0)
        apart = (together.weights[n].mean(0) - alone.weights[0].mean(0)).abs()
        assert bool((apart < 0.12 * spread).all())
        ratio = together.weights[n].std(0) / alone.weights[0].std(0)
        np.testing.assert_allclose(ratio, 1, atol=0.12)


def test_the_same_seed_draws_the_same_bits_and_bad_shapes_are_refused() -> None:
    linear, precision = torch.ones(1, 3).double(), torch.eye(3).double()[None]
    one, two = (exact_draws(linear, precision, starts(1, 3, 8), seed=5, draws=2) for _ in range(2))
    assert torch.equal(one.weights, two.weights)
    with pytest.raises(ValueError, match=r"Expected precision \(1, 3, 3\) and starts"):
        exact_draws(linear, precision[:, :2], starts(1, 3, 8))
    with pytest.raises(ValueError, match="Expected starts > 0"):
        exact_draws(linear, precision, 0 * starts(1, 3, 8))


def test_chains_begin_where_the_guide_draws() -> None:
    """Shapes far below 1 give no draw of 0."""
    network = FreeConcentrations(3, initial_shape=0.01).double()
    guide, before = MixtureGuide(network, scale=True), torch.get_rng_state()
    u = guide_draws(guide, torch.ones(3).double(), seed=1)
    assert u.shape == (400, 3)
    assert bool((u > 0).all())
    assert float(u.sum(-1).log().std()) == pytest.approx(0.1, abs=0.02)
    assert torch.equal(torch.get_rng_state(), before)


def network_guide(domains: int) -> MixtureGuide:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MixtureGuide(PriorNetwork(domains, link="exp").double(), scale=True)


def test_its_importance_weights_have_lighter_tails_than_after_svi() -> None:
    domains = 8
    linear, precision = gaussian_evidence(domains, 0.05, alike=1, seed=4)
    signals = torch.linspace(2, 4, domains, dtype=torch.float64)
    guide = network_guide(domains)

    def effective_draws() -> float:
        fit = guide_fit(mixture_model, guide, signals, linear, 1.0, precision, num_samples=2000)
        return fit.effective_draws

    infer(guide, signals, linear, precision, decays=0)
    before = effective_draws()
    shared = guide.network.project.weight.clone()
    random, stored = torch.get_rng_state(), set(pyro.get_param_store())
    fit_to_draws(guide, signals, linear, precision)
    assert effective_draws() > 1.3 * before
    assert torch.equal(guide.network.project.weight, shared)
    assert torch.equal(torch.get_rng_state(), random)
    assert set(pyro.get_param_store()) == stored


def test_three_domains_have_the_means_of_integration() -> None:
    """Where one domain is sparse and the others are sure, normalised Gammas must be too wide."""
    linear, precision = gaussian_evidence(3, 0.05, seed=2)
    signals = torch.linspace(2, 4, 3, dtype=torch.float64)
    guide = network_guide(3)
    assert infer_and_refine(guide, signals, linear, precision, config=InferenceConfig()).settled
    mean, deviation = exact_moments(linear, precision)
    q, scale = guide.posterior(signals), guide.scale_posterior()
    torch.testing.assert_close(q.mean, mean[:3], atol=0.01, rtol=0)
    ratio = q.stddev / deviation[:3]
    assert ((ratio > 0.7) & (ratio < 2.2)).all()
    assert scale.mean.item() == pytest.approx(mean[3].item(), abs=0.01)
    assert scale.stddev.item() == pytest.approx(deviation[3].item(), rel=0.15)


def test_many_domains_are_left_to_svi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bydore_pyro.core.metropolis.MOST_EXACT", 3)
    linear, precision = gaussian_evidence(4, 0.05)
    signals = torch.linspace(2, 4, 4, dtype=torch.float64)
    config = InferenceConfig(steps=25, window=10)
    guides = [MixtureGuide(FreeConcentrations(4).double(), scale=True) for _ in range(2)]
    infer_and_refine(guides[0], signals, linear, precision, config=config)
    infer(guides[1], signals, linear, precision, config=config)
    for left, right in zip(guides[0].parameters(), guides[1].parameters(), strict=True):
        assert torch.equal(left, right)
