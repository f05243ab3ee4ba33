"""The sparse prior against stock densities."""

from __future__ import annotations

import pyro
import pytest
import torch
from pyro.distributions import Categorical
from pyro.distributions import Dirichlet as PyroDirichlet
from torch.distributions import Dirichlet, biject_to
from torch.func import vmap

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.sparse import CONCENTRATIONS, SparseDirichlet

W = torch.tensor([[0.5, 0.3, 0.2], [0.98, 0.01, 0.01]], dtype=torch.float64)


def test_the_sparse_prior_is_a_mean_of_dirichlets() -> None:
    pyro.set_rng_seed(0)
    prior = SparseDirichlet.like(W)
    assert (prior.batch_shape, prior.event_shape) == ((), (3,))
    each = [Dirichlet(torch.full((3,), a).double()).log_prob(W).exp() for a in CONCENTRATIONS]
    expected = torch.stack(each).mean(0).log()
    torch.testing.assert_close(prior.log_prob(W), expected)
    torch.testing.assert_close(prior.log_prob_of_log(W.log()), expected)
    tiny = torch.tensor([0.0, -2000.0, -3000.0], dtype=torch.float64)
    assert prior.log_prob_of_log(tiny).isfinite()
    drawn = prior.sample((40_000,))
    torch.testing.assert_close(drawn.mean(0), prior.mean, atol=0.01, rtol=0)
    torch.testing.assert_close(drawn.var(0), prior.variance, atol=0.01, rtol=0)
    there = biject_to(prior.support)
    torch.testing.assert_close(there(there.inv(W)), W)


@pytest.mark.parametrize("shape", [3.0, 40.0])
def test_the_divergence_to_the_sparse_prior_against_stock_densities(shape: float) -> None:
    torch.manual_seed(0)
    a = shape * torch.tensor([4.0, 1.0, 0.8], dtype=torch.float64)
    q = GammaDirichlet(a.requires_grad_(), torch.full_like(a, 2.0))
    prior = SparseDirichlet.like(W[0])
    estimate = q.estimate_kl(prior, 6000)
    drawn = q.sample((6000,))
    expected = (q.log_prob(drawn) - prior.log_prob(drawn)).mean()
    assert estimate.item() == pytest.approx(expected.item(), abs=0.08)
    (slope,) = torch.autograd.grad(estimate, a)
    assert slope.isfinite().all()


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_method_with_a_batch_and_an_expanded_batch(
    batch: tuple[int, ...], dtype: torch.dtype
) -> None:
    """As Pyro's tests of distributions do; with K = 3 rows too, where a wrong product would fit."""
    torch.manual_seed(0)
    alpha = 0.2 + torch.rand(*batch, 5, 3, dtype=dtype)
    own = SparseDirichlet(Categorical(torch.ones_like(alpha[..., 0])), PyroDirichlet(alpha))
    wide = own.expand(torch.Size((4, *batch)))
    for prior, shape in ((own, batch), (wide, (4, *batch))):
        assert (prior.batch_shape, prior.event_shape) == (shape, (3,))
        w = prior.sample((7,))
        assert w.shape == (7, *shape, 3)
        assert prior.mean.shape == prior.variance.shape == (*shape, 3)
        each = Dirichlet(alpha.double()).log_prob(w.double().unsqueeze(-2))  # (7, ..., 5)
        expected = each.exp().mean(-1).log()
        torch.testing.assert_close(prior.log_prob_of_log(w.double().log()), expected)
        torch.testing.assert_close(prior.log_prob(w), expected.to(dtype), rtol=1e-4, atol=1e-4)
        q = GammaDirichlet(torch.full((3,), 4.0, dtype=dtype), torch.ones(3, dtype=dtype))
        found = q.expand(torch.Size(shape)).estimate_kl(prior, 8)
        assert found.shape == shape
        assert found.isfinite().all()
    rows = W[0].log().expand(6, *batch, 3)
    torch.testing.assert_close(vmap(own.log_prob_of_log)(rows), own.log_prob_of_log(rows))
