"""The one mixture, against a general optimiser, a grid and many other mixtures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from scipy.optimize import minimize
from torch import Tensor
from torch.distributions import Dirichlet

from bydore_pyro.core.matching import Matching
from bydore_pyro.core.point import (
    central_weights,
    most_likely_weights,
    run_mixture,
)
from bydore_pyro.core.quadratic import least, square_root
from bydore_pyro.mixture.repetition import effective_shares


@pytest.mark.parametrize("concentration", [0.05, 0.5, 1.0, 20.0])
def test_all_weights_lie_at_one_quantile_and_sum_to_1(concentration: float) -> None:
    torch.manual_seed(0)
    alpha = concentration * torch.tensor([8.0, 3.0, 1.0, 1.0, 0.2], dtype=torch.float64)
    draws = Dirichlet(alpha).sample((4000,))
    weights = central_weights(draws)
    assert float(weights.sum()) == pytest.approx(1, abs=1e-12)
    below = (draws < weights - 1e-12).double().mean(0)
    not_above = (draws <= weights + 1e-12).double().mean(0)
    assert float(below.max()) <= float(not_above.min()) + 2 / 4000, "one quantile is in all"
    assert float(not_above.min()) > 0.06
    assert float(below.max()) < 0.94, "so a 94 % interval holds it"


def test_of_two_domains_they_are_the_medians_and_a_rare_domain_has_nothing() -> None:
    torch.manual_seed(0)
    first = torch.rand(4001, dtype=torch.float64)
    weights = central_weights(torch.stack([first, 1 - first], 1))
    torch.testing.assert_close(weights[0], first.median(), atol=1e-3, rtol=0)
    rare = torch.tensor([[1.0, 0.0, 0.0]] * 60 + [[0.5, 0.5, 0.0]] * 40, dtype=torch.float64)
    torch.testing.assert_close(central_weights(rare), torch.eye(3).double()[0])
    same = torch.tensor([[0.25, 0.75]] * 2, dtype=torch.float64)
    torch.testing.assert_close(central_weights(same), same[0])


PLANTED = torch.tensor([[0.5, 0.0, 0.3, 0.2]], dtype=torch.float64)


@pytest.fixture
def gram() -> Tensor:
    """Products of four domains' mean gradients, of unlike lengths."""
    rng = torch.Generator().manual_seed(0)
    lengths = torch.tensor([1.0, 3.0, 0.5, 2.0], dtype=torch.float64)[:, None]
    means = lengths * torch.randn(4, 30, generator=rng, dtype=torch.float64) + 1.0
    return means @ means.T


def matching_of(gram: Tensor, left: Tensor | None = None, noise: float = 1.0) -> Matching:
    """Evidence whose optimum is the planted mixture, at a scale of 0.8."""
    optimum, covariance = 0.8 * PLANTED[0], noise * torch.eye(4, dtype=torch.float64)
    cross = gram @ optimum + (0 if left is None else left)
    precision = gram @ gram / noise
    return Matching(
        gram=gram,
        cross=cross,
        covariance=covariance,
        linear=gram @ cross / noise,
        precision=precision,
        optimum=optimum,
        target=1.0,
    )


def shorter_step(gram: Tensor, weights: Tensor, length: float) -> Tensor:
    """Where the domains cover the target, whatever the scale."""
    scale = torch.full((len(weights),), 0.8, dtype=torch.float64)
    return run_mixture(matching_of(gram), weights, scale, length)


def by_scipy(loss: Callable[[np.ndarray], float]) -> np.ndarray:
    """The mixture of four domains whose loss is least."""
    one = {"type": "eq", "fun": lambda x: x.sum() - 1}
    start, options = np.full(4, 0.25), {"ftol": 1e-14, "maxiter": 1000}
    bounds = [(0, 1)] * 4
    return minimize(loss, start, bounds=bounds, constraints=one, method="SLSQP", options=options).x


@pytest.mark.parametrize("length", [0.7, 0.5, 0.25])
def test_no_other_optimiser_finds_a_better_mixture(gram: Tensor, length: float) -> None:
    def loss(x: np.ndarray) -> float:
        left = PLANTED[0] - length * torch.from_numpy(x)
        return float(left @ gram @ left)

    other = by_scipy(loss)
    mine = shorter_step(gram, PLANTED, length)[0]
    assert float(mine.sum()) == pytest.approx(1)
    np.testing.assert_allclose(mine.numpy(), other, atol=1e-4)


