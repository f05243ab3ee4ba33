"""The most likely weights in effective shares, against a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from scipy.optimize import minimize
from torch import Tensor

from bydore_pyro.core.quadratic import least
from bydore_pyro.core.repeated import most_likely_weights
from bydore_pyro.mixture.repetition import effective_shares


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
