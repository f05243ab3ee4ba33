"""What a number beside a domain means, and the shares of tokens that it stands for.

| unit | the number of domain k | tokens of one unit of it |
|---|---|---|
| tokens | its share of tokens, or of sequences of one length | 1 |
| documents | its share of documents: rows, files, or the probability to draw one | T_k / D_k |
| epochs | how often its text is read | T_k |

With ``T_k`` tokens and ``D_k`` documents that there are of a domain. The shares of tokens are
``w_k = n_k u_k / sum_j n_j u_j``, for numbers ``n`` and tokens of one unit ``u``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from bydore_pyro.errors import DataError

Unit = Literal["tokens", "documents", "epochs"]
UNITS: tuple[Unit, ...] = get_args(Unit)
#: What a file that we write says of its numbers, by which it is known when it is read back.
SAID: dict[Unit, str] = {
    "tokens": "shares of tokens",
    "documents": "shares of documents",
    "epochs": "epochs",
}


class Supply(NamedTuple):
    """How much text there is of a domain.

    Attributes:
        tokens: Of all of it, > 0.
        documents: How many rows or files it has, > 0; None where they were not counted.
        kind: What the documents are: "rows", "files" or "documents".
    """

    tokens: float
    documents: float | None = None
    kind: str = "documents"

    @property
    def length(self) -> float | None:
        """Mean tokens of a document; None where these were not counted."""
        return None if self.documents is None else self.tokens / self.documents

    def with_documents_of(self, counted: Supply | None) -> Supply:
        """Returns this much text with as many documents as it has if they are as long as those that
        were counted elsewhere; as it is where it has a number, or none was counted."""
        if self.documents is not None or counted is None or counted.length is None:
            return self
        return Supply(self.tokens, self.tokens / counted.length, counted.kind)


def token_shares(
    numbers: Mapping[str, float], unit: Unit, supply: Mapping[str, Supply]
) -> dict[str, float]:
    """Returns the shares of tokens that numbers of a unit stand for; they sum to 1.

    Args:
        numbers: Of ``K`` domains, >= 0 and not all 0.
        unit: What they are numbers of.
        supply: What there is of each domain that has more than 0; tokens need none.

    Raises:
        DataError: When the unit needs counts of a domain that has none, or all numbers are 0.
    """
    if unit != "tokens":
        numbers = {n: v * _tokens_of_one(n, unit, supply) if v else 0.0 for n, v in numbers.items()}
    try:
        total = math.fsum(numbers.values())
    except OverflowError:
        total = math.inf
    if not 0 < total < math.inf:
        raise DataError(f"Expected numbers of domains with a sum above 0, found {total:g}")
    return {name: number / total for name, number in numbers.items()}


def numbers_of_unit(
    shares: Mapping[str, float], unit: Unit, supply: Mapping[str, Supply], tokens: float = math.nan
) -> dict[str, float]:
    """Returns the numbers of a unit that stand for shares of tokens: the inverse of `token_shares`.

    Args:
        shares: Of tokens, ``K`` of them, summing to 1.
        unit: Of the numbers. Those of documents sum to 1.
        supply: What there is of each domain that has a share; tokens need none.
        tokens: Length of the run, which epochs need: ``n_k = w_k N / T_k``.

    Raises:
        DataError: When the unit needs counts of a domain that has none.
    """
    if unit == "tokens":
        return dict(shares)
    found = {n: w / _tokens_of_one(n, unit, supply) if w else 0.0 for n, w in shares.items()}
    scale = tokens if unit == "epochs" else 1 / math.fsum(found.values())
    return {name: scale * number for name, number in found.items()}


def _tokens_of_one(name: str, unit: Unit, supply: Mapping[str, Supply]) -> float:
    there = supply.get(name)
    found = None if there is None else there.length if unit == "documents" else there.tokens
    if found is None:
        counted = "documents" if unit == "documents" else "tokens"
        raise DataError(
            f"Expected the number of {counted} that there are of '{name}', since the numbers are "
            f"{'shares of ' if unit == 'documents' else ''}{unit}, found none: --data STORE or "
            "--domain_tokens FILE has it"
        )
    return found
