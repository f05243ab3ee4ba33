"""GammaDirichlet: moments, sampler against density, divergences, shapes; the sparse prior."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from itertools import pairwise

import pyro
import pytest
import torch
from pyro.distributions.testing.gof import auto_goodness_of_fit
from pyro.infer import JitTrace_ELBO
from scipy.integrate import quad
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence
from torch.func import grad, hessian, jacfwd, jacrev, vmap

from bydore_pyro.core.density import log_density
from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.sparse import SparseDirichlet

A = torch.tensor([0.3, 2.0, 0.9, 5.0], dtype=torch.float64)
B = torch.tensor([2.0, 0.5, 1.0, 3.0], dtype=torch.float64)
FLAT = Dirichlet(torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("domains", [2, 17, 1000])
def test_moments_agree_with_another_quadrature(domains: int) -> None:
    """SciPy's adaptive quadrature, for shapes and rates from 0.05 to 1e4."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.rand(2, domains, generator=generator, dtype=torch.float64)
    a, b = 0.05 * (1e4 / 0.05) ** spread
    q = GammaDirichlet(a, b)
    means, covariances = q.mean, q.covariance_matrix
    torch.testing.assert_close(covariances.diagonal(), q.variance)
    assert float(means.sum()) == pytest.approx(1, abs=1e-9)

    def integrate(factor: Callable[[Tensor], Tensor]) -> float:
        def integrand(log_t: float) -> float:
            t = torch.tensor(log_t, dtype=torch.float64).exp()
            return (factor(t) * torch.exp(-(a * torch.log1p(t / b)).sum()) * t).item()

        center = -math.log((a / b).sum())
        far = [center - 45, *(center + x for x in range(-12, 13, 3)), center + 45]
        return sum(quad(integrand, x, y, epsabs=1e-13, limit=200)[0] for x, y in pairwise(far))

    for k in (0, domains - 1):
        mean = integrate(lambda t, k=k: a[k] / (b[k] + t))
        assert means[k].item() == pytest.approx(mean, abs=1e-9)
        other = (k + 1) % domains
        second = integrate(
            lambda t, k=k, o=other: -torch.expm1(-t) * a[k] * a[o] / ((b[k] + t) * (b[o] + t))
        )
        covariance = second - mean * means[other].item()
        assert covariances[k, other].item() == pytest.approx(covariance, abs=1e-9)


@pytest.mark.parametrize("a", [1e-6, 1e-3, 0.05])
def test_moments_of_tiny_shapes(a: float) -> None:
    """Equal domains have mean 1 / K whatever the shape; as a -> 0 the weights go to one vertex."""
    q = GammaDirichlet(torch.full((3,), a, dtype=torch.float64), torch.ones(3))
    torch.testing.assert_close(q.mean, torch.full_like(q.mean, 1 / 3), atol=1e-9, rtol=0)
    assert (q.variance < 2 / 9 + 1e-9).all()
    if a < 1e-2:
        torch.testing.assert_close(q.variance, torch.full_like(q.mean, 2 / 9), atol=0.01, rtol=0)


def test_collapsed_gammas_give_a_dirichlet() -> None:
    torch.manual_seed(0)
    beta = torch.tensor([1.5, 2.0, 3.5], dtype=torch.float64)
    q, dirichlet = GammaDirichlet(1e7 * beta, torch.full_like(beta, 1e7)), Dirichlet(beta)
    torch.testing.assert_close(q.mean, dirichlet.mean, atol=1e-7, rtol=0)
    torch.testing.assert_close(q.variance, dirichlet.variance, atol=1e-6, rtol=0)


def test_gradients_of_moments() -> None:
    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    for moment in ("mean", "variance", "covariance_matrix"):
        assert torch.autograd.gradcheck(
            lambda a, b, m=moment: getattr(GammaDirichlet(a, b), m), (a, b)
        )


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


