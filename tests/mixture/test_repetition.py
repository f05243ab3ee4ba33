"""Repeated text's worth, held against the law as it is printed."""

from __future__ import annotations

import math

import pytest
import torch

from bydore_pyro.mixture import effective_shares


def test_a_share_is_what_the_printed_law_says() -> None:
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    rates = torch.tensor([23.0, 2.0, 40.0], dtype=torch.float64)  # 11.5, 0.6 and 8 epochs
    constants = torch.tensor([1.0, 1.0, 15.39], dtype=torch.float64)
    found = effective_shares(weights, rates, constants)
    assert found[0] == pytest.approx((1 + 1 * (1 - math.exp(-10.5))) / 23)
    assert found[1] == 0.3  # less than one epoch: not a bit changes
    assert found[2] == pytest.approx((1 + 15.39 * (1 - math.exp(-7 / 15.39))) / 40)
    assert torch.equal(effective_shares(weights, 0.0, 1.0), weights)  # text without end


def test_the_slope_is_continuous_and_autograd_finds_it() -> None:
    rate, constant = 10.0, 2.0
    weights = torch.tensor([0.05, 0.1, 0.1 + 1e-9, 0.5, 1.0], dtype=torch.float64)
    weights.requires_grad_()
    found = effective_shares(weights, rate, constant)
    (slopes,) = torch.autograd.grad(found.sum(), weights)
    epochs = weights.detach() * rate
    assert slopes.tolist() == pytest.approx(
        [math.exp(-max(0.0, e - 1) / constant) for e in epochs.tolist()]
    )
    # No reading is worth more than 1 + R epochs.
    assert found.max() < (1 + constant) / rate
    (nothing,) = torch.autograd.grad(effective_shares(weights, 0.0, constant).sum(), weights)
    assert nothing.tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("rate", "constant", "message"),
    [(-1.0, 1.0, "epochs_per_unit_weight >= 0"), (math.nan, 1.0, "finite"), (1.0, 0.0, "R > 0")],
)
def test_impossible_numbers_are_named(rate: float, constant: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        effective_shares(torch.ones(2) / 2, rate, constant)
