"""The barrier's minima against closed forms and another library's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from torch import Tensor

from bydore_pyro.law.barrier import (
    BarrierMinimum,
    Curvature,
    barrier_minimum,
    conjugate_step,
    newton_step,
)

NO_BOUNDS = (torch.zeros(3).double(), torch.ones(3).double())


def curvature(matrices: Tensor) -> Curvature:
    """Of given Hessians ``(B, N, N)``."""
    return Curvature(lambda x: x @ matrices, matrices.diagonal(dim1=1, dim2=2))


def quadratics(matrices: Tensor, centres: Tensor, lower: Tensor, upper: Tensor) -> BarrierMinimum:
    """Minimises ``(x - c)' A (x - c) / 2``, one for each centre."""

    def value(points: Tensor, barrier: float) -> Tensor:
        off = points - centres
        return ((matrices @ off[..., None]).squeeze(-1) * off).sum(1) / 2

    def derivatives(points: Tensor, barrier: float) -> tuple[Tensor, Curvature]:
        return (matrices @ (points - centres)[..., None]).squeeze(-1), curvature(matrices)

    free = upper - lower
    start = lower + free * (1 - lower.sum()) / free.sum()
    return barrier_minimum(value, derivatives, start.expand(len(centres), -1), lower, upper, 0)


def test_the_nearest_point_of_the_simplex() -> None:
    """Each of several at once: inside, on a face, at a corner."""
    centres = torch.tensor([[0.5, 0.3, 0.2], [0.8, 0.6, -0.5], [5.0, 0.0, 0.0]]).double()
    expected = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.4, 0.0], [1.0, 0.0, 0.0]]).double()
    found = quadratics(torch.eye(3).double().expand(3, -1, -1), centres, *NO_BOUNDS).points
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)
    torch.testing.assert_close(found.sum(1), torch.ones(3).double())


def test_bounds_hold_and_have_their_price() -> None:
    """``barrier / distance`` is by how much the least falls for a unit more of the bound."""
    centres, upper = torch.tensor([[0.8, 0.6, -0.5]]).double(), torch.tensor([0.5, 1, 1]).double()
    found = quadratics(torch.eye(3).double()[None], centres, NO_BOUNDS[0], upper)
    expected = torch.tensor([0.5, 0.5, 0]).double()
    torch.testing.assert_close(found.points[0], expected, atol=2e-5, rtol=0)
    price = found.barrier / (upper[0] - found.points[0, 0])
    # A unit from the second weight to the first: 0.3 - 0.1 nearer.
    assert float(price) == pytest.approx((0.8 - 0.5) - (0.6 - 0.5), abs=1e-3)


def test_an_upper_bound_that_is_infinite_is_none() -> None:
    """And the sum of the start is kept, whatever it is."""
    matrix, centre = torch.eye(3).double()[None], torch.tensor([[0.5, 0.3, -0.9]]).double()
    upper = torch.tensor([torch.inf, 0.2, torch.inf]).double()

    def value(points: Tensor, barrier: float) -> Tensor:
        return (points - centre).square().sum(1) / 2

    def derivatives(points: Tensor, barrier: float) -> tuple[Tensor, Curvature]:
        return points - centre, curvature(matrix)

    start = torch.tensor([[0.3, 0.1, 0.4]]).double()
    found = barrier_minimum(value, derivatives, start, NO_BOUNDS[0], upper, 0).points
    expected = torch.tensor([[0.6, 0.2, 0.0]]).double()
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("broken", [torch.inf, torch.nan])
def test_an_infinite_value_is_never_accepted(broken: float) -> None:
    """Neither where a start breaks a constraint, nor where derivatives are not finite."""
    start = torch.tensor([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]).double()
    values = torch.tensor([1.0, broken]).double()

    def derivatives(points: Tensor, barrier: float) -> tuple[Tensor, Curvature]:
        return values[:, None].repeat(1, 3), curvature(torch.eye(3).double()[None])

    with pytest.raises(ValueError, match="starts strictly within all constraints, actual 1 is not"):
        barrier_minimum(lambda points, barrier: values, derivatives, start, *NO_BOUNDS, 0)
    with pytest.raises(ValueError, match="Expected finite derivatives, actual programme 1"):
        barrier_minimum(lambda points, barrier: points[:, 0], derivatives, start, *NO_BOUNDS, 0)
    outside = start - torch.tensor([0.3, 0, 0]).double()
    with pytest.raises(ValueError, match="starts strictly within all constraints, actual 0 is not"):
        barrier_minimum(lambda points, barrier: points[:, 0], derivatives, outside, *NO_BOUNDS, 0)


