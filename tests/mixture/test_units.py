"""What numbers stand for, against counts made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.units import UNITS, Supply, Unit, numbers_of_unit, token_shares

# Two domains: 1,000 tokens in 10 documents, and 3,000 tokens in 10.
THERE = {"a": Supply(1000, 10, "rows"), "b": Supply(3000, 10, "files")}


def test_numbers_by_hand() -> None:
    half = {"a": 0.5, "b": 0.5, "c": 0.0}
    assert token_shares({"a": 2, "b": 6}, "tokens", {}) == {"a": 0.25, "b": 0.75}
    # As many documents of each, of 100 and of 300 tokens.
    assert token_shares(half, "documents", THERE) == {"a": 0.25, "b": 0.75, "c": 0.0}
    assert numbers_of_unit(half, "documents", THERE) == pytest.approx(
        {"a": 0.75, "b": 0.25, "c": 0}
    )
    # All of a three times, all of b once: 3,000 tokens each.
    assert token_shares({"a": 3, "b": 1}, "epochs", THERE) == {"a": 0.5, "b": 0.5}
    assert numbers_of_unit(half, "epochs", THERE, 6000) == {"a": 3.0, "b": 1.0, "c": 0.0}
    assert THERE["b"].length == 300
    assert Supply(5).length is None
    assert Supply(600).with_documents_of(THERE["b"]) == Supply(600, 2, "files")
    assert Supply(600, 7).with_documents_of(THERE["b"]) == Supply(600, 7)
    assert Supply(600).with_documents_of(None) == Supply(600)


@pytest.mark.parametrize("unit", UNITS)
def test_there_and_back(unit: Unit) -> None:
    rng = np.random.default_rng(0)
    names = [f"d{k}" for k in range(30)]
    there = {n: Supply(float(rng.lognormal(9, 3)), float(rng.integers(1, 999))) for n in names}
    shares = dict(zip(names, rng.dirichlet(np.full(30, 0.3)).tolist(), strict=True))
    back = token_shares(numbers_of_unit(shares, unit, there, 1e9), unit, there)
    assert back == pytest.approx(shares)
    assert math.fsum(back.values()) == pytest.approx(1)


def test_shares_are_never_taken_for_epochs_where_counts_are_missing() -> None:
    shares = {"a": 0.5, "new": 0.5}
    for convert in (token_shares, numbers_of_unit):
        with pytest.raises(DataError, match="tokens that there are of 'new', since the num"):
            convert(shares, "epochs", THERE)
    with pytest.raises(DataError, match="documents that there are of 'a', since the num"):
        token_shares(shares, "documents", {"a": Supply(9)})


def test_nothing_is_no_mixture() -> None:
    for numbers in ({"a": 0.0, "b": 0.0}, {"a": 1e308, "b": 1e308}):
        with pytest.raises(DataError, match="numbers of domains with a sum above 0, found"):
            token_shares(numbers, "epochs", THERE)
