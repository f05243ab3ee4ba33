"""Bounds on the simplex: what is free, what is within them, and prices where nothing is free."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bydore_pyro.law.bounds import Bounds


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double)


@pytest.mark.parametrize(
    ("lower", "upper", "free"),
    [
        ((0, 0, 0), (1, 1, 1), (1, 1, 1)),
        ((0, 0, 0), (0, 1, 1), (0, 1, 1)),
        ((0.3, 0, 0), (0.3, 1, 1), (0, 1, 1)),
        ((0.3, 0.3, 0), (0.3, 0.3, 1), (0, 0, 0)),  # the last follows from the others
        ((0, 0, 0), (0.5, 0.3, 0.2), (0, 0, 0)),
    ],
)
def test_what_is_free(
    lower: tuple[float, ...], upper: tuple[float, ...], free: tuple[int, ...]
) -> None:
    found = Bounds.of(vector(*lower), vector(*upper))
    assert found.free.tolist() == [bool(one) for one in free]
    assert (found.inside >= found.lower).all()
    assert (found.inside <= found.upper).all()
    assert float(found.inside.sum()) == pytest.approx(1, abs=1e-9)
    strictly = (found.inside > found.lower) & (found.inside < found.upper)
    assert strictly[found.free].all()


def test_sums_of_float32_are_1() -> None:
    """0.1 + 0.2 + 0.7 is 1.0000000298 there: one mixture is meant."""
    for numbers in ((0.1, 0.2, 0.7), (0.3, 0.3, 0.4), (0.6, 0.3, 0.1)):
        bound = torch.tensor(numbers).double()
        for given in ((bound, torch.ones(3).double()), (torch.zeros(3).double(), bound)):
            found = Bounds.of(*given)
            assert not found.free.any()
            torch.testing.assert_close(found.inside, bound, atol=1e-7, rtol=0)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ((0.4, 0.4, 0.4), (1, 1, 1), "at_least to sum to 1 at most and at_most to 1 at least, ac"),
        ((0, 0, 0), (0.3, 0.3, 0.3), "actual 0 and 0.9"),
        ((0.5, 0, 0), (0.4, 1, 1), "Expected 0 <= at_least <= at_most"),
    ],
)
def test_bounds_without_a_mixture(
    lower: tuple[float, ...], upper: tuple[float, ...], message: str
) -> None:
    with pytest.raises(ValueError, match="Expected") as found:
        Bounds.of(vector(*lower), vector(*upper))
    assert message in str(found.value)


def test_the_nearest_within_bounds_meets_each_exactly() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        one, other, weights = torch.rand(3, 5, generator=generator).double().pow(3)
        middle = one / one.sum()
        bounds = Bounds.of(middle * other, middle + (1 - middle) * other.flip(0))
        found = bounds.nearest(torch.stack([weights / weights.sum(), weights, middle]))
        assert (found >= bounds.lower).all()
        assert (found <= bounds.upper).all()
        torch.testing.assert_close(found.sum(1), torch.ones(3).double(), atol=1e-14, rtol=0)
        torch.testing.assert_close(found[2], middle, atol=1e-15, rtol=0)
    bounds = Bounds.of(vector(0, 0, 0), vector(0, 0.5, 1))
    assert bounds.nearest(vector(0.2, 0.6, 0.2)).tolist() == pytest.approx([0, 0.5, 0.5])


def test_prices_where_nothing_is_free() -> None:
    """More of a domain is taken from where it costs least."""
    rise = vector(-2.0, -1.0, -4.0)
    at_least = Bounds.of(vector(0.3, 0.3, 0.4), vector(1, 1, 1))
    assert at_least.prices(rise).tolist() == [2, 3, 0], "a bound less goes to the third domain"
    at_most = Bounds.of(vector(0, 0, 0), vector(0.3, 0.3, 0.4))
    assert at_most.prices(rise).tolist() == [-1, 0, -3], "a bound more takes from the second"
    follows = Bounds.of(vector(0.3, 0.3, 0), vector(0.3, 0.3, 1))
    assert follows.prices(rise).tolist() == [2, 3, 0]
    equal = Bounds.of(vector(0.5, 0.25, 0.25), vector(0.5, 0.25, 0.25))
    assert equal.prices(rise).tolist() == [0.25, 1.25, -1.75], "the others in proportion"
