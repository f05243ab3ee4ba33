"""Quadratic problems with signs: closed forms, conditions of the optimum, a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from scipy.optimize import minimize
from torch import Tensor

from bydore_pyro.core.quadratic import least, least_on_simplex, most_likely_weights
from bydore_pyro.mixture.repetition import effective_shares


def problem(size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    root = torch.randn(size, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return root @ root.T / 12, torch.linspace(0.2, 0.6, size, dtype=torch.float64)


def test_the_least_value_by_numbers_of_one_sign() -> None:
    matrix, vector = problem()
    found = least(matrix, vector)
    slope = matrix @ found - vector
    assert (found >= 0).all()
    assert (slope > -1e-9).all()
    assert float((slope * found).abs().max()) < 1e-9
    inside = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(least(matrix[:3, :3], matrix[:3, :3] @ inside), inside)


def test_the_least_value_on_the_simplex() -> None:
    """At the optimum the slope is one number where there is weight, and no less elsewhere."""
    matrix, vector = problem()
    found = least_on_simplex(matrix, vector)
    slope = matrix @ found - vector
    level = float(slope[found > 0].mean())
    assert abs(float(found.sum()) - 1) < 1e-12
    assert 0 < int((found == 0).sum()) < 5
    torch.testing.assert_close(slope[found > 0], torch.full_like(slope[found > 0], level))
    assert (slope > level - 1e-9).all()


@pytest.mark.parametrize(
    ("times", "constant"), [(0.05, 1.0), (3.0, 1.0), (60.0, 0.3), (60.0, 15.0)]
)
def test_no_other_optimiser_finds_better_ones(times: float, constant: float) -> None:
    linear, precision = gaussian_evidence(6, 0.03, alike=2, seed=1)
    optimum = least(precision, linear)
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
            loss, start, jac=True, bounds=[(0, 1)] * 6, constraints=one, method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-13},
        )  # fmt: skip
        others.append(loss(found.x)[0])
    assert loss(mine.numpy())[0] <= min(others) + 1e-6 * abs(min(others))
    if times < 1:  # no text is read twice at the optimum
        torch.testing.assert_close(mine, optimum / optimum.sum(), atol=1e-8, rtol=0)


def test_text_that_is_all_known_by_heart_gives_some_mixture() -> None:
    linear, precision = gaussian_evidence(4, 0.03)
    found = most_likely_weights(linear, precision, lambda w: effective_shares(w, 1e12, 1.0))
    assert float(found.sum()) == pytest.approx(1)
