"""Weights for another tokenizer, on text whose tokens per byte are known exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import write_byte_tokenizer

from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokenizer import tokenizer_sha256
from bydore_pyro.export import units as module
from bydore_pyro.export.units import TokensPerByte, converted, tokens_per_byte
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils.errors import DataError


@pytest.fixture
def byte_tokenizer(tmp_path: Path) -> Path:
    return write_byte_tokenizer(tmp_path / "bytes")


def test_measured_is_what_is_known(corpus: TokenStore, byte_tokenizer: Path) -> None:
    measured = tokens_per_byte(corpus, byte_tokenizer, corpus.names)
    for name in corpus.names:
        counts = corpus.index["domains"][name]["train"]
        size, documents = counts["bytes"], counts["documents"]
        assert measured[name].old == pytest.approx(counts["tokens"] / size)
        # One token a byte, and one that ends a document.
        assert measured[name].new == pytest.approx((size + documents) / size)
    own = tokens_per_byte(corpus, corpus.tokenizer, ["birds"])["birds"]
    assert own.old == own.new


def test_pieces_of_a_large_domain_tell_the_same(
    corpus: TokenStore, byte_tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tokens_per_byte(corpus, byte_tokenizer, ["birds", "greek"])
    monkeypatch.setattr(module, "PIECES", 8)
    monkeypatch.setattr(module, "LENGTH", 300)
    assert len(corpus.train["birds"]) > 2 * 8 * 300
    parts = tokens_per_byte(corpus, byte_tokenizer, ["birds", "greek"])
    for name, tokens in parts.items():
        assert tokens.old == pytest.approx(whole[name].old, rel=0.03)
        assert tokens.new == pytest.approx(whole[name].new, rel=0.01)


def test_the_mixture_of_text_stays(corpus: TokenStore, byte_tokenizer: Path) -> None:
    mixture = Mixture(
        names=corpus.names,
        weights=(0.1, 0.2, 0.3, 0.4),
        standard_deviation=(0.1,) * 4,
        hdi=((0.0, 1.0),) * 4,
        tokenizer=corpus.tokenizer_sha256,
    )
    measured = tokens_per_byte(corpus, byte_tokenizer, corpus.names)
    new = converted(mixture, measured, byte_tokenizer)
    assert sum(new.weights) == pytest.approx(1)
    assert max(abs(w - v) for w, v in zip(new.weights, mixture.weights, strict=True)) > 0.01
    assert new.tokenizer == tokenizer_sha256(byte_tokenizer) != mixture.tokenizer
    assert new.hdi is new.standard_deviation is None

    def of_bytes(weights: tuple[float, ...], side: str) -> np.ndarray:
        pairs = zip(corpus.names, weights, strict=True)
        sizes = np.array([w / getattr(measured[n], side) for n, w in pairs])
        return sizes / sizes.sum()

    np.testing.assert_allclose(of_bytes(mixture.weights, "old"), of_bytes(new.weights, "new"))


def test_conversion_in_numbers(byte_tokenizer: Path) -> None:
    mixture = Mixture(names=("a", "b", "c"), weights=(0.5, 0.5, 0.0))
    measured = {
        "a": TokensPerByte(old=0.25, new=0.25),
        "b": TokensPerByte(old=0.25, new=0.75),
    }
    assert converted(mixture, measured, byte_tokenizer).weights == pytest.approx((0.25, 0.75, 0))
    with pytest.raises(DataError, match="measured tokens per byte of 'b', found none"):
        converted(mixture, {"a": measured["a"]}, byte_tokenizer)


def test_what_cannot_be_measured(corpus: TokenStore, byte_tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="training tokens of 'nothing'"):
        tokens_per_byte(corpus, byte_tokenizer, ["nothing"])
    with pytest.raises(DataError, match="Expected a tokenizer in"):
        tokens_per_byte(corpus, tmp_path / "none", ["birds"])
    ends = np.full(5, int(corpus.train["birds"][-1]))
    empty = TokenStore(corpus.folder, {"birds": ends}, {}, corpus.index)
    with pytest.raises(DataError, match="text of 'birds' in"):
        tokens_per_byte(empty, byte_tokenizer, ["birds"])