def test_a_general_quadratic_against_scipy() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    matrix, centre = root @ root.T, rng.dirichlet(np.ones(6)) * 3 - 0.5
    upper = np.full(6, 0.4)
    expected = minimize(
        lambda x: (x - centre) @ matrix @ (x - centre) / 2,
        np.full(6, 1 / 6),
        jac=lambda x: matrix @ (x - centre),
        bounds=[(0, 0.4)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-12},
    )
    given = (torch.tensor(matrix)[None], torch.tensor(centre)[None])
    found = quadratics(*given, torch.zeros(6).double(), torch.tensor(upper)).points[0].numpy()
    assert (found - centre) @ matrix @ (found - centre) / 2 <= expected.fun + 1e-6
    np.testing.assert_allclose(found, expected.x, atol=1e-3)


def test_a_free_unknown_bounds_the_largest_against_linprog() -> None:
    """``min u`` under ``u >= C x``: the worst case of a matrix game."""
    costs = torch.tensor([[3.0, 1, 2], [1, 4, 2.5]]).double()

    def value(points: Tensor, barrier: float) -> Tensor:
        margin = points[:, 3:] - points[:, :3] @ costs.T
        return points[:, 3] - barrier * margin.log().sum(1)

    def derivatives(points: Tensor, barrier: float) -> tuple[Tensor, Curvature]:
        rows = torch.cat([-costs, torch.ones(2, 1).double()], 1)  # of the margin by (x, u)
        margin = points[:, 3:] - points[:, :3] @ costs.T
        gradient = -(barrier / margin) @ rows
        gradient[:, 3] += 1
        return gradient, curvature((rows.T * (barrier / margin[0] ** 2)) @ rows[None])

    start = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 9]]).double()
    found = barrier_minimum(value, derivatives, start, *NO_BOUNDS, 2).points[0]
    game = linprog(
        [0, 0, 0, 1],
        A_ub=np.c_[costs.numpy(), [-1, -1]],
        b_ub=[0, 0],
        A_eq=[[1, 1, 1, 0]],
        b_eq=[1],
        bounds=[(0, 1)] * 3 + [(None, None)],
    )
    assert float(found[3]) == pytest.approx(game.fun, abs=1e-5)


@pytest.mark.parametrize("step_of", [newton_step, conjugate_step])
def test_a_step_leaves_the_sum_and_solves_the_rest(step_of: Any) -> None:
    root = torch.tensor([[1.0, 0, 0], [0.3, 1, 0], [-0.2, 0.5, 1]]).double()
    spread = torch.tensor([1.0, 1e3, 1e-1]).double()
    hessian = (spread[:, None] * (root @ root.T) * spread)[None]
    bound, gradient = torch.tensor([[0.1, 0, 2]]).double(), torch.tensor([[1.0, -2, 3]]).double()
    step = step_of(gradient, curvature(hessian), bound, torch.ones(1, 3).double())
    assert float(step.sum()) == pytest.approx(0, abs=1e-6)
    left = gradient[0] + hessian[0] @ step[0] + bound[0] * step[0]
    torch.testing.assert_close(left, left[:1].expand(3), atol=1e-5, rtol=1e-6)
