"""Rounding that keeps the sum, and shares of documents: against decimals and by brute force."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from bydore_pyro.data.store import TokenStore
from bydore_pyro.export.shares import (
    UNITS,
    Samples,
    Share,
    document_shares,
    rounded,
    tokens_per_document,
)
from bydore_pyro.utils.errors import DataError


def weights_of(values: np.ndarray) -> dict[str, float]:
    return {f"d{i}": float(v) for i, v in enumerate(values)}


@pytest.mark.parametrize("digits", [1, 3, 6, 9, 12])
def test_rounded_weights_sum_to_one_in_decimals(digits: int) -> None:
    rng = np.random.default_rng(digits)
    for _ in range(100):
        weights = rng.dirichlet(np.full(rng.integers(1, 40), 0.3))
        weights[rng.random(len(weights)) < 0.2] = 0
        if weights.sum() == 0:
            continue
        found = rounded(weights_of(weights), digits)
        texts = [f"{share:.{digits}f}" for share in found.values()]
        assert sum(map(Decimal, texts)) == 1
        assert [float(text) for text in texts] == [*found.values()]
        exact = weights / weights.sum()
        assert np.abs(np.array([*found.values()]) - exact).max() < 1.001 * 10**-digits
        assert all(found[name] == 0 for name, w in weights_of(weights).items() if w == 0)


def test_no_other_rounding_is_nearer() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = rng.dirichlet(np.ones(3))
        found = np.array([*rounded(weights_of(weights), 1).values()])
        counts = [c for c in itertools.product(range(11), repeat=3) if sum(c) == 10]
        best = min(float(((np.array(c) / 10 - weights) ** 2).sum()) for c in counts)
        assert ((found - weights) ** 2).sum() == pytest.approx(best)


def test_rounding_in_numbers() -> None:
    assert rounded({"a": 1, "b": 1, "c": 1}, 2) == {"a": 0.34, "b": 0.33, "c": 0.33}
    assert rounded({"a": 0.29, "b": 0.71}, 2) == {"a": 0.29, "b": 0.71}
    assert rounded({"a": 1e-9, "b": 1.0}, 6) == {"a": 0.0, "b": 1.0}


def test_documents_of_other_lengths() -> None:
    # Half of the tokens each, documents of 100 and 300 tokens: three to one.
    shares = document_shares({"a": 0.5, "b": 0.5, "c": 0.0}, {"a": 100, "b": 300})
    assert shares == {"a": pytest.approx(0.75), "b": pytest.approx(0.25), "c": 0.0}
    for length in (0.0, float("inf"), float("nan")):
        with pytest.raises(DataError, match="tokens per document > 0 of 'b', found"):
            document_shares({"a": 0.5, "b": 0.5}, {"a": 1.0, "b": length})
    with pytest.raises(DataError, match="'b', found 0"):
        document_shares({"a": 0.5, "b": 0.5}, {"a": 1.0})


def test_lengths_are_those_of_the_store(corpus: TokenStore) -> None:
    lengths = tokens_per_document(corpus.index)
    end = max(int(tokens[-1]) for tokens in corpus.train.values())
    for name, tokens in corpus.train.items():
        assert lengths[name] == pytest.approx(len(tokens) / (tokens == end).sum())
    assert tokens_per_document(corpus.index, {"birds": 1.0, "x": 0.0}) == {
        "birds": lengths["birds"]
    }


def test_domains_without_documents_are_named() -> None:
    none = {"train": {"tokens": 0, "documents": 0}}
    some = {"train": {"tokens": 30, "documents": 3}}
    index = {"domains": {"a": some, "b": none}}
    assert tokens_per_document(index) == tokens_per_document(index, {"a": 1.0, "b": 0.0})
    with pytest.raises(DataError, match="documents of 'b', which has weight, found 0"):
        tokens_per_document(index, {"a": 0.5, "b": 0.5})
    with pytest.raises(DataError, match="documents of 'c', found none"):
        tokens_per_document(index, {"c": 1.0})
    with pytest.raises(DataError, match="found an index without them"):
        tokens_per_document({"domains": None})


def test_what_shares_are_of() -> None:
    samples: Samples = "sequences"
    assert UNITS[samples] == "tokens"
    assert Share(name="a", weight=1.0).path == ""
