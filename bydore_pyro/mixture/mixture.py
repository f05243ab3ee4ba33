"""The one value that all parts exchange: domains' names and their weights on the simplex."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bydore_pyro import files
from bydore_pyro.errors import DataError, distinct, expecting, listed

if TYPE_CHECKING:
    import torch

FORMAT: Literal["bydore_pyro.mixture/1"] = "bydore_pyro.mixture/1"
HDI_PROBABILITY = 0.94  # ArviZ's
TOLERANCE = 1e-6  # how far the weights of a file may be from summing to 1
ROUNDING = 1e-9  # how far bounds may be from leaving a mixture, by the rounding of their sum
MOST_SHOWN = 20  # domains that are shown one by one
COLUMNS = ("free_weights", "standard_deviation", "hdi")  # beside the weights, or None


def jitter(means: np.ndarray) -> float:
    """Mean over steps of ``sum_k |w_{t+1,k} - w_{t,k}|``, in [0, 2], for weights ``(steps, K)``.

    0 for one step.
    """
    if len(means) < 2:
        return 0.0
    return float(np.abs(np.diff(means, axis=0)).sum(1).mean())


def total_variation(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Returns ``sum_k |l_k - r_k| / 2``: for weights, the share in [0, 1] that lies elsewhere.

    A domain that one of them lacks has no weight there.
    """
    return 0.5 * sum(abs(left.get(k, 0.0) - right.get(k, 0.0)) for k in {*left, *right})