@pytest.mark.parametrize("a", [1e-3, 0.05, 1.0, 1e4])
def test_float32_samples_stay_on_the_simplex(a: float) -> None:
    torch.manual_seed(0)
    concentration, rate = torch.full((50,), a).requires_grad_(), torch.ones(50).requires_grad_()
    q = GammaDirichlet(concentration, rate)
    w = q.rsample((200,))
    assert w.dtype == torch.float32
    assert q.support.check(w).all()
    for gradient in torch.autograd.grad(w.square().sum(), (concentration, rate)):
        assert gradient.isfinite().all()


def test_shapes_dtypes_and_expand() -> None:
    q = GammaDirichlet(torch.ones(3, 1, 4), torch.ones(2, 4))
    assert (q.batch_shape, q.event_shape) == ((3, 2), (4,))
    w = q.rsample((5,))
    assert w.shape == (5, 3, 2, 4)
    assert q.mean.shape == q.variance.shape == (3, 2, 4)
    assert q.log_prob(w).shape == (5, 3, 2)
    assert q.log_prob(torch.full((4,), 0.25)).shape == (3, 2)
    wide = GammaDirichlet(A, B).expand(torch.Size((7, 6)))
    assert wide.batch_shape == (7, 6)
    torch.testing.assert_close(wide.mean[3, 2], GammaDirichlet(A, B).mean)
    integers = GammaDirichlet(torch.tensor([1, 2, 3]), torch.tensor(1))
    torch.testing.assert_close(integers.mean, torch.tensor([1.0, 2.0, 3.0]) / 6)
    assert integers.rsample().dtype == torch.float32
    for a, b in ((A.float(), B), (A, B.float())):
        mixed = GammaDirichlet(a, b)
        assert mixed.rsample().dtype == mixed.mean.dtype == torch.float64
        assert mixed.log_prob(torch.full((4,), 0.25)).dtype == torch.float64


@pytest.mark.parametrize(
    ("shape", "rate", "message"),
    [
        (1e300, 1.0, r"shapes in \[1e-100, 1e\+12\], actual 1e\+300"),
        (-1.0, 1.0, "concentration"),
        (1.0, 1e-300, "rates in .*, actual 1e-300"),
        (1e6, 1e-10, r"means \(shape / rate\) in \[0, 1e\+12\], actual 1e\+16"),
    ],
)
def test_bad_parameters_are_refused(shape: float, rate: float, message: str) -> None:
    a, b = A.clone(), B.clone()
    a[1], b[1] = shape, rate
    a.requires_grad_()
    with pytest.raises(ValueError, match=message):
        GammaDirichlet(a, b, validate_args=True)
    with pytest.raises(ValueError, match="K >= 2"):
        GammaDirichlet(torch.ones(1), torch.ones(1))
    with pytest.raises(ValueError, match="support"):
        GammaDirichlet(A, B, validate_args=True).log_prob(torch.full((4,), 0.5).double())


@pytest.mark.parametrize(("shape", "rate"), [(1e-100, 1e-100), (1e-100, 1e100), (1e12, 1.0)])
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
    near_a_face = torch.tensor([1e-40, 0.5, 0.25, 0.25])  # below the smallest normal number
    found = GammaDirichlet(A.float(), B.float()).log_prob(near_a_face)
    assert found.dtype == torch.float32
    assert found.isfinite()


def test_a_weight_of_exactly_zero_is_refused() -> None:
    """Unless nothing is validated, as in Pyro's NUTS, where it counts as the smallest number."""
    at_a_face = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.0, 0.5, 0.25, 0.25]])
    with pytest.raises(ValueError, match=r"weights > 0, actual 0.*leave the component out"):
        GammaDirichlet(A.float(), B.float()).log_prob(at_a_face)
    unchecked = GammaDirichlet(A.float(), B.float(), validate_args=False)
    smallest = at_a_face.clamp(min=1e8 * torch.finfo(torch.float32).tiny)
    assert torch.equal(unchecked.log_prob(at_a_face), unchecked.log_prob(smallest))


