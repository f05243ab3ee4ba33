"""Shares for a trainer: of the tokens of another tokenizer, rounded.

A weight is a share of one tokenizer's tokens. The same text is more or fewer tokens to another, by
a factor that differs between domains. The mixture of text stays when every weight is multiplied by
its domain's factor:

    w'_k ∝ w_k (tokens per byte of domain k, new) / (tokens per byte of domain k, old)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from bydore_pyro import data
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture

PIECES, LENGTH = 64, 4096  # a domain with more tokens is read as 64 pieces of 4,096 tokens


def rounded(weights: Mapping[str, float], digits: int) -> dict[str, float]:
    """Rounds weights to decimals that sum to 1, by the largest remainders.

    With ``n = 10^digits`` every weight gets ``floor(n w_k)`` units of ``1/n``, and those with the
    largest ``n w_k - floor(n w_k)`` get one more until all ``n`` are given. No weight moves by a
    unit or more, and of all such roundings the sum of squared errors is least.

    Args:
        weights: Of ``K`` domains, >= 0 and not all 0; they are normalised.
        digits: Decimals, 1 to 12.

    Returns:
        Multiples of ``1/n``, as the nearest floats; in decimals they sum to exactly 1.
    """
    total, units = math.fsum(weights.values()), 10**digits
    exact = np.array([weight / total * units for weight in weights.values()])
    given = np.floor(exact).astype(np.int64)
    most = np.argsort(given - exact, kind="stable")  # largest remainders first, ties in order
    given[most[: units - int(given.sum())]] += 1
    return {name: int(count) / units for name, count in zip(weights, given, strict=True)}


def tokens_per_byte(
    store: data.TokenStore, folder: Path, names: Collection[str]
) -> dict[str, tuple[float, float]]:
    """Measures the tokens per byte of a store's tokenizer and of another one, end-of-text tokens
    included.

    Up to 262,144 training tokens of each domain are decoded and encoded again: all of a small
    domain, else 64 pieces at even distances.

    Args:
        store: Its text, as the tokens of its own tokenizer.
        folder: The other tokenizer's, as `save_pretrained` writes it.
        names: Domains of the store.

    Raises:
        DataError: When the folder holds no tokenizer, or a domain has no training text.
    """
    old, end = data.load_encoder(store.tokenizer)
    new, _ = data.load_encoder(folder)
    found = {}
    for name in names:
        texts, ends, count = [], 0, 0
        for piece in _pieces(store.train[name]) if name in store.train else ():
            store.train[name].require_unchanged()
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
        found[name] = (count / size, anew / size)
    return found


def _pieces(tokens: data.Tokens) -> list[np.ndarray]:
    """Returns all tokens, or 64 pieces at even distances."""
    if len(tokens) <= PIECES * LENGTH:
        return [np.asarray(tokens)]
    starts = np.linspace(0, len(tokens) - LENGTH, PIECES).astype(np.int64)
    return [np.asarray(tokens[start : start + LENGTH]) for start in starts]


def converted(
    mixture: Mixture, measured: Mapping[str, tuple[float, float]], folder: Path
) -> Mixture:
    """Returns the mixture as shares of another tokenizer's tokens, with the same text.

    Args:
        mixture: Shares of the old tokenizer's tokens.
        measured: Tokens per byte, old and new, of the domains with weight.
        folder: The other tokenizer.

    Returns:
        The mixture for that tokenizer, without the uncertainty, which is of the old tokens. The
        notes stay, since they are about the text and the search.
    """
    scaled = [
        weight * measured[name][1] / measured[name][0] if weight > 0 else 0.0
        for name, weight in mixture.as_dict().items()
    ]
    total = math.fsum(scaled)
    return dataclasses.replace(
        mixture,
        weights=tuple(weight / total for weight in scaled),
        standard_deviation=None,
        hdi=None,
        free_weights=None,
        tokenizer=data.tokenizer_sha256(folder),
    )