def test_a_whole_step_is_the_match_and_a_tiny_one_the_best_domain(gram: Tensor) -> None:
    torch.testing.assert_close(shorter_step(gram, PLANTED, 1.0), PLANTED)
    almost = shorter_step(gram, PLANTED, 1 - 1e-9)
    torch.testing.assert_close(almost, PLANTED, atol=1e-6, rtol=0)
    best = int((gram @ PLANTED[0]).argmax())
    tiny = shorter_step(gram, PLANTED, 1e-3)[0]
    torch.testing.assert_close(tiny, torch.eye(4).double()[best], atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match=r"Expected a length in \(0, 1\], actual"):
        shorter_step(gram, PLANTED, 1.5)


def test_a_gram_of_few_noisy_gradients_counts_as_positive(gram: Tensor) -> None:
    """It is unbiased, so it may have negative eigenvalues; the mixture is that without them."""
    values, vectors = torch.linalg.eigh(gram)
    found = []
    for lowest in (0.0, -0.05 * float(values[-1])):
        values[0] = lowest
        found.append(shorter_step((vectors * values) @ vectors.T, PLANTED, 0.5))
    torch.testing.assert_close(*found, atol=1e-6, rtol=0)


def test_what_no_mixture_explains_counts_as_far_as_it_is_not_noise(gram: Tensor) -> None:
    """Without noise the loss's own optimum is found, whatever the metric of the evidence; of noise
    alone nothing is left, and the weights stay those of the composition."""
    left = torch.tensor([3.0, -2.0, 1.0, -4.0], dtype=torch.float64)
    scale = torch.tensor([0.8], dtype=torch.float64)
    sure = matching_of(gram, left, noise=1e-9)
    torch.testing.assert_close(sure.residual, left, rtol=1e-6, atol=0)

    def loss(x: np.ndarray) -> float:
        u = 0.8 * torch.from_numpy(x)
        return float(u @ gram @ u / 2 - sure.cross @ u)

    other = by_scipy(loss)
    found = run_mixture(sure, PLANTED, scale)[0]
    np.testing.assert_allclose(found.numpy(), other, atol=1e-4)
    assert float((found - PLANTED[0]).abs().max()) > 0.02
    noise = matching_of(gram, left, noise=float(left @ left) / 3.9)  # chi^2 of 3.9 of 4 domains
    assert not noise.residual.any()
    assert torch.equal(run_mixture(noise, PLANTED, scale), PLANTED)
    half = matching_of(gram, left, noise=float(left @ left) / 8)
    torch.testing.assert_close(half.residual, left / 2)


@pytest.mark.parametrize(
    ("times", "constant"), [(0.05, 1.0), (3.0, 1.0), (60.0, 0.3), (60.0, 15.0)]
)
def test_no_other_optimiser_finds_better_ones(times: float, constant: float) -> None:
    linear, precision = gaussian_evidence(6, 0.03, alike=2, seed=1)
    optimum = least(square_root(precision), linear)
    rates = times * torch.tensor([0.3, 3.0, 1.0, 0.5, 2.0, 1.0], dtype=torch.float64)

    def effective(weights: Tensor) -> Tensor:
        return optimum.sum() * effective_shares(weights, rates, constant)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.from_numpy(x).requires_grad_()
        shares = effective(at)
        found = shares @ precision @ shares / 2 - linear @ shares
        (slope,) = torch.autograd.grad(found, at)
        return found.item(), slope.numpy()

    mine = most_likely_weights(linear, precision, effective)
    assert float(mine.sum()) == pytest.approx(1, abs=1e-12)
    assert (mine >= 0).all()
    others = []
    for seed in range(3):
        start = np.random.default_rng(seed).dirichlet(np.ones(6))
        one = {"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like}
        found = minimize(
            loss,
            start,
            jac=True,
            bounds=[(0, 1)] * 6,
            constraints=one,
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-13},
        )
        others.append(loss(found.x)[0])
    assert loss(mine.numpy())[0] <= min(others) + 1e-6 * abs(min(others))
    if times < 1:  # no text is read twice at the optimum
        torch.testing.assert_close(mine, optimum / optimum.sum(), atol=1e-8, rtol=0)


def test_text_that_is_all_known_by_heart_gives_some_mixture() -> None:
    linear, precision = gaussian_evidence(4, 0.03)
    found = most_likely_weights(linear, precision, lambda w: effective_shares(w, 1e12, 1.0))
    assert float(found.sum()) == pytest.approx(1)
