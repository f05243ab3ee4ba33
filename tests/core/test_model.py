"""The prior against stock distributions; the expected evidence against samples' mean."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from pyro.distributions import Dirichlet
from pyro.infer import MCMC, NUTS
from torch.distributions import biject_to

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.model import CONCENTRATIONS, SparseDirichlet, expected_evidence, mixture_model

W = torch.tensor([[0.5, 0.3, 0.2], [0.98, 0.01, 0.01]], dtype=torch.float64)


def test_its_density_is_the_mean_of_the_dirichlets() -> None:
    prior = SparseDirichlet.like(W)
    assert prior.batch_shape == ()
    assert prior.event_shape == (3,)
    each = [Dirichlet(torch.full((3,), a).double()).log_prob(W).exp() for a in CONCENTRATIONS]
    expected = torch.stack(each).mean(0).log()
    torch.testing.assert_close(prior.log_prob(W), expected)
    torch.testing.assert_close(prior.log_prob_of_log(W.log()), expected)
    tiny = torch.tensor([0.0, -2000.0, -3000.0], dtype=torch.float64)
    assert prior.log_prob_of_log(tiny).isfinite()


def test_its_draws_have_its_moments_and_nuts_knows_its_support() -> None:
    pyro.set_rng_seed(0)
    prior = SparseDirichlet.like(W)
    drawn = prior.sample((40_000,))
    torch.testing.assert_close(drawn.mean(0), prior.mean, atol=0.01, rtol=0)
    torch.testing.assert_close(drawn.var(0), prior.variance, atol=0.01, rtol=0)
    there = biject_to(prior.support)
    torch.testing.assert_close(there(there.inv(W)), W)
    kernel = NUTS(mixture_model)
    mcmc = MCMC(kernel, num_samples=3, warmup_steps=3, disable_progbar=True)
    h = torch.ones(3, dtype=torch.float64)
    mcmc.run(h, h, 1.0, torch.eye(3, dtype=torch.float64))
    assert mcmc.get_samples()["weights"].shape == (3, 3)


@pytest.mark.parametrize("shape", [3.0, 40.0])
def test_the_divergence_to_it_against_stock_densities(shape: float) -> None:
    torch.manual_seed(0)
    a = shape * torch.tensor([4.0, 1.0, 0.8], dtype=torch.float64)
    q = GammaDirichlet(a.requires_grad_(), torch.full_like(a, 2.0))
    prior = SparseDirichlet.like(W[0])
    estimate = q.kl_to_sparse_dirichlet(prior, 20_000)
    drawn = q.sample((20_000,))
    expected = (q.log_prob(drawn) - prior.log_prob(drawn)).mean()
    assert estimate.item() == pytest.approx(expected.item(), abs=0.05)
    (slope,) = torch.autograd.grad(estimate, a)
    assert slope.isfinite().all()
    one = SparseDirichlet.like(W[0], (1.0,))
    flat = q.kl_to_dirichlet(torch.ones(3).double(), 20_000)
    sparse = q.kl_to_sparse_dirichlet(one, 20_000)
    assert sparse.item() == pytest.approx(flat.item(), abs=0.05)


H, PRECISION = gaussian_evidence(4, 0.2, alike=1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    pyro.set_rng_seed(0)


def test_expected_evidence_equals_its_mean_over_samples() -> None:
    scale = pyro.distributions.LogNormal(torch.tensor(0.1).double(), 0.2)
    a, b = torch.tensor([2.0, 0.7, 3.0, 1.0]).double(), torch.tensor([0.3, 1.0, 2.0, 0.1]).double()
    for q in (GammaDirichlet(a, b), torch.distributions.Dirichlet(a)):
        u = scale.sample((400_000,)).unsqueeze(-1) * q.sample((400_000,))
        first, second = u @ H, ((u @ PRECISION) * u).sum(-1) / 2
        for precision, values in ((PRECISION, first - second), (None, first)):
            error = float(values.std() / math.sqrt(len(values)))
            expected = expected_evidence(q, H, precision, scale)
            assert expected.item() == pytest.approx(values.mean().item(), abs=5 * error)
        with_curvature = expected_evidence(q, H, PRECISION) - expected_evidence(q, H)
        assert with_curvature < 0
    with pytest.raises(ValueError, match="covariance_matrix"):
        expected_evidence(torch.distributions.Exponential(a), H, PRECISION)
