"""SVI until it has settled, and guides that are fitted to draws; against stock NUTS."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from gaussian_evidence import exact_moments, gaussian_evidence
from pyro.infer import MCMC, NUTS
from torch import Tensor

from bydore_pyro import InferenceConfig, infer
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.inference import Inference, fit_to_draws, has_settled
from bydore_pyro.core.metropolis import exact_draws
from bydore_pyro.core.model import mixture_model
from bydore_pyro.core.network import FreeConcentrations


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """As many draws as a search takes: they are judged here."""


def free_guide(domains: int) -> MixtureGuide:
    return MixtureGuide(FreeConcentrations(domains).double(), scale=True)


def signals_of(domains: int) -> Tensor:
    return torch.linspace(2, 4, domains, dtype=torch.float64)


def noisy(levels: Tensor) -> list[float]:
    generator = torch.Generator().manual_seed(0)
    return (levels + 0.3 * torch.randn(len(levels), generator=generator)).tolist()


def test_a_loss_has_settled_when_it_no_longer_falls() -> None:
    flat, falling = torch.zeros(100), -torch.arange(100) / 50.0  # one nat a window of 50
    assert has_settled(noisy(flat), 50, 0.1)
    assert not has_settled(noisy(falling), 50, 0.1)
    assert has_settled(noisy(falling / 1000), 50, 0.1)
    # A fall within the noise is none, one within the tolerance neither.
    assert has_settled((falling + 20 * (torch.arange(100) % 2)).tolist(), 50, 0.1)
    assert has_settled(falling.tolist(), 50, 1.1)
    assert has_settled(noisy(-falling), 50, 0.1)
    assert not has_settled(noisy(flat)[:99], 50, 0.1)
    assert not has_settled([*noisy(flat)[:99], math.nan], 50, 0.1)
    # Only the last two windows count.
    assert has_settled(noisy(torch.cat([50 * torch.ones(50), flat])), 50, 0.1)


def test_three_domains_have_the_moments_of_integration() -> None:
    linear, precision = gaussian_evidence(3, 0.05, seed=2)
    guide = free_guide(3)
    found = infer(guide, signals_of(3), linear, precision)
    assert isinstance(found, Inference)
    assert found.settled
    assert found.steps == len(found.losses) < 700
    mean, deviation = exact_moments(linear, precision)
    q, scale = guide.posterior(signals_of(3)), guide.scale_posterior()
    torch.testing.assert_close(q.mean, mean[:3], atol=0.02, rtol=0)
    ratio = q.stddev / deviation[:3]  # of a sparse weight SVI sees the smaller half alone
    assert ((ratio > 0.3) & (ratio < 1.3)).all()
    assert scale.mean.item() == pytest.approx(mean[3].item(), abs=0.02)
    assert scale.stddev.item() == pytest.approx(deviation[3].item(), rel=0.25)


def test_it_tells_when_the_steps_ran_out() -> None:
    linear, precision = gaussian_evidence(3, 0.05)
    config = InferenceConfig(steps=25, window=10)
    found = infer(free_guide(3), signals_of(3), linear, precision, config=config)
    assert not found.settled
    assert found.steps == 25


def test_what_it_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    linear, precision = gaussian_evidence(3, 0.05)
    network = free_guide(3).network
    indefinite = torch.diag(torch.tensor([50.0, 50.0, -40.0], dtype=torch.float64))
    for guide, h, bend, message in (
        (free_guide(3), torch.nan * linear, precision, "finite evidence"),
        (free_guide(3), linear, indefinite, "symmetric and positive semi-definite"),
        (MixtureGuide(network), linear, precision, "scale=True"),
    ):
        with pytest.raises(ValueError, match=message):
            infer(guide, signals_of(3), h, bend)
    with pytest.raises(ValueError, match="scale=True"), pyro.get_param_store().scope():
        fit_to_draws(MixtureGuide(network), torch.ones(9, 3) / 3, torch.ones(9))
    monkeypatch.setattr("bydore_pyro.core.model.ROUNDING", 10)  # it is tried nevertheless
    guide = free_guide(3)
    before = {name: value.clone() for name, value in guide.state_dict().items()}
    assert not infer(guide, signals_of(3), linear, indefinite).settled
    assert all(torch.equal(value, before[name]) for name, value in guide.state_dict().items())


def test_it_begins_where_the_loss_is_less() -> None:
    linear, precision = gaussian_evidence(3, 0.05)
    guide, signals = free_guide(3), signals_of(3)
    config = InferenceConfig(steps=60, window=20, draws=2)
    first = infer(guide, signals, linear, precision, config=config)
    assert first.losses[0] < first.losses[-1] + 3, "a Dirichlet's fit is a good start"
    again = infer(guide, signals, 1.01 * linear, 1.01 * precision, config=config)
    assert again.losses[0] < first.losses[0] + 1
    elsewhere = infer(guide, signals, linear.flip(0), precision.flip(0, 1), config=config)
    assert elsewhere.losses[0] < first.losses[0] + 3


def test_the_same_seed_gives_the_same_guide_and_nothing_else_moves() -> None:
    linear, precision = gaussian_evidence(3, 0.1)
    before, stored = torch.get_rng_state(), set(pyro.get_param_store())
    results = []
    for seed in (0, 0, 1):
        guide = free_guide(3)
        config = InferenceConfig(steps=20, seed=seed, draws=2)
        found = infer(guide, signals_of(3), linear, precision, config=config)
        results.append((found.losses, guide.network.log_mean.detach()))
    assert results[0][0] == results[1][0] != results[2][0]
    assert torch.equal(results[0][1], results[1][1])
    assert torch.equal(torch.get_rng_state(), before)
    assert set(pyro.get_param_store()) == stored


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's tracer
def test_guide_and_exact_draws_agree_with_nuts() -> None:
    """As many domains as a case has; fewer are held against integration."""
    domains, alike = 13, 1
    linear, precision = gaussian_evidence(domains, 0.05, alike=alike, seed=3)
    guide, signals = free_guide(domains), signals_of(domains)
    arguments = (signals, linear, 1.0, precision)
    with pyro.get_param_store().scope():
        pyro.set_rng_seed(0)
        kernel = NUTS(mixture_model, jit_compile=True, ignore_jit_warnings=True)
        mcmc = MCMC(kernel, num_samples=200, warmup_steps=100, disable_progbar=True)
        mcmc.run(*arguments)
    exact = mcmc.get_samples()["weights"]
    assert infer(guide, signals, linear, precision).settled
    q = guide.posterior(signals)
    # The guide alone is too narrow where domains are alike, and off by up to half a standard
    # deviation: normalised Gammas are hardly tied.
    apart = torch.arange(domains) >= 2 * alike
    torch.testing.assert_close(q.mean[apart], exact.mean(0)[apart], atol=0.02, rtol=0)
    ratio = q.stddev / exact.std(0)
    assert ((ratio > 0.6) & (ratio < 1.4))[apart].all()
    drawn = exact_draws(linear[None], precision[None])
    assert drawn.settled
    torch.testing.assert_close(drawn.weights[0].mean(0), exact.mean(0), atol=0.02, rtol=0)
    torch.testing.assert_close(drawn.weights[0].std(0), exact.std(0), atol=0, rtol=0.25)
