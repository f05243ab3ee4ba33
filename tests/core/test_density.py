"""The density: against mpmath, at the faces, and its gradients."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.distributions import Dirichlet

from bydore_pyro.core import density
from bydore_pyro.core.density import log_density
from bydore_pyro.core.distribution import GammaDirichlet

# By mpmath: adaptive Gauss-Legendre quadrature with 20 digits of both integrals.
INPUTS = Path(__file__).parents[1] / "inputs"
REFERENCE = json.loads((INPUTS / "density_reference.json").read_text())
A = torch.tensor([0.3, 2.0, 0.9], dtype=torch.float64)
B = torch.tensor([2.0, 0.5, 1.0], dtype=torch.float64)


def columns(types: list[list[float]]) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``w, a, b (K,)`` for types ``(count, a, b, w)``."""
    rows = [row[1:] for row in types for _ in range(int(row[0]))]
    a, b, w = torch.tensor(rows, dtype=torch.float64).unbind(1)
    return w, a, b


@pytest.mark.parametrize("case", range(len(REFERENCE)))
def test_density_agrees_with_mpmath(case: int) -> None:
    w, a, b = columns(REFERENCE[case]["types"])
    expected = REFERENCE[case]["log_density"]
    value = log_density(w.log(), a, b).item()
    assert value == pytest.approx(expected, abs=1e-6, rel=1e-12)


@pytest.mark.parametrize("case", range(0, len(REFERENCE), 3))
def test_float32_is_near_and_finite(case: int) -> None:
    w, a, b = (x.float() for x in columns(REFERENCE[case]["types"]))
    inputs = [x.clone().requires_grad_() for x in (w, a, b)]
    value = GammaDirichlet(*inputs[1:]).log_prob(inputs[0])
    assert value.dtype == torch.float32
    # Against float64 at the same rounded numbers: what is left is the rounding of the result.
    exact = log_density(w.double().log(), a.double(), b.double())
    assert value.item() == pytest.approx(exact.item(), abs=1e-3, rel=1e-7)
    for gradient in torch.autograd.grad(value, inputs):
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("case", range(len(REFERENCE)))
def test_fewer_nodes_keep_what_is_stated(case: int) -> None:
    """Value and first derivatives; the second ones have all nodes."""
    given = [x.requires_grad_() for x in columns(REFERENCE[case]["types"])]

    def of(precise: bool) -> tuple[Tensor, ...]:
        value = log_density(given[0].log(), *given[1:], precise=precise)
        return value.detach(), *torch.autograd.grad(value, given)

    (value, *slopes), (exact, *exact_slopes) = of(precise=False), of(precise=True)
    assert float((value - exact).abs() / exact.abs().clamp(min=1)) < 5e-7
    for x, slope, other in zip(given, slopes, exact_slopes, strict=True):  # of the logs
        error = x.detach() * (slope - other)
        assert float((error.abs() / (1 + (x.detach() * other).abs())).max()) < 1e-5


def test_points_as_concentrations_give_a_dirichlet() -> None:
    beta = torch.tensor([0.5, 2.0, 3.5], dtype=torch.float64)
    w = Dirichlet(torch.ones(3, dtype=torch.float64)).sample((5,))
    value = log_density(w.log(), 1e8 * beta, torch.full_like(beta, 1e8))
    torch.testing.assert_close(value, Dirichlet(beta).log_prob(w), atol=1e-5, rtol=0)


def test_gradients_of_all_arguments() -> None:
    w = torch.tensor([[0.2, 0.5, 0.3], [0.001, 0.009, 0.99]], dtype=torch.float64)
    inputs = [x.clone().requires_grad_() for x in (w.log(), A, B)]
    assert torch.autograd.gradcheck(log_density, inputs, eps=1e-5, atol=1e-6)


def test_gradients_near_a_face_and_of_narrow_gammas() -> None:
    log_w = torch.tensor([-80.0, -0.7, -0.7], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([0.05, 4e3, 90.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([3.0, 0.05, 8e3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_density, (log_w, a, b), eps=1e-5, atol=1e-4, rtol=1e-4)


def test_neither_blocks_nor_more_nodes_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    w = Dirichlet(torch.ones(3, dtype=torch.float64)).sample((7,))
    whole = log_density(w.log(), A, B)
    monkeypatch.setattr(density, "BLOCK", 300)
    torch.testing.assert_close(log_density(w.log(), A, B), whole, atol=1e-7, rtol=0)
    monkeypatch.setattr(density, "BLOCK", 2**20)
    monkeypatch.setattr(density, "WIDE", 6.0)
    monkeypatch.setattr(density, "OUTER_SPACING", 0.2)
    torch.testing.assert_close(log_density(w.log(), A, B), whole, atol=1e-7, rtol=0)


def test_a_thousand_domains_near_a_vertex() -> None:
    log_w = torch.full((1000,), -500.0, dtype=torch.float64)
    log_w[0] = math.log1p(-999 * math.exp(-500.0))
    value = log_density(log_w, torch.full((1000,), 0.3), torch.ones(1000))
    assert torch.isfinite(value)
