"""GammaDirichlet: moments against sampling and known cases, the sampler's range, the KL bound."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Beta, Dirichlet, kl_divergence

from bydore_pyro.distribution import GammaDirichlet

A = torch.tensor([0.3, 2.0, 0.9, 5.0], dtype=torch.float64)
B = torch.tensor([2.0, 0.5, 1.0, 3.0], dtype=torch.float64)


def test_mean_and_variance_agree_with_samples() -> None:
    torch.manual_seed(0)
    q = GammaDirichlet(A, B)
    w = q.sample((400_000,))
    error = w.std(0) / math.sqrt(len(w))
    assert ((w.mean(0) - q.mean).abs() < 5 * error).all()
    squared = (w - q.mean).square()
    error = squared.std(0) / math.sqrt(len(w))
    assert ((squared.mean(0) - q.variance).abs() < 5 * error).all()


@pytest.mark.parametrize("scale", [0.05, 1.0, 100.0, 1e4])
def test_mean_sums_to_one(scale: float) -> None:
    q = GammaDirichlet(scale * A, B)
    torch.testing.assert_close(
        q.mean.sum(), torch.ones((), dtype=torch.float64), atol=1e-10, rtol=0
    )


def test_ratio_is_exact_where_rates_are_equal_and_only_there() -> None:
    equal = GammaDirichlet(A, torch.full_like(A, 0.7))
    torch.testing.assert_close(equal.mean, equal.mean_ratio, atol=1e-12, rtol=0)
    torch.testing.assert_close(equal.mean_ratio, A / A.sum(), atol=1e-12, rtol=0)
    unequal = GammaDirichlet(A, B)
    assert (unequal.mean - unequal.mean_ratio).abs().max() > 0.01


def test_collapsed_gammas_give_a_dirichlet() -> None:
    beta = torch.tensor([0.5, 2.0, 3.5], dtype=torch.float64)
    q = GammaDirichlet(1e7 * beta, torch.full_like(beta, 1e7))
    dirichlet = Dirichlet(beta)
    torch.testing.assert_close(q.mean, dirichlet.mean, atol=1e-7, rtol=0)
    torch.testing.assert_close(q.variance, dirichlet.variance, atol=1e-6, rtol=0)


def test_mean_has_the_right_gradient() -> None:
    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: GammaDirichlet(a, b).mean, (a, b))
    assert torch.autograd.gradcheck(lambda a, b: GammaDirichlet(a, b).variance, (a, b))


def test_samples_carry_the_gradient_of_the_mean() -> None:
    torch.manual_seed(0)
    g = torch.tensor([1.0, -0.5, 0.2, 0.7], dtype=torch.float64)
    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    exact = torch.autograd.grad((g * GammaDirichlet(a, b).mean).sum(), (a, b))
    draws = []
    for _ in range(40):
        value = (g * GammaDirichlet(a, b).rsample((5000,))).sum(-1).mean()
        draws.append(torch.stack(torch.autograd.grad(value, (a, b))))
    sampled = torch.stack(draws)
    error = sampled.std(0) / math.sqrt(len(draws))
    assert ((sampled.mean(0) - torch.stack(exact)).abs() < 5 * error).all()


@pytest.mark.parametrize("a", [1e-3, 0.05, 1.0, 1e4])
def test_float32_samples_stay_on_the_simplex(a: float) -> None:
    torch.manual_seed(0)
    concentration, rate = torch.full((50,), a).requires_grad_(), torch.ones(50).requires_grad_()
    q = GammaDirichlet(concentration, rate)
    w = q.rsample((200,))
    assert w.dtype == torch.float32
    assert q.support.check(w).all()
    w.square().sum().backward()
    assert concentration.grad is not None
    assert rate.grad is not None
    assert torch.isfinite(concentration.grad).all()
    assert torch.isfinite(rate.grad).all()


def test_shapes_and_expand() -> None:
    q = GammaDirichlet(torch.ones(3, 1, 4), torch.ones(2, 4))
    assert q.batch_shape == (3, 2)
    assert q.event_shape == (4,)
    assert q.rsample((5,)).shape == (5, 3, 2, 4)
    assert q.mean.shape == q.variance.shape == (3, 2, 4)
    wide = GammaDirichlet(A, B).expand(torch.Size((7, 6)))
    assert wide.batch_shape == (7, 6)
    torch.testing.assert_close(wide.mean[3, 2], GammaDirichlet(A, B).mean)


def test_permutation_equivariance() -> None:
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(
        GammaDirichlet(A[order], B[order]).mean, GammaDirichlet(A, B).mean[order]
    )


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="K >= 2"):
        GammaDirichlet(torch.ones(1), torch.ones(1))
    with pytest.raises(ValueError, match="K >= 2"):
        GammaDirichlet(torch.tensor(1.0), torch.tensor(1.0))
    with pytest.raises(ValueError, match="concentration"):
        GammaDirichlet(torch.tensor([1.0, -1.0]), torch.ones(2), validate_args=True)
    with pytest.raises(ValueError, match="num_samples"):
        GammaDirichlet(A, B).kl_bound_to_dirichlet(torch.ones(4), 0)


def test_density_is_not_pretended() -> None:
    with pytest.raises(NotImplementedError):
        GammaDirichlet(A, B).log_prob(torch.full((4,), 0.25))


def test_bound_is_tight_for_collapsed_gammas() -> None:
    torch.manual_seed(0)
    beta = torch.tensor([0.5, 2.0, 3.5], dtype=torch.float64)
    alpha = torch.tensor([1.0, 1.5, 0.7], dtype=torch.float64)
    q = GammaDirichlet(1e8 * beta, torch.full_like(beta, 1e8))
    exact = kl_divergence(Dirichlet(beta), Dirichlet(alpha))
    torch.testing.assert_close(q.kl_bound_to_dirichlet(alpha, 4), exact, atol=1e-3, rtol=0)


def test_divergence_at_the_mean_is_that_of_the_dirichlet() -> None:
    alpha = torch.tensor([1.0, 1.5, 0.7, 1.0], dtype=torch.float64)
    exact = kl_divergence(Dirichlet(A / B), Dirichlet(alpha))
    torch.testing.assert_close(GammaDirichlet(A, B).kl_at_mean_to_dirichlet(alpha), exact)
    batched = GammaDirichlet(A.expand(3, 4), B).kl_at_mean_to_dirichlet(alpha)
    torch.testing.assert_close(batched, exact.expand(3))


def test_bound_lies_above_the_divergence() -> None:
    torch.manual_seed(0)
    a, b = torch.tensor([3.0, 6.0]).double(), torch.tensor([1.0, 2.0]).double()
    q = GammaDirichlet(a, b)
    # K = 2: the density of w_1 is an average of Beta densities; the divergence from the uniform
    # distribution is a one-dimensional integral.
    _, log_beta = q.rsample_log(torch.Size((4000,)))
    w = (torch.arange(500, dtype=torch.float64) + 0.5) / 500
    beta = log_beta.exp()
    density = torch.stack([Beta(beta[:, 0], beta[:, 1]).log_prob(x).exp().mean() for x in w])
    exact = (density * density.log()).mean()
    bound = q.kl_bound_to_dirichlet(torch.ones(2), 20_000)
    assert bound > exact + 0.01
    assert exact > 0
