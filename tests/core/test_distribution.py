"""GammaDirichlet: moments, sampler against density, divergences, shapes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from pyro.distributions.testing.gof import auto_goodness_of_fit
from torch import Tensor
from torch.distributions import Beta, Dirichlet, kl_divergence
from torch.func import grad, jacfwd, jacrev, jvp, vmap

from bydore_pyro.core.density import log_density
from bydore_pyro.core.distribution import GammaDirichlet

A = torch.tensor([0.3, 2.0, 0.9, 5.0], dtype=torch.float64)
B = torch.tensor([2.0, 0.5, 1.0, 3.0], dtype=torch.float64)


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


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="K >= 2"):
        GammaDirichlet(torch.ones(1), torch.ones(1))
    with pytest.raises(ValueError, match="K >= 2"):
        GammaDirichlet(torch.tensor(1.0), torch.tensor(1.0))
    with pytest.raises(ValueError, match="concentration"):
        GammaDirichlet(torch.tensor([1.0, -1.0]), torch.ones(2), validate_args=True)
    q = GammaDirichlet(A, B)
    for divergence in (q.kl_to_dirichlet, q.kl_bound_to_dirichlet):
        with pytest.raises(ValueError, match="num_samples"):
            divergence(torch.ones(4), 0)


def test_sampler_and_density_agree() -> None:
    """Pyro's goodness of fit, over one and two dimensions."""
    torch.manual_seed(0)
    pair = GammaDirichlet(torch.tensor([3.0, 5.0]).double(), torch.tensor([1.5, 1.0]).double())
    w = pair.sample((10_000,))
    # The logit has a density that is bounded, which the test's equal bins ask for.
    logit = (w[:, 0] / w[:, 1]).log()
    density = (pair.log_prob(w) + w.log().sum(-1)).exp()
    assert auto_goodness_of_fit(logit, density) > 1e-3
    wrong = GammaDirichlet(pair.concentration.flip(0), pair.rate)
    wrong_density = (wrong.log_prob(w) + w.log().sum(-1)).exp()
    assert auto_goodness_of_fit(logit, wrong_density) < 1e-6  # the test has power
    triple = GammaDirichlet(2 * A[1:] + 2, B[1:])
    w = triple.sample((4000,))
    logits = (w[:, :2] / w[:, 2:]).log()
    density = (triple.log_prob(w) + w.log().sum(-1)).exp()
    assert auto_goodness_of_fit(logits, density) > 1e-3


def test_covariance_agrees_with_samples_and_variance() -> None:
    torch.manual_seed(0)
    q = GammaDirichlet(A, B)
    w = q.sample((400_000,)) - q.mean
    products = w.unsqueeze(-1) * w.unsqueeze(-2)
    error = products.std(0) / math.sqrt(len(w))
    assert ((products.mean(0) - q.covariance_matrix).abs() < 5 * error).all()
    torch.testing.assert_close(q.covariance_matrix.diagonal(), q.variance)
    torch.testing.assert_close(
        q.covariance_matrix.sum(-1), torch.zeros(4, dtype=torch.float64), atol=1e-9, rtol=0
    )


def test_log_prob_has_the_distributions_shapes() -> None:
    q = GammaDirichlet(torch.ones(3, 1, 4), torch.ones(2, 4))
    w = q.sample((5,))
    assert q.log_prob(w).shape == (5, 3, 2)
    assert q.log_prob(torch.full((4,), 0.25)).shape == (3, 2)
    shapes = GammaDirichlet.infer_shapes(concentration=torch.Size((3, 1, 4)), rate=torch.Size((4,)))
    assert shapes == (torch.Size((3, 1)), torch.Size((4,)))
    assert GammaDirichlet.infer_shapes(torch.Size((3, 1, 4)), torch.Size((2, 4)))[0] == (3, 2)
    fixed = GammaDirichlet(A, B, num_nodes=(60, 90)).expand(torch.Size((2,)))
    w = torch.full((4,), 0.25, dtype=torch.float64)
    torch.testing.assert_close(fixed.log_prob(w), GammaDirichlet(A, B).log_prob(w).expand(2))