def within_bounds(weights: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Returns the nearest mixtures ``(S, K)`` whose weights are within bounds ``(K,)``, exactly.

    Nearest by the Kullback-Leibler divergence from the given mixtures: weights at a bound lie on
    it, and the others keep their ratios. Where all domains with weight are full, those without take
    the rest in proportion to their room. No rounding leads beyond a bound; sums are 1 up to
    rounding.

    Args:
        weights: ``(S, K)``, >= 0.
        least: Smallest weights ``(K,)``, >= 0, of sum 1 at most.
        most: Largest weights ``(K,)``, not below `least`, of sum 1 at least.

    References:
        Bitran and Hax (1981), Disaggregation and resource allocation using convex knapsack problems
        with bounded variables, Management Science 27.
    """
    free = weights / weights.sum(1, keepdims=True)
    found, fixed = free, np.zeros(free.shape, bool)
    while True:
        over, under = ~fixed & (found > most), ~fixed & (found < least)
        if not (over | under).any():
            break
        # Bounds of the side that is broken by more stay binding; those of the other may not.
        excess = np.where(over, found - most, 0).sum(1) - np.where(under, least - found, 0).sum(1)
        upper = excess[:, None] >= 0
        fixed = fixed | np.where(upper, over, under)
        found = np.where(over & upper, most, np.where(under & ~upper, least, found))
        others = np.where(fixed, 0.0, free)
        left = np.maximum(1 - np.where(fixed, found, 0.0).sum(1, keepdims=True), 0)
        total = others.sum(1, keepdims=True)
        found = np.where(fixed, found, others * left / np.where(total > 0, total, 1))
    room = most - found
    missing = 1 - found.sum(1, keepdims=True)  # where all domains with weight are full
    total = np.where(np.isfinite(room), room, 0).sum(1, keepdims=True)
    added = np.where(missing > ROUNDING, room * missing / np.maximum(total, 1e-300), 0)
    return np.minimum(found + added, most)


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Weights of ``K`` domains: shares of the training **tokens**, with their uncertainty.

    Args:
        names: The domains, ``K`` different names.
        weights: ``(K,)``, not negative, summing to 1.
        standard_deviation: Of the posterior ``(K,)``, or None.
        hdi: Highest-density interval of each weight, ``K`` pairs (low, high), or None.
        hdi_probability: The mass of the intervals.
        tokenizer: SHA-256 of the tokenizer's file; weights hold for this tokenizer's tokens.
        data_sha256: Hash of the text that the weights were learned on.
        free_weights: What `weights` were before they were capped ``(K,)``, or None. The uncertainty
            is theirs.
        notes: What whoever uses the weights has to know, a sentence each.

    Raises:
        ValueError: When the names repeat, the lengths differ, the weights leave the simplex, or
            an interval or deviation is impossible.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    standard_deviation: tuple[float, ...] | None = None
    hdi: tuple[tuple[float, float], ...] | None = None
    hdi_probability: float = HDI_PROBABILITY
    tokenizer: str | None = None
    data_sha256: str | None = None
    free_weights: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.names
        if not names or len(set(names)) != len(names):
            raise ValueError(f"Expected different names, actual {names}")
        for name in names:
            if name != name.encode(errors="ignore").decode():  # no file could hold it
                raise ValueError(f"Expected names in UTF-8, actual {name!r}")
        for column in ("weights", *COLUMNS):
            values = getattr(self, column)
            if values is None:
                continue
            if len(values) != len(names):
                raise ValueError(f"Expected {len(names)} {column}, actual {len(values)}")
            for name, value in zip(names, values, strict=True):
                if column == "hdi":
                    valid, least = 0 <= value[0] <= value[1] <= 1, "low <= high in [0, 1]"
                else:
                    valid, least = 0 <= value < math.inf, ">= 0"
                if not valid:
                    raise ValueError(f"Expected {column} {least} for '{name}', actual {value}")
        if abs(math.fsum(self.weights) - 1) > TOLERANCE:
            raise ValueError(f"Expected weights that sum to 1, actual {math.fsum(self.weights)}")
        if not 0 < self.hdi_probability < 1:
            raise ValueError(f"Expected hdi_probability in (0, 1), actual {self.hdi_probability}")

    def as_dict(self) -> dict[str, float]:
        """Returns the weights by name."""
        return dict(zip(self.names, self.weights, strict=True))

    def capped(
        self, most: Mapping[str, float], least: Mapping[str, float] | None = None
    ) -> Mixture:
        """Returns the nearest mixture within bounds, which hold exactly (see `within_bounds`).

        What the capped domains lose goes to the others in proportion to their weights, so their
        ratios stay. Where all domains with weight are full, the rest goes to those without, in
        proportion to their room.

        Args:
            most: Largest weight of each domain, >= 0; 1 where none is given.
            least: Smallest weights of some domains, within the largest.

        Raises:
            DataError: When the largest weights add up to less than 1, or the smallest to more.
        """
        caps = np.array([most.get(name, 1.0) for name in self.names])
        lows = np.array([(least or {}).get(name, 0.0) for name in self.names])
        room, needed = math.fsum(caps), math.fsum(lows)
        if room < 1 - ROUNDING:
            _, found = distinct(1.0, room, kind="f")
            raise DataError(
                f"Expected enough text for the run within the caps, found text for {found} of it"
            )
        if needed > 1 + ROUNDING or (lows > caps).any():
            raise DataError(
                "Expected smallest weights of sum 1 at most, within the largest, found sum "
                f"{needed:g}"
            )
        free = np.array(self.weights)
        feasible = tuple(within_bounds(free[None], lows, caps)[0].tolist())
        return dataclasses.replace(self, weights=feasible, free_weights=self.weights)

    def unpooled(self, pools: Mapping[str, Mapping[str, float]]) -> Mixture:
        """Splits the weight of each pool among its domains, by their shares of its tokens.

        What one of them deserves was not measured: its interval begins with 0 and ends where
        the interval of the pool does.

        Args:
            pools: The domains of each pool, with shares that sum to 1; others' pools have no
                effect.
        """
        pools = {pool: shares for pool, shares in pools.items() if pool in self.names}
        if not pools:
            return self
        of = [pools.get(name, {name: 1.0}) for name in self.names]
        rows = [(k, name, share) for k, shares in enumerate(of) for name, share in shares.items()]
        columns: dict[str, Any] = {}
        for column in ("weights", *COLUMNS):
            values = getattr(self, column)
            if values is not None and column != "hdi":
                columns[column] = tuple(values[k] * share for k, _, share in rows)
        if self.hdi is not None:
            columns["hdi"] = tuple(
                self.hdi[k] if share == 1 else (0.0, self.hdi[k][1]) for k, _, share in rows
            )
        listing = ", ".join(f"{pool} ({len(shares)} domains)" for pool, shares in pools.items())
        note = (
            f"Measured together, because each has too little text: {listing}. They share the "
            "weight of their pool in proportion to their tokens."
        )
        names = tuple(name for _, name, _ in rows)
        return dataclasses.replace(self, names=names, notes=(*self.notes, note), **columns)

    def verdicts(self, prior: Mapping[str, float] | None = None) -> dict[str, str]:
        """Returns "above", "below" or "undecided" by name: each interval against the prior's share.

        An interval that holds the share leaves a domain undecided. Without intervals nothing is
        known, and nothing is returned.

        Args:
            prior: Shares by name; a domain without one is undecided. By default ``1 / K`` each.
        """
        if self.hdi is None:
            return {}
        shares = prior or dict.fromkeys(self.names, 1 / len(self.names))
        found = {}
        for name, (low, high) in zip(self.names, self.hdi, strict=True):
            share = shares.get(name, low)
            found[name] = "above" if low > share else "below" if high < share else "undecided"
        return found

    def check(self, names: Collection[str], tokenizer: str, place: str) -> None:
        """Checks that the mixture fits the data that it is to be used on.

        Args:
            names: The domains that the data can be drawn from.
            tokenizer: SHA-256 of the data's tokenizer.
            place: Where the mixture comes from, for the messages.

        Raises:
            DataError: When a domain that has weight is not among the names.

        Warns:
            UserWarning: When the weights were learned with another tokenizer: they are shares of
                other tokens.
        """
        for name, weight in zip(self.names, self.weights, strict=True):
            if weight > 0 and name not in names:
                known = listed(sorted(names))
                raise DataError(
                    f"Expected domains of the data ({known}), found '{name}' in {place}"
                )
        if self.tokenizer is not None and self.tokenizer != tokenizer:
            warnings.warn(
                f"{place}: the weights are shares of the tokens of another tokenizer "
                f"({self.tokenizer[:12]}) than the data's ({tokenizer[:12]})",
                stacklevel=2,
            )

    def to_json(self) -> str:
        """Returns the mixture as the text of its file, one object a quantity, keyed by domain."""
        columns: dict[str, Any] = {
            column: None if values is None else dict(zip(self.names, values, strict=True))
            for column in ("weights", *COLUMNS)
            for values in [getattr(self, column)]
        }
        content = _File(
            format=FORMAT,
            **columns,
            hdi_probability=self.hdi_probability,
            tokenizer_sha256=self.tokenizer,
            data_sha256=self.data_sha256,
            notes=self.notes,
        )
        return json.dumps(dataclasses.asdict(content), indent=2)

    @property
    def sha256(self) -> str:
        """The hash of the text of its file."""
        return files.content_hash(self.to_json())

    @classmethod
    def from_json(cls, path: Path) -> Mixture:
        """Reads a mixture file.

        Raises:
            DataError: When the file is missing, is not a mixture, or its weights are not valid.
        """
        with expecting(f"Expected a mixture file, found {path}:", Exception):
            content = json.loads(path.read_text("utf-8"), object_pairs_hook=files.unique_keys)
        return cls.from_content(content, path)

    @classmethod
    def from_content(cls, content: Any, path: Path) -> Mixture:
        """Returns the mixture that a file's JSON describes; errors name `path`.

        Raises:
            DataError: When it is not a mixture, or its weights are not valid.
        """
        file = files.parse_as(_File, json.dumps(content), path)
        with expecting(f"Expected a valid mixture in {path}, found:", ValueError):
            columns: dict[str, Any] = {}
            for column in COLUMNS:
                values = getattr(file, column)
                if values is not None and (missing := file.weights.keys() - values.keys()):
                    raise ValueError(f"no {column} of '{min(missing):.60}'")
                columns[column] = values and tuple(values[name] for name in file.weights)
            return cls(
                names=tuple(file.weights),
                weights=tuple(file.weights.values()),
                **columns,
                hdi_probability=file.hdi_probability,
                tokenizer=file.tokenizer_sha256,
                data_sha256=file.data_sha256,
                notes=file.notes or (),
            )


@dataclass(frozen=True, kw_only=True)
class _File:
    """A mixture's file, `mixture.json`: numbers stand by domain."""

    format: Literal["bydore_pyro.mixture/1"]
    weights_are: Literal["shares of training tokens"] = "shares of training tokens"
    weights: dict[str, float]
    free_weights: dict[str, float] | None = None
    standard_deviation: dict[str, float] | None = None
    hdi: dict[str, tuple[float, float]] | None = None
    hdi_probability: float = HDI_PROBABILITY
    tokenizer_sha256: str | None = None
    data_sha256: str | None = None
    notes: tuple[str, ...] | None = ()


def by_name(names: Sequence[str], values: np.ndarray | torch.Tensor) -> dict[str, float]:
    """Returns an array or tensor ``(K,)`` as plain numbers by the domains' names."""
    return dict(zip(names, values.tolist(), strict=True))
