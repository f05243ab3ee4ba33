"""Weights for another tokenizer: shares of its tokens, by measured tokens per byte.

A weight is a share of tokens. The same text is more or fewer tokens to another tokenizer, by a
factor that differs between domains, so the same weights would be another mixture of text. The
mixture of text stays when every weight is multiplied by its domain's factor:

    w'_k ∝ w_k (tokens per byte of domain k, new) / (tokens per byte of domain k, old)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bydore_pyro.data import TokenStore, load_encoder, tokenizer_sha256
from bydore_pyro.mixture import Mixture
from bydore_pyro.utils import DataError

__all__ = ["TokensPerByte", "converted", "tokens_per_byte"]

PIECES, LENGTH = 64, 4096  # of a domain that is longer, so many pieces of so many tokens are read


@dataclass(frozen=True, kw_only=True)
class TokensPerByte:
    """Tokens per byte of one domain's text, end-of-text tokens included.

    Attributes:
        old: Of the store's tokenizer.
        new: Of the other one, on the same text.
    """

    old: float
    new: float


def tokens_per_byte(
    store: TokenStore, folder: Path, names: Collection[str]
) -> dict[str, TokensPerByte]:
    """Measures how many tokens a byte is to a store's tokenizer and to another one.

    Up to 262,144 training tokens of each domain are decoded and encoded anew: all of a small
    domain, else 64 pieces at even distances.

    Args:
        store: Its text, as the tokens of its own tokenizer.
        folder: The other tokenizer's, as `save_pretrained` writes it.
        names: Domains of the store.

    Raises:
        DataError: When the folder holds no tokenizer, or a domain is not there or has no training
            tokens.
    """
    old, end = load_encoder(store.tokenizer)
    new, _ = load_encoder(folder)
    found = {}
    for name in names:
        tokens = store.train.get(name)
        if tokens is None or len(tokens) == 0:
            raise DataError(f"Expected training tokens of '{name}' in {store.folder}, found none")
        texts, ends, count = [], 0, 0
        for piece in _pieces(tokens):
            store.require_unchanged(("train", name))
            count += len(piece)
            stops = np.flatnonzero(piece == end)
            ends += len(stops)
            for document in np.split(piece, stops):
                ids = document[document != end]
                texts.append(old.decode(ids.tolist(), skip_special_tokens=False))
        size = sum(len(text.encode()) for text in texts)
        if size == 0:
            raise DataError(f"Expected text of '{name}' in {store.folder}, found none")
        encoded = new.encode_batch_fast(texts, add_special_tokens=False)
        anew = sum(len(encoding.ids) for encoding in encoded) + ends
        found[name] = TokensPerByte(old=count / size, new=anew / size)
    return found


def _pieces(tokens: np.ndarray) -> list[np.ndarray]:
    """Returns all tokens, or of many so many pieces at even distances."""
    if len(tokens) <= PIECES * LENGTH:
        return [tokens]
    starts = np.linspace(0, len(tokens) - LENGTH, PIECES).astype(np.int64)
    return [tokens[start : start + LENGTH] for start in starts]


def converted(mixture: Mixture, measured: Mapping[str, TokensPerByte], folder: Path) -> Mixture:
    """Returns the mixture as shares of another tokenizer's tokens: of the same text.

    Args:
        mixture: Shares of the old tokenizer's tokens.
        measured: Tokens per byte of at least the domains with weight.
        folder: The other tokenizer.

    Returns:
        The mixture for that tokenizer, without the uncertainty, which was that of other shares.

    Raises:
        DataError: When a domain with weight was not measured.
    """
    scaled = []
    for name, weight in mixture.as_dict().items():
        if weight > 0 and name not in measured:
            raise DataError(f"Expected measured tokens per byte of '{name}', found none")
        factor = measured[name].new / measured[name].old if weight > 0 else 0.0
        scaled.append(weight * factor)
    total = math.fsum(scaled)
    return dataclasses.replace(
        mixture,
        weights=tuple(weight / total for weight in scaled),
        standard_deviation=None,
        hdi=None,
        free_weights=None,
        tokenizer=tokenizer_sha256(folder),
    )