def test_values_off_the_simplex_are_refused() -> None:
    q = GammaDirichlet(A, B, validate_args=True)
    with pytest.raises(ValueError, match="support"):
        q.log_prob(torch.tensor([0.5, 0.5, 0.5, 0.5], dtype=torch.float64))
    for nodes in ((4, 100), (40,), 40, (40.5, 60.5)):
        with pytest.raises(ValueError, match="num_nodes"):
            GammaDirichlet(A, B, num_nodes=nodes)  # type: ignore[arg-type]
    for divergence in (q.kl_to_dirichlet, q.kl_bound_to_dirichlet):
        with pytest.raises(ValueError, match="alpha > 0"):
            divergence(torch.zeros(4))
        with pytest.raises(ValueError, match="num_samples"):
            divergence(torch.ones(4), 0)


def test_log_prob_of_a_zero_weight_is_finite_in_float32() -> None:
    q = GammaDirichlet(A.float(), B.float())
    w = torch.tensor([0.0, 0.5, 0.25, 0.25], requires_grad=True)
    value = q.log_prob(w)
    assert value.dtype == torch.float32
    assert torch.isfinite(value)


def test_divergence_is_that_of_the_dirichlets_for_collapsed_gammas() -> None:
    torch.manual_seed(0)
    beta = torch.tensor([1.5, 2.0, 3.5], dtype=torch.float64)
    alpha = torch.tensor([1.0, 1.5, 0.7], dtype=torch.float64)
    q = GammaDirichlet(1e7 * beta, torch.full_like(beta, 1e7))
    exact = kl_divergence(Dirichlet(beta), Dirichlet(alpha)).item()
    assert q.kl_to_dirichlet(alpha, 5000).item() == pytest.approx(exact, abs=0.04)


def test_divergence_and_its_gradient_agree_with_an_integral() -> None:
    """K = 2: the divergence from the uniform distribution by a sum over the logit."""
    torch.manual_seed(0)
    a = torch.tensor([4.0, 6.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    x = torch.linspace(-40, 40, 3001, dtype=torch.float64)
    log_w = torch.stack([x, torch.zeros_like(x)], -1).log_softmax(-1)
    log_q = log_density(log_w, a, b)
    integral = ((log_q + log_w.sum(-1)).exp() * log_q).sum() * (x[1] - x[0])
    exact = torch.stack(torch.autograd.grad(integral, (a, b)))
    values, gradients = [], []
    for _ in range(40):
        value = GammaDirichlet(a, b).kl_to_dirichlet(torch.ones(2), 500)
        values.append(value.detach())
        gradients.append(torch.stack(torch.autograd.grad(value, (a, b))))
    for sample, expected in ((torch.stack(values), integral), (torch.stack(gradients), exact)):
        error = sample.std(0) / math.sqrt(len(sample))
        assert ((sample.mean(0) - expected).abs() < 5 * error).all()


def test_divergence_of_sparse_posteriors_stays_finite() -> None:
    torch.manual_seed(0)
    a = torch.full((17,), 0.05, requires_grad=True)
    value = GammaDirichlet(a, torch.ones(17)).kl_to_dirichlet(torch.ones(17), 8, 1e-3)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(a.grad).all()


def test_bound_is_tight_for_collapsed_gammas() -> None:
    torch.manual_seed(0)
    beta = torch.tensor([0.5, 2.0, 3.5], dtype=torch.float64)
    alpha = torch.tensor([1.0, 1.5, 0.7], dtype=torch.float64)
    q = GammaDirichlet(1e8 * beta, torch.full_like(beta, 1e8))
    exact = kl_divergence(Dirichlet(beta), Dirichlet(alpha))
    torch.testing.assert_close(q.kl_bound_to_dirichlet(alpha, 4), exact, atol=1e-3, rtol=0)


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


def test_integers_and_mixed_dtypes_are_promoted() -> None:
    q = GammaDirichlet(torch.tensor([1, 2, 3]), torch.tensor(1))
    torch.testing.assert_close(q.mean, torch.tensor([1.0, 2.0, 3.0]) / 6)
    assert q.rsample().dtype == torch.float32
    for a, b in ((A.float(), B), (A, B.float())):
        mixed = GammaDirichlet(a, b)
        assert mixed.rsample().dtype == mixed.mean.dtype == torch.float64
        assert mixed.log_prob(torch.full((4,), 0.25)).dtype == torch.float64


def test_empty_samples_and_nan_come_out_as_they_went_in() -> None:
    q = GammaDirichlet(A, B)
    assert q.log_prob(q.sample((0,))).shape == (0,)
    nan = GammaDirichlet(torch.full((4,), math.nan), B, validate_args=False)
    assert nan.mean.isnan().all()
    assert nan.log_prob(torch.full((4,), 0.25)).isnan()


def test_divergence_of_rates_far_from_one() -> None:
    """K = 2, a mean concentration of 3e-4: against a sum over the logit on a fine grid."""
    torch.manual_seed(0)
    a, b = torch.full((2,), 3.0).double(), torch.full((2,), 100.0).double()
    x = torch.sinh(torch.linspace(-14, 14, 2001, dtype=torch.float64))
    step = torch.gradient(x)[0]
    log_w = torch.stack([x, torch.zeros_like(x)], -1).log_softmax(-1)
    log_q = log_density(log_w, a, b)
    exact = ((log_q + log_w.sum(-1)).exp() * log_q * step).sum().item()
    q = GammaDirichlet(a, b)
    assert q.kl_to_dirichlet(torch.ones(2), 5000).item() == pytest.approx(exact, rel=0.05)
    assert q.kl_to_dirichlet(torch.ones(2), 1000, 0.1).item() < 0.5 * exact
    assert q.kl_bound_to_dirichlet(torch.ones(2), 200_000).item() > exact


def test_there_is_no_second_derivative() -> None:
    a = A.clone().requires_grad_()
    value = GammaDirichlet(a, B).log_prob(torch.full((4,), 0.25, dtype=torch.float64))
    (first,) = torch.autograd.grad(value, a, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.autograd.grad(first.sum(), a)
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.func.hessian(lambda x: GammaDirichlet(x, B).log_prob(torch.full_like(x, 0.25)))(A)


WS = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 1e-9, 0.3, 0.3 - 1e-9]], dtype=torch.float64)