def test_second_derivatives_and_transforms() -> None:
    """Against differences, and torch.func against autograd; a third derivative is refused."""
    w = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    inputs = [x.clone().requires_grad_() for x in (w.log(), A, B)]
    assert torch.autograd.gradgradcheck(log_density, inputs, eps=1e-4, atol=1e-5)

    def density(a: Tensor) -> Tensor:
        return GammaDirichlet(a, B).log_prob(w)

    expected = torch.autograd.functional.hessian(density, A)
    for found in (hessian(density)(A), jacrev(jacrev(density))(A), jacrev(jacfwd(density))(A)):
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(vmap(density)(torch.stack([A, 2 * A]))[1], density(2 * A))
    slopes = vmap(grad(density))(torch.stack([A, 2 * A]))
    torch.testing.assert_close(slopes[0], jacfwd(density)(A))
    with pytest.raises(NotImplementedError, match="third derivative"):
        jacrev(hessian(density))(A)


def test_mode_entropy_and_divergence_of_a_dirichlet_and_of_others() -> None:
    torch.manual_seed(0)
    beta = torch.tensor([1.5, 2.0, 3.5], dtype=torch.float64)
    sharp, dirichlet = GammaDirichlet(1e7 * beta, torch.full_like(beta, 1e7)), Dirichlet(beta)
    torch.testing.assert_close(sharp.mode, dirichlet.mean, atol=1e-6, rtol=0)
    assert sharp.estimate_entropy(4000).item() == pytest.approx(
        dirichlet.entropy().item(), abs=0.08
    )
    prior = Dirichlet(torch.ones(3, dtype=torch.float64))
    found = sharp.estimate_kl(prior, 1000).item()
    assert found == pytest.approx(kl_divergence(dirichlet, prior).item(), abs=0.1)
    assert sharp.estimate_kl(SparseDirichlet.like(beta)).isfinite()
    other = GammaDirichlet(2e7 * beta, torch.full_like(beta, 1e7))
    found = sharp.estimate_kl(other, 1000).item()
    assert found == pytest.approx(kl_divergence(dirichlet, Dirichlet(2 * beta)).item(), abs=0.1)
    with pytest.raises(NotImplementedError):
        kl_divergence(sharp, prior)  # which is a number, and no estimate
    q = GammaDirichlet(A, B)
    logits = q.mode.log().requires_grad_()
    height = q.log_prob(logits.softmax(-1)) + logits.log_softmax(-1).sum()
    (slope,) = torch.autograd.grad(height, logits)
    assert slope.abs().max() < 1e-5, "no direction leads up"


