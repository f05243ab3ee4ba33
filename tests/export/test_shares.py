"""Rounding that keeps the sum, and shares for a tokenizer whose tokens are known."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from tiny import write_byte_tokenizer

from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokenizer import tokenizer_sha256
from bydore_pyro.export.shares import (
    converted,
    rounded,
    tokens_per_byte,
)
from bydore_pyro.mixture.mixture import Mixture


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


@pytest.fixture
def byte_tokenizer(tmp_path: Path) -> Path:
    return write_byte_tokenizer(tmp_path / "bytes")


def test_measured_is_what_is_known(corpus: TokenStore, byte_tokenizer: Path) -> None:
    measured = tokens_per_byte(corpus, byte_tokenizer, corpus.names)
    for name in corpus.names:
        counts = corpus.index["domains"][name]["train"]
        size, documents = counts["bytes"], counts["documents"]
        assert measured[name][0] == pytest.approx(counts["tokens"] / size)
        # One token a byte, and one that ends a document.
        assert measured[name][1] == pytest.approx((size + documents) / size)
    own = tokens_per_byte(corpus, corpus.tokenizer, ["birds"])["birds"]
    assert own[0] == own[1]


def test_the_mixture_of_text_stays(corpus: TokenStore, byte_tokenizer: Path) -> None:
    mixture = Mixture(
        names=corpus.names,
        weights=(0.1, 0.2, 0.3, 0.4),
        standard_deviation=(0.1,) * 4,
        hdi=((0.0, 1.0),) * 4,
        tokenizer=corpus.tokenizer_sha256,
        data_sha256=corpus.sha256,
        free_weights=(0.1, 0.2, 0.3, 0.4),
        notes=("Text is repeated.",),
    )
    measured = tokens_per_byte(corpus, byte_tokenizer, corpus.names)
    new = converted(mixture, measured, byte_tokenizer)
    assert sum(new.weights) == pytest.approx(1)
    assert max(abs(w - v) for w, v in zip(new.weights, mixture.weights, strict=True)) > 0.01
    assert new.tokenizer == tokenizer_sha256(byte_tokenizer) != mixture.tokenizer
    bare = Mixture(
        names=mixture.names,
        weights=new.weights,
        tokenizer=new.tokenizer,
        data_sha256=mixture.data_sha256,
        notes=mixture.notes,
    )
    assert new == bare, "nothing that was said of other tokens is left"

    def of_bytes(weights: tuple[float, ...], side: int) -> np.ndarray:
        pairs = zip(corpus.names, weights, strict=True)
        sizes = np.array([w / measured[n][side] for n, w in pairs])
        return sizes / sizes.sum()

    np.testing.assert_allclose(of_bytes(mixture.weights, 0), of_bytes(new.weights, 1))
