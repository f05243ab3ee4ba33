"""The one value that all parts exchange: domains' names and their weights on the simplex."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.errors import DataError, distinct, expecting, listed
from bydore_pyro.files import content_hash, unique_keys

if TYPE_CHECKING:
    import torch

FORMAT = "bydore_pyro.mixture/1"
UNIT = "shares of training tokens"
HDI_PROBABILITY = 0.94  # ArviZ's
TOLERANCE = 1e-6  # how far the weights of a file may be from summing to 1
ROUNDING = 1e-9  # how far bounds may be from leaving a mixture, by the rounding of their sum
MOST_SHOWN = 20  # domains that are shown one by one
COLUMNS = ("free_weights", "standard_deviation", "hdi", "prior")  # beside the weights, or None


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


def below(names: Collection[str]) -> dict[str, list[int]]:
    """Returns the places of the names below each path, as `web` and `web/law` for `web/law/high`,
    if the path stands for several names but not for all."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        for at in (at for at, letter in enumerate(name) if letter == "/"):
            places.setdefault(name[:at], []).append(place)
    return {path: own for path, own in sorted(places.items()) if 1 < len(own) < len(names)}


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
        branches: Highest-density interval of the sum of the weights below ``web/law``, by such
            path; empty where names are no paths, or it is not known.
        rest: The same of the sum of all weights but the 20 largest (`not_leading`), or None.
        prior: Shares ``(K,)`` that the method set out from and that intervals are held against;
            None stands for the uniform ones.
        predicted_loss: Mean and standard deviation (None where it is not known) of the loss that
            the method predicts for these weights ("weights"), for the prior ("prior") and equal
            shares ("uniform"); or None. Where a metric was maximised, it is that metric's value.
        notes: What whoever uses the weights has to know, a sentence each.

    Raises:
        ValueError: When the names repeat, the lengths differ, the weights leave the simplex, or
            their uncertainty or what is predicted of them is none.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    standard_deviation: tuple[float, ...] | None = None
    hdi: tuple[tuple[float, float], ...] | None = None
    hdi_probability: float = HDI_PROBABILITY
    tokenizer: str | None = None
    data_sha256: str | None = None
    free_weights: tuple[float, ...] | None = None
    branches: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rest: tuple[float, float] | None = None
    prior: tuple[float, ...] | None = None
    predicted_loss: Mapping[str, tuple[float, float | None]] | None = None
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
        sums = {**self.branches, **({} if self.rest is None else {"the rest": self.rest})}
        for path, (low, high) in sums.items():
            if not 0 <= low <= high <= 1:
                raise ValueError(f"Expected low <= high in [0, 1] below '{path}', actual {low}")
        hashes = [one for one in (self.tokenizer, self.data_sha256) if one is not None]
        for value in (*hashes, *self.notes):
            if not isinstance(value, str):
                raise ValueError(f"Expected hashes and notes as text, actual {value!r}")
        for name, (mean, deviation) in (self.predicted_loss or {}).items():
            if not (math.isfinite(mean) and (deviation is None or 0 <= deviation < math.inf)):
                raise ValueError(f"Expected a predicted loss of '{name}', actual {mean}")

    def as_dict(self) -> dict[str, float]:
        """Returns the weights by name."""
        return dict(zip(self.names, self.weights, strict=True))

    @property
    def not_leading(self) -> tuple[int, ...]:
        """The places of all domains but the 20 with the largest (free) weights."""
        order = np.argsort(-np.array(self.free_weights or self.weights), kind="stable")
        return tuple(order[MOST_SHOWN:].tolist())

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
        # What was predicted of other weights does not hold for these.
        return dataclasses.replace(
            self, weights=feasible, free_weights=self.weights, predicted_loss=None
        )

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

    def verdicts(self) -> dict[str, str]:
        """Returns "above", "below" or "undecided" by name: each interval against its prior.

        That is ``1 / K`` where no `prior` is noted. An interval that holds the prior's share leaves
        a domain undecided. Without intervals nothing is known, and nothing is returned.
        """
        if self.hdi is None:
            return {}
        shares = self.prior or (1 / len(self.names),) * len(self.names)
        return {
            name: "above" if low > share else "below" if high < share else "undecided"
            for name, (low, high), share in zip(self.names, self.hdi, shares, strict=True)
        }

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
        """Returns the mixture as JSON, one object a quantity, keyed by domain."""

        def by_name(column: str) -> dict[str, Any] | None:
            values = getattr(self, column)
            return None if values is None else dict(zip(self.names, values, strict=True))

        predicted: Any = self.predicted_loss and {
            name: {"mean": mean, "standard_deviation": deviation}
            for name, (mean, deviation) in self.predicted_loss.items()
        }
        content = {
            "format": FORMAT,
            "weights_are": UNIT,
            **{column: by_name(column) for column in ("weights", *COLUMNS[:3])},
            **({"branches": dict(self.branches)} if self.branches else {}),
            **({"rest": self.rest} if self.rest is not None else {}),
            "hdi_probability": self.hdi_probability,
            "tokenizer_sha256": self.tokenizer,
            "data_sha256": self.data_sha256,
            "prior": by_name("prior"),
            "predicted_loss": predicted,
            "notes": list(self.notes),
        }
        return json.dumps(content, indent=2)

    @property
    def sha256(self) -> str:
        """The hash of the whole mixture."""
        return content_hash(self.to_json())

    @classmethod
    def from_json(cls, path: Path) -> Mixture:
        """Reads a mixture file.

        Raises:
            DataError: When the file is missing, is not a mixture, or its weights are not valid.
        """
        with expecting(f"Expected a mixture file, found {path}:", Exception):
            content = json.loads(path.read_text("utf-8"), object_pairs_hook=unique_keys)
        return cls.from_content(content, path)

    @classmethod
    def from_content(cls, content: Any, path: Path) -> Mixture:
        """Returns the mixture that a file's JSON describes; errors name `path`.

        Raises:
            DataError: When it is not a mixture, or its weights are not valid.
        """
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else type(content).__name__
            raise DataError(f"Expected format '{FORMAT}' in {path}, found {found!r}")
        with expecting(f"Expected a valid mixture in {path}, found:", Exception):
            return cls._from_content(content)

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Mixture:
        unit, notes = content.get("weights_are", UNIT), content.get("notes") or []
        if unit != UNIT:
            raise ValueError(f"weights_are {unit!r:.60} instead of {UNIT!r}")
        if not isinstance(notes, list):
            raise ValueError(f"{notes!r:.60} instead of a list as notes")
        if content.get("weights") is None:
            raise ValueError("no weights")
        weights = {n: _number(v, n) for n, v in _mapping(content, "weights").items()}

        def column(key: str) -> tuple[Any, ...] | None:
            if content.get(key) is None:
                return None
            values, read = _mapping(content, key), _pair if key == "hdi" else _number
            if missing := [name for name in weights if name not in values]:
                raise ValueError(f"no {key} of '{missing[0]:.60}'")
            return tuple(read(values[name], f"{key} of {name}") for name in weights)

        def predicted(of: str, loss: Any) -> tuple[float, float | None]:
            if not isinstance(loss, dict) or not {"mean", "standard_deviation"} <= loss.keys():
                raise ValueError(
                    f"{loss!r:.60} instead of mean and standard_deviation of '{of:.60}'"
                )
            mean, deviation = loss["mean"], loss["standard_deviation"]
            return _number(mean, of), None if deviation is None else _number(deviation, of)

        rest, losses = content.get("rest"), _mapping(content, "predicted_loss")
        return cls(
            names=tuple(weights),
            weights=tuple(weights.values()),
            **{key: column(key) for key in COLUMNS},
            branches={n: _pair(ends, n) for n, ends in _mapping(content, "branches").items()},
            rest=None if rest is None else _pair(rest, "rest"),
            hdi_probability=_number(
                content.get("hdi_probability", HDI_PROBABILITY), "hdi_probability"
            ),
            tokenizer=content.get("tokenizer_sha256"),
            data_sha256=content.get("data_sha256"),
            predicted_loss={of: predicted(of, loss) for of, loss in losses.items()} or None,
            notes=tuple(notes),
        )


def _mapping(content: dict[str, Any], key: str) -> dict[str, Any]:
    """Returns values by name; nothing where there are none."""
    found = content.get(key)
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"{found!r:.60} instead of names with numbers as {key}")
    return found or {}


def _number(value: Any, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{value!r:.60} instead of a number as '{what:.60}'")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"a number that is too large as '{what:.60}'") from None


def _pair(value: Any, what: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{value!r:.60} instead of two numbers as '{what:.60}'")
    return _number(value[0], what), _number(value[1], what)


def by_name(names: Sequence[str], values: np.ndarray | torch.Tensor) -> dict[str, float]:
    """Returns an array or tensor ``(K,)`` as plain numbers by the domains' names."""
    return dict(zip(names, values.tolist(), strict=True))