def by_autograd(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(function(*leaves).sum(), leaves)


@pytest.mark.parametrize("validate", [True, False])
def test_functional_transforms_of_the_density_agree_with_autograd(validate: bool) -> None:
    def density(w: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return GammaDirichlet(a, b, validate_args=validate).log_prob(w)

    inputs = (WS, torch.stack([A, A.flip(0)]), torch.stack([B, 3 * B]))
    value, gradients = density(*inputs), by_autograd(density, *inputs)
    torch.testing.assert_close(vmap(density)(*inputs), value, atol=1e-9, rtol=0)
    torch.testing.assert_close(vmap(density, (0, None, None))(WS, A, B), density(WS, A, B))
    mapped = vmap(grad(density, (0, 1, 2)))(*inputs)
    for found, expected in zip(mapped, gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=1e-9)
    if validate:  # off the simplex there is no density, a check would say
        return
    tangents = tuple(torch.rand_like(x) for x in inputs)
    along = sum((g * t).sum(-1) for g, t in zip(gradients, tangents, strict=True))
    torch.testing.assert_close(jvp(density, inputs, tangents)[1], along)
    jacobians = jacrev(density, 1)(*inputs), jacfwd(density, 1)(*inputs)
    torch.testing.assert_close(*jacobians)
    torch.testing.assert_close(torch.stack([jacobians[0][i, i] for i in range(2)]), gradients[1])


@pytest.mark.parametrize("moment", ["mean", "variance", "covariance_matrix"])
def test_functional_transforms_of_the_moments_agree_with_autograd(moment: str) -> None:
    def moment_of(a: Tensor, b: Tensor) -> Tensor:
        return getattr(GammaDirichlet(a, b), moment)

    def weighed(a: Tensor, b: Tensor) -> Tensor:
        found = moment_of(a, b)
        return (found * torch.arange(found[0].numel()).reshape(found.shape[1:])).sum()

    inputs = torch.stack([A, 50 * A]), torch.stack([B, 20 * B])
    torch.testing.assert_close(vmap(moment_of)(*inputs), moment_of(*inputs))
    expected = by_autograd(weighed, *inputs)
    for found, of_autograd in zip(grad(weighed, (0, 1))(*inputs), expected, strict=True):
        torch.testing.assert_close(found, of_autograd)
    tangents = tuple(torch.rand_like(x) for x in inputs)
    along = sum((g * t).sum() for g, t in zip(expected, tangents, strict=True))
    torch.testing.assert_close(jvp(weighed, inputs, tangents)[1], along)


def test_an_empty_batch_has_empty_results() -> None:
    q = GammaDirichlet(torch.ones(0, 3), torch.ones(3))
    assert q.batch_shape == (0,)
    assert q.mean.shape == q.variance.shape == q.mean_ratio.shape == (0, 3)
    assert q.covariance_matrix.shape == (0, 3, 3)
    assert q.rsample((2,)).shape == (2, 0, 3)
    assert q.log_prob(torch.full((0, 3), 1 / 3)).shape == (0,)
    assert q.kl_to_dirichlet(torch.ones(3)).shape == (0,)
    assert q.kl_bound_to_dirichlet(torch.ones(3)).shape == (0,)
    with pytest.raises(ValueError, match="K >= 2"):
        GammaDirichlet(torch.ones(3, 0), torch.ones(3, 0))


@pytest.mark.parametrize(
    ("shape", "rate", "message"),
    [
        (1e300, 1.0, r"shapes in \[1e-100, 1e\+12\], actual 1e\+300"),
        (1e-300, 1.0, "shapes in .*, actual 1e-300"),
        (math.inf, 1.0, "shapes in .*, actual inf"),
        (1.0, 1e300, r"rates in \[1e-100, 1e\+100\], actual 1e\+300"),
        (1.0, 1e-300, "rates in .*, actual 1e-300"),
        (1e6, 1e-10, r"means \(shape / rate\) in \[0, 1e\+12\], actual 1e\+16"),
    ],
)
def test_parameters_beyond_the_arithmetic_are_refused(
    shape: float, rate: float, message: str
) -> None:
    a, b = A.clone(), B.clone()
    a[1], b[1] = shape, rate
    with pytest.raises(ValueError, match=message):
        GammaDirichlet(a, b)


@pytest.mark.parametrize(
    ("shape", "rate"),
    [
        (1e-100, 1e-100),
        (1e-100, 1e100),
        (1e-10, 1.0),
        (1.0, 1e-12),
        (1.0, 1e100),
        (1e12, 1.0),
        (1e12, 1e100),
    ],
)
def test_everything_is_finite_up_to_the_ends_of_the_range(shape: float, rate: float) -> None:
    a, b = (x.clone().requires_grad_() for x in (A, B))
    with torch.no_grad():
        a[1], b[1] = shape, rate
    q = GammaDirichlet(a, b)
    near = torch.tensor([0.5, 1e-300, 0.2, 0.3], dtype=torch.float64)
    for value in (q.mean, q.variance, q.rsample((5,)), q.log_prob(near), q.log_prob(q.sample())):
        assert value.isfinite().all()
        for gradient in torch.autograd.grad(value.square().sum(), (a, b)):
            assert gradient.isfinite().all()


def test_log_prob_has_the_right_gradient_in_the_value() -> None:
    w = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64, requires_grad=True)
    q = GammaDirichlet(A, B, validate_args=False)
    assert torch.autograd.gradcheck(q.log_prob, (w,), eps=1e-6)


def test_the_bound_has_a_sign_and_the_estimate_near_the_prior_has_none() -> None:
    q, alpha = GammaDirichlet(torch.full((3,), 6.0), torch.full((3,), 3.0)), torch.full((3,), 2.0)
    estimates = torch.stack([q.kl_to_dirichlet(alpha) for _ in range(50)])
    assert estimates.min() < 0 < estimates.mean() + estimates.std()
    assert all(q.kl_bound_to_dirichlet(alpha) > 0 for _ in range(50))
