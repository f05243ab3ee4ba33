"""A guide that is fitted to exact draws covers the posterior."""

from __future__ import annotations

import pyro
import pytest
import torch
from gaussian_evidence import exact_moments, gaussian_evidence

from bydore_pyro.core.forward_divergence import fit_to_draws, infer_at_last
from bydore_pyro.core.guide import MixtureGuide, mixture_model
from bydore_pyro.core.importance import guide_fit
from bydore_pyro.core.inference import InferenceConfig, infer
from bydore_pyro.core.prior_net import FreeConcentrations, PriorNetwork


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """As many draws and steps as a search takes: they are judged here."""


def network_guide(domains: int) -> MixtureGuide:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MixtureGuide(PriorNetwork(domains, link="exp").double(), scale=True)


@pytest.mark.slow
@pytest.mark.parametrize(("domains", "alike", "seed"), [(8, 1, 4), (13, 1, 3)])
def test_its_importance_weights_have_lighter_tails_than_after_svi(
    domains: int, alike: int, seed: int
) -> None:
    linear, precision = gaussian_evidence(domains, 0.05, alike=alike, seed=seed)
    signals = torch.linspace(2, 4, domains, dtype=torch.float64)
    guide = network_guide(domains)

    def effective_draws() -> float:
        fit = guide_fit(mixture_model, guide, signals, linear, 1.0, precision, num_samples=2000)
        return fit.effective_draws

    infer(guide, signals, linear, precision, config=InferenceConfig(decays=0))
    before = effective_draws()
    shared = guide.network.project.weight.clone()
    random, stored = torch.get_rng_state(), set(pyro.get_param_store())
    fit_to_draws(guide, signals, linear, precision)
    assert effective_draws() > 1.3 * before
    assert torch.equal(guide.network.project.weight, shared)
    assert torch.equal(torch.get_rng_state(), random)
    assert set(pyro.get_param_store()) == stored


@pytest.mark.slow
def test_three_domains_have_the_means_of_integration() -> None:
    """Where one domain is sparse and the others are sure, normalised Gammas must be too wide."""
    linear, precision = gaussian_evidence(3, 0.05, seed=2)
    signals = torch.linspace(2, 4, 3, dtype=torch.float64)
    guide = network_guide(3)
    assert infer_at_last(guide, signals, linear, precision, config=InferenceConfig()).settled
    mean, deviation = exact_moments(linear, precision)
    q, scale = guide.posterior(signals), guide.scale_posterior()
    torch.testing.assert_close(q.mean, mean[:3], atol=0.01, rtol=0)
    ratio = q.stddev / deviation[:3]
    assert ((ratio > 0.7) & (ratio < 2.2)).all()
    assert scale.mean.item() == pytest.approx(mean[3].item(), abs=0.01)
    assert scale.stddev.item() == pytest.approx(deviation[3].item(), rel=0.15)


def test_many_domains_are_left_to_svi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bydore_pyro.core.forward_divergence.MOST_EXACT", 3)
    linear, precision = gaussian_evidence(4, 0.05)
    signals = torch.linspace(2, 4, 4, dtype=torch.float64)
    config = InferenceConfig(steps=25, window=10)
    guides = [MixtureGuide(FreeConcentrations(4).double(), scale=True) for _ in range(2)]
    infer_at_last(guides[0], signals, linear, precision, config=config)
    infer(guides[1], signals, linear, precision, config=config)
    for left, right in zip(guides[0].parameters(), guides[1].parameters(), strict=True):
        assert torch.equal(left, right)