def test_jit_and_pyros_gradient_of_the_mean() -> None:
    """What Pyro tests of its distributions: `torch.jit`, and densities of expanded batches."""
    q = GammaDirichlet(A, B)
    w = q.sample((2,))
    wide = q.expand(torch.Size((2,)))
    torch.testing.assert_close(wide.log_prob(w), q.log_prob(w))
    elbo = JitTrace_ELBO(ignore_jit_warnings=True)

    def model() -> None:
        pyro.sample("w", q)

    def guide() -> None:
        a = pyro.param("a", A + 1)
        pyro.sample("w", GammaDirichlet(a, B, validate_args=False))

    with pyro.get_param_store().scope(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert math.isfinite(elbo.loss_and_grads(model, guide))


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
        value = GammaDirichlet(a, b).estimate_kl(FLAT, 500)
        values.append(value.detach())
        gradients.append(torch.stack(torch.autograd.grad(value, (a, b))))
    for sample, expected in ((torch.stack(values), integral), (torch.stack(gradients), exact)):
        error = sample.std(0) / math.sqrt(len(sample))
        assert ((sample.mean(0) - expected).abs() < 5 * error).all()
    near = torch.stack([GammaDirichlet(2 * a, 4 * b).estimate_kl(FLAT) for _ in range(50)])
    assert near.min() < 0 < near.mean() + near.std(), "one draw has no sign"


def test_divergence_of_sparse_posteriors() -> None:
    """K = 2, a mean concentration of 3e-4: against a sum over the logit on a fine grid."""
    torch.manual_seed(0)
    a, b = torch.full((2,), 3.0).double(), torch.full((2,), 100.0).double()
    x = torch.sinh(torch.linspace(-14, 14, 2001, dtype=torch.float64))
    step = torch.gradient(x)[0]
    log_w = torch.stack([x, torch.zeros_like(x)], -1).log_softmax(-1)
    log_q = log_density(log_w, a, b)
    exact = ((log_q + log_w.sum(-1)).exp() * log_q * step).sum().item()
    q = GammaDirichlet(a, b)
    assert q.estimate_kl(FLAT, 5000).item() == pytest.approx(exact, rel=0.05)
    assert q.estimate_kl(FLAT, 1000, 0.1).item() < 0.5 * exact
    sparse = torch.full((17,), 0.05, requires_grad=True)
    value = GammaDirichlet(sparse, torch.ones(17)).estimate_kl(Dirichlet(torch.ones(17)), 8, 1e-3)
    value.backward()
    assert value.isfinite()
    assert sparse.grad.isfinite().all()


def test_moments_and_mode_under_vmap() -> None:
    """They are those of each row, though no value can say how many nodes are needed."""
    a, b = torch.stack([A, 3 * A, 0.2 * A]), torch.stack([B, B, 100 * B])
    each = [GammaDirichlet(*row) for row in zip(a, b, strict=True)]
    for name in ("mean", "variance", "covariance_matrix", "mode"):
        found = vmap(lambda a, b, name=name: getattr(GammaDirichlet(a, b), name))(a, b)
        expected = torch.stack([getattr(one, name) for one in each])
        torch.testing.assert_close(found, expected, atol=1e-6 if name == "mode" else 1e-12, rtol=0)


def test_what_was_drawn_has_its_exact_density_in_float32() -> None:
    """Weights of 1e-50 are no numbers in float32; their logs are, and the gradient is finite."""
    torch.manual_seed(0)
    a = torch.full((4,), 0.3, requires_grad=True)
    q = GammaDirichlet(a, torch.full((4,), 0.5))
    torch.manual_seed(1)
    log_w, _ = q.rsample_log(torch.Size((50,)))
    torch.manual_seed(1)
    w = q.rsample(torch.Size((50,)))
    assert (log_w < -100).any()
    expected = log_density(log_w.clamp(min=-1e6), q.concentration, q.rate)
    torch.testing.assert_close(q.log_prob(w), expected.float())
    assert not torch.allclose(q.log_prob(w.clone()), expected.float()), "another tensor is clamped"
    (1e6 * (q.log_prob(w) - Dirichlet(torch.full((4,), 0.3)).log_prob(w)).sum()).backward()
    assert a.grad is not None
    assert a.grad.isfinite().all()


def test_what_was_drawn_is_a_value_as_any_other() -> None:
    """It may be changed in place, and the density differentiated by it; its source is copied."""
    q = GammaDirichlet(A, B)
    w = q.sample()
    q.log_prob(w)
    w.copy_(w.flip(0))
    assert torch.equal(q.log_prob(w), q.log_prob(w.clone()))
    a = A.clone().requires_grad_()
    learned = GammaDirichlet(a, B)
    for one, w in ((q, q.sample().requires_grad_()), (learned, learned.rsample())):
        other = w.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(one.log_prob(w), w)
        (expected,) = torch.autograd.grad(one.log_prob(other), other)
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(copy.deepcopy(learned).mean, learned.mean)
    torch.testing.assert_close(pickle.loads(pickle.dumps(learned)).mean, learned.mean)
    with torch.inference_mode():
        assert q.log_prob(q.sample()).isfinite()
