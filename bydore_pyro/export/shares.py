"""Shares of what a trainer draws: of documents instead of tokens, and rounded to sum to 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bydore_pyro.utils import DataError

__all__ = ["UNITS", "Samples", "Share", "document_shares", "rounded", "tokens_per_document"]


Samples = Literal["tokens", "sequences", "documents"]
UNITS: dict[Samples, str] = {"tokens": "tokens", "sequences": "tokens", "documents": "documents"}


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a trainer's file says of one domain.

    Attributes:
        name: The domain.
        weight: Its share, rounded.
        path: Where the trainer finds it; empty where that is not told.
        repetitions: How often its tokens may be trained on, >= 1.
    """

    name: str
    weight: float
    path: str = ""
    repetitions: float = 1.0


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


def tokens_per_document(
    index: Mapping[str, Any], weights: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Returns the mean tokens of each domain's training documents, end-of-text token included.

    Args:
        index: A token store's index, or a run's manifest.
        weights: By domain: those with weight are looked up. All domains of the index that
            have documents when None.

    Raises:
        DataError: When a domain with weight is not there or has no training documents.
    """
    domains = index.get("domains")
    if not isinstance(domains, Mapping):
        raise DataError("Expected counts of documents by domain, found an index without them")
    wanted = domains if weights is None else [name for name in weights if weights[name] > 0]
    found = {}
    for name in wanted:
        try:
            counts = domains[name]["train"]
            documents, tokens = counts["documents"], counts["tokens"]
        except (KeyError, TypeError):
            raise DataError(f"Expected counts of documents of '{name}', found none") from None
        if documents > 0:
            found[name] = tokens / documents
        elif weights is not None:
            raise DataError(f"Expected training documents of '{name}', which has weight, found 0")
    return found


def document_shares(weights: Mapping[str, float], lengths: Mapping[str, float]) -> dict[str, float]:
    """Turns shares of tokens into shares of documents.

    Who draws documents with probability ``p_k`` draws tokens in proportion to ``p_k t_k``, so that
    ``p_k = (w_k / t_k) / sum_j (w_j / t_j)``.

    Args:
        weights: Shares of tokens ``w``, summing to 1.
        lengths: Mean tokens per document ``t`` > 0 of at least the domains with weight.

    Returns:
        Shares of documents, summing to 1.

    Raises:
        DataError: When the length of a domain with weight is missing or not above 0.
    """
    ratios = {}
    for name, weight in weights.items():
        length = lengths.get(name, 0.0)
        if weight > 0 and not 0 < length < math.inf:
            raise DataError(f"Expected tokens per document > 0 of '{name}', found {length}")
        ratios[name] = weight / length if weight > 0 else 0.0
    total = math.fsum(ratios.values())
    return {name: ratio / total for name, ratio in ratios.items()}
