"""Repeated text's worth, held against the law as it is printed."""

from __future__ import annotations

import math

import pytest
import torch

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.repetition import (
    GOOD_EPOCHS,
    MOST_EPOCHS,
    REPETITION_CONSTANT,
    Exposure,
    effective_shares,
    exposures_csv,
    exposures_of,
    exposures_table,
    longest_run,
    notes_on,
    require_epochs,
)
from bydore_pyro.mixture.sheets import weights_of_sheet
from bydore_pyro.mixture.units import Supply

# A published blend: 2.1 % on 130M tokens of a run of 25T. And of the others enough.
SHARES = {"web": 0.9789, "tiny": 0.021, "rare": 1e-4, "none": 0.0}
THERE = {"web": Supply(3e13, 3e10), "tiny": Supply(1.3e8), "rare": Supply(1e13)}


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


def test_epochs_that_nobody_saw() -> None:
    exposures = exposures_of(SHARES, 25e12, THERE)
    web, tiny, rare, none = exposures
    assert tiny == Exposure("tiny", 0.021, pytest.approx(5.25e11), pytest.approx(4038.46, rel=1e-5))
    assert web.epochs == pytest.approx(0.81575)
    assert web.documents == pytest.approx(0.81575 * 3e10), "of 1,000 tokens each"
    assert (none.tokens, none.epochs, none.documents) == (0, None, None)
    assert notes_on(exposures, 2048) == [
        "Read more than 4 times, where repeated text begins to teach less: tiny (4,038 epochs)."
    ]
    assert [row[-1] for row in exposures_table(exposures).rows] == ["", "!!", "", ""]
    message = r"at most 16 epochs of each domain, found 4,038 of 'tiny' \(2.10%\): --repeat 4039 "
    with pytest.raises(DataError, match=message):
        require_epochs(exposures, MOST_EPOCHS)
    require_epochs(exposures, 4039)
    assert rare.epochs is not None
    assert GOOD_EPOCHS < MOST_EPOCHS == 1 + REPETITION_CONSTANT


def test_domains_that_get_no_sample_are_named() -> None:
    short = exposures_of(SHARES, 1e6, THERE)  # of rare 100 tokens
    assert notes_on(short, 2048)[0] == (
        "No sample at this length, since the share is less than a sequence of 2,048 tokens: "
        "rare (0.049)."
    )
    assert not any("No sample" in note for note in notes_on(short, 64))
    few = exposures_of({"web": 1.0}, 900, THERE)
    assert "less than a document: web (0.9)" in notes_on(few, None)[0]
    unknown = exposures_of({"a": 1.0}, 1e9, {})
    assert notes_on(unknown, 2048)[0].endswith(
        "neither --data nor --domain_tokens tells the size: a."
    )


def test_the_longest_run_without_repetition() -> None:
    assert longest_run(SHARES, THERE) == (pytest.approx(1.3e8 / 0.021), "tiny")
    assert longest_run(SHARES, THERE, 4) == (pytest.approx(4 * 1.3e8 / 0.021), "tiny")
    assert longest_run({"web": 0.5, "new": 0.5}, THERE) is None


def test_the_table_is_read_back_as_weights() -> None:
    found = weights_of_sheet(exposures_csv(exposures_of(SHARES, 25e12, THERE)))
    assert found is not None
    assert {name: float(share) for name, share in found.weights.items()} == SHARES
