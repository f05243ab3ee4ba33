"""The one posterior of search, ask and live: against integration; what it tells of itself."""

from __future__ import annotations

import pyro
import pytest
import torch
from gaussian_evidence import exact_moments, gaussian_evidence, matching_of
from quick import quickly

from bydore_pyro.core import inference, metropolis, posterior
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.matching import Matching
from bydore_pyro.core.network import FreeConcentrations
from bydore_pyro.core.posterior import DRAWS, Convergence, Posterior, draw_posterior, draw_prior


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """All draws and steps are taken."""


def evidence(size: int = 3, seed: int = 2) -> Matching:
    """As gradients give it, of domains that cover the target."""
    linear, precision = gaussian_evidence(size, 0.05, seed=seed)
    found = matching_of(torch.ones(size) / size)
    found.__dict__.update(linear=linear, precision=precision)
    return found


def test_three_domains_have_the_moments_of_integration() -> None:
    """The draws; of the guide the means, and spreads that are not too narrow: where one domain is
    sparse and the others are sure, normalised Gammas must be too wide."""
    found = evidence()
    drawn = draw_posterior(found, with_guide=True)
    assert isinstance(drawn, Posterior)
    assert drawn.convergence.settled
    assert drawn.convergence.rhat is not None
    assert 1 <= drawn.convergence.rhat < metropolis.SETTLED
    assert drawn.weights.shape == (DRAWS, 3)
    assert (drawn.scale > 0).all()
    mean, deviation = exact_moments(found.linear, found.precision)
    both = torch.cat([drawn.weights, drawn.scale[:, None]], 1)
    assert ((both.mean(0) - mean).abs() < 0.1 * deviation).all()
    torch.testing.assert_close(both.std(0), deviation, atol=0, rtol=0.1)
    assert drawn.guide is not None
    assert drawn.fit is not None
    q, scale = drawn.guide.posterior(), drawn.guide.scale_posterior()
    torch.testing.assert_close(q.mean, mean[:3], atol=0.01, rtol=0)
    ratio = q.stddev / deviation[:3]
    assert ((ratio > 0.7) & (ratio < 2.2)).all()
    assert scale.mean.item() == pytest.approx(mean[3].item(), abs=0.01)
    assert scale.stddev.item() == pytest.approx(deviation[3].item(), rel=0.15)
    assert drawn.fit.khat < 0.7


def test_the_same_seed_draws_the_same_bits_and_the_guide_comes_back_from_its_file() -> None:
    random, stored = torch.get_rng_state(), set(pyro.get_param_store())
    found = evidence()
    with quickly():
        one, two = (draw_posterior(found, with_guide=True) for _ in range(2))
        other = draw_posterior(found, seed=1)
    assert torch.equal(torch.get_rng_state(), random)
    assert set(pyro.get_param_store()) == stored
    assert torch.equal(one.weights, two.weights)
    assert torch.equal(one.scale, two.scale)
    assert one.fit == two.fit
    assert not torch.equal(one.weights, other.weights)
    assert other.guide is other.fit is None
    assert one.guide is not None
    again = MixtureGuide(FreeConcentrations(3).double(), scale=True)
    again.load_state_dict(one.guide.state_dict())
    assert torch.equal(again.posterior().mean, one.guide.posterior().mean)
    assert torch.equal(again.scale_posterior().stddev, one.guide.scale_posterior().stddev)


@pytest.mark.slow
def test_of_many_domains_a_guide_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its draws are corrected by importance weights, where these and SVI are to be relied on."""
    monkeypatch.setattr(posterior, "MOST_EXACT", 2)
    found = matching_of(torch.tensor([0.4, 0.3, 0.3]), 4000)
    drawn = draw_posterior(found)
    assert drawn.convergence == Convergence(settled=True)
    assert drawn.guide is not None
    assert drawn.fit is not None
    assert drawn.weights.shape == (DRAWS, 3)
    mean, deviation = exact_moments(found.linear, found.precision)
    both = torch.cat([drawn.weights, drawn.scale[:, None]], 1)
    assert ((both.mean(0) - mean).abs() < 0.2 * deviation).all()
    torch.testing.assert_close(both.std(0), deviation, atol=0, rtol=0.15)
    few = inference.InferenceConfig(steps=25, window=10)
    monkeypatch.setattr(posterior, "InferenceConfig", lambda seed: few)
    assert not draw_posterior(found).convergence.settled


def test_the_priors_draws_have_the_moments_of_its_mixture() -> None:
    found, random = evidence(4), torch.get_rng_state()
    weights, scale = draw_prior(found, 20_000)
    assert torch.equal(torch.get_rng_state(), random)
    assert weights.shape == (20_000, 4)
    torch.testing.assert_close(weights.sum(1), torch.ones(20_000).double())
    torch.testing.assert_close(weights.mean(0), torch.full((4,), 0.25).double(), atol=0.01, rtol=0)
    concentrations = torch.tensor(found.concentrations).double()
    variance = (3 / 16 / (4 * concentrations + 1)).mean()
    torch.testing.assert_close(weights.var(0), variance.expand(4), atol=0, rtol=0.03)
    assert scale.log().std().item() == pytest.approx(1, abs=0.02)
    assert torch.equal(draw_prior(found, 20_000)[0], weights)
