"""The least of a quadratic, against the conditions that its optimum fulfils."""

from __future__ import annotations

import torch

from bydore_pyro.core.quadratic import least, least_of, square_root, value_and_derivatives


def problem(size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    root = torch.randn(size, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return root @ root.T / 12, torch.linspace(0.2, 0.6, size, dtype=torch.float64)


def test_the_least_value_by_numbers_of_one_sign() -> None:
    matrix, vector = problem()
    found = least(square_root(matrix), vector)
    slope = matrix @ found - vector
    assert (found >= 0).all()
    assert (slope > -1e-9).all()
    assert float((slope * found).abs().max()) < 1e-9
    inside = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(least(square_root(matrix[:3, :3]), matrix[:3, :3] @ inside), inside)


def test_the_least_value_on_the_simplex() -> None:
    """At the optimum the slope is one number where there is weight, and no less elsewhere."""
    matrix, vector = problem()
    found = least_of(matrix)(vector)
    slope = matrix @ found - vector
    level = float(slope[found > 0].mean())
    assert abs(float(found.sum()) - 1) < 1e-12
    assert 0 < int((found == 0).sum()) < 5
    torch.testing.assert_close(slope[found > 0], torch.full_like(slope[found > 0], level))
    assert (slope > level - 1e-9).all()


def test_values_and_derivatives_of_an_elementwise_function() -> None:
    at = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    value, once, twice = value_and_derivatives(lambda x: x**3, at)
    torch.testing.assert_close(value, at**3)
    torch.testing.assert_close(once, 3 * at**2)
    torch.testing.assert_close(twice, 6 * at)
    assert torch.equal(value_and_derivatives(lambda x: 2 * x, at)[2], torch.zeros(3).double())
