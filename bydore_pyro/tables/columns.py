"""How the columns of a table of runs are taken: as weights, as metrics, or not at all.

Weights are known by their values: in every run they sum to 1, to 100, or, as counts of tokens, to
one number. They may stand anywhere; those whose names declare them (`weights/web`) come first.
Names decide what is neither: settings, sizes, times, losses of the training. A table in which two
sets of columns sum to 1, or several phases have columns, is refused: a run has one mixture here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from bydore_pyro.errors import DataError, listed
from bydore_pyro.tables.column_names import (
    DECLARED,
    phase_of,
    reason_apart,
    reason_no_metric,
    sounds_like_a_metric,
)

if TYPE_CHECKING:
    import pandas

Role = Literal["weights", "metrics", "both"]  # what a file holds
ROUNDING = 0.01  # how far the weights of a run may be from summing to 1
UNROUNDED = 1e-6  # up to here no note is made
CLEAR = 3.0  # times as far from 1 another choice of columns must sum
FEWEST_COUNTED = 100.0  # tokens a domain and run, in the mean
SHOWN = 12  # names in a line
EXPOSURE = (
    "keep the columns of one; if your runs changed their mixture on the way, their exposure is the "
    "mean of their mixtures, weighted by their lengths"
)
DECLARE = "begin the names of the weights' columns with weights/"


@dataclass(frozen=True, kw_only=True)
class Columns:
    """How a table's columns were taken; the names are the table's own.

    Attributes:
        weights: The columns of weights, in the table's order.
        metrics: Those of metrics.
        ignored: Why each of the others is neither.
        unit: What a run's weights sum to: 1, 100, or a number of tokens.
        phase: After which phase of a run its weights are called; "" for none.
        unused: Those columns of weights that are 0 in all runs.
    """

    weights: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    unit: float = 1.0
    phase: str = ""
    unused: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Returns what is printed of the columns."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.ignored.items():
            reasons.setdefault(reason, []).append(name or "(no name)")
        ignored = [f"{listed(names, SHOWN)} ({reason})" for reason, names in reasons.items()]
        unit = {1.0: "", 100.0: ", in percent"}.get(self.unit, ", counts of tokens")
        phase = f", of {self.phase}, taken for the whole run" if self.phase else ""
        unused = f"; 0 in all runs: {listed(self.unused, SHOWN)}" if self.unused else ""
        return [
            f"weights{unit}{phase}: {listed(self.weights, SHOWN)}{unused}",
            f"metrics: {listed(self.metrics, SHOWN)}",
            *([f"neither: {'; '.join(ignored)}"] if ignored else []),
        ]

    def beside(self, other: Columns) -> Columns:
        """Returns these columns of weights with the metrics of another file."""
        return replace(self, metrics=other.metrics, ignored={**self.ignored, **other.ignored})


@dataclass(frozen=True, kw_only=True)
class _Mixture:
    """Columns that sum to one number in all runs.

    Attributes:
        places: Of the columns, ascending.
        unit: What they sum to.
        off: How far a run's sum is from it at most, as a share.
        named: Whether their names, too, tell them from others.
    """

    places: tuple[int, ...]
    unit: float
    off: float
    named: bool

    @property
    def exact(self) -> bool:
        """Whether the sums are not even rounded."""
        return self.off <= UNROUNDED


def classified(frame: pandas.DataFrame, path: Path, role: Role) -> Columns:
    """Returns how the columns of a table are taken.

    Args:
        frame: The cells as text, numbers with a decimal point.
        path: For messages.
        role: What the file holds. In a file of weights alone every column is one that is not set
            apart by its name, unless others sum to 1 by themselves.

    Raises:
        DataError: When a run has two mixtures, or nobody can tell which columns are weights.
    """
    names, numbers = [str(name) for name in frame.columns], numbers_of_cells(frame)
    apart = {}
    for place, name in enumerate(names):
        reason = reason_apart(name)
        if not reason and np.isnan(numbers[:, place]).all():
            reason = "text" if (frame.iloc[:, place] != "").any() else "empty"
        if reason:
            apart[place] = reason
    free = [place for place in range(len(names)) if place not in apart]
    _refuse_phases(names, numbers, free, path, role)
    mixture = _the_mixture(names, numbers, free, path, role)
    weights = () if mixture is None else mixture.places
    for place in set(free) - set(weights):
        if reason := reason_no_metric(names[place]):
            apart[place] = reason
        elif role == "weights":
            apart[place] = "beside the weights"
    metrics = [place for place in free if place not in apart and place not in weights]
    phases = {phase_of(names[place]) for place in weights}
    return Columns(
        weights=tuple(names[place] for place in weights),
        metrics=tuple(names[place] for place in metrics),
        ignored={names[place]: apart[place] for place in sorted(apart)},
        unit=1.0 if mixture is None else mixture.unit,
        phase=(phases.pop() or "") if len(phases) == 1 else "",
        unused=tuple(names[place] for place in weights if not numbers[:, place].any()),
    )


def numbers_of_cells(frame: pandas.DataFrame) -> np.ndarray:
    """Returns the cells as numbers ``(rows, columns)``, NaN for what is no finite one."""
    import pandas

    values = frame.apply(pandas.to_numeric, errors="coerce").to_numpy(float, copy=True)
    values[~np.isfinite(values)] = np.nan
    return values


def _refuse_phases(
    names: Sequence[str], numbers: np.ndarray, free: Sequence[int], path: Path, role: Role
) -> None:
    """Refuses columns of weights that are called after several phases."""
    phases: dict[str, list[int]] = {}
    for place in free:
        phase = phase_of(names[place])
        if phase and not sounds_like_a_metric(names[place]):
            phases.setdefault(phase, []).append(place)
    if role == "metrics" or len(phases) < 2 or min(map(len, phases.values())) < 2:
        return
    sums = numbers[:, [place for places in phases.values() for place in places]].sum(1)
    if role == "weights" or np.ptp(_known(sums)) <= ROUNDING * np.nanmax(np.abs(sums)):
        first = [names[places[0]] for places in phases.values()]
        raise DataError(
            f"Expected one mixture a run in {path}, found columns of {listed(phases, 4)} "
            f"({listed(first, 4)}): {EXPOSURE}"
        )


def _the_mixture(
    names: Sequence[str], numbers: np.ndarray, free: Sequence[int], path: Path, role: Role
) -> _Mixture | None:
    """Returns the columns of weights, None in a file of metrics."""
    may_be = [p for p in free if not (numbers[:, p] < 0).any()]
    quiet = [p for p in may_be if not sounds_like_a_metric(names[p])]
    declared = _declared(names, free)
    whole = _summed(numbers, tuple(free), named=True) if role == "weights" else None
    found = whole if whole and whole.exact else _summed(numbers, declared, named=True)
    found = found or _best(names, numbers, quiet, path, role)
    if role == "metrics":
        if found is None:
            return None
        raise DataError(
            f"Expected metrics in {path}, found columns that sum to {found.unit:g} in every run: "
            f"{_shown(names, found)}; {EXPOSURE}"
        )
    found = found or _best(names, numbers, may_be, path, role)
    if not (found and found.exact):
        found = whole or found
    if found is None and role == "weights":
        return _Mixture(places=tuple(free), unit=1.0, off=np.inf, named=True)
    if found is None and declared:
        unit = 100.0 if np.nanmedian(numbers[:, declared].sum(1)) > 50 else 1.0
        return _Mixture(places=declared, unit=unit, off=np.inf, named=True)
    if found is None:
        raise DataError(
            f"Expected in {path} columns of weights, which sum to 1 (or 100) in every run, found "
            f"none among {listed([names[place] for place in free], SHOWN)}; to see which run lacks "
            f"some, {DECLARE}"
        )
    rest = [p for p in quiet if p not in found.places]
    other = _best(names, numbers, [p for p in rest if np.ptp(_known(numbers[:, p]))], path, role)
    if other is None:  # a second mixture may be the same in all runs
        groups = [g for g in _named_groups(names, rest) if len(g) == len(found.places)]
        other = next((one for g in groups if (one := _summed(numbers, g, True))), None)
    if other is not None:
        raise DataError(
            f"Expected one mixture a run in {path}, found two: {_shown(names, found)} (sum "
            f"{found.unit:g}); and {_shown(names, other)} (sum {other.unit:g}); {EXPOSURE}"
        )
    return found


def _declared(names: Sequence[str], places: Sequence[int]) -> tuple[int, ...]:
    """Returns the columns whose names declare weights; none if they do so in several ways."""
    starts = {place: match[0] for place in places if (match := DECLARED.match(names[place]))}
    return tuple(starts) if len({*starts.values()}) == 1 else ()


def _shown(names: Sequence[str], mixture: _Mixture) -> str:
    return listed([names[place] for place in mixture.places], 4)


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _best(
    names: Sequence[str], numbers: np.ndarray, places: Sequence[int], path: Path, role: Role
) -> _Mixture | None:
    """Returns the columns among some that sum to one number in all runs; those that do so exactly
    before rounded ones, many before few, those with names in common before neighbours.

    Raises:
        DataError: When in a file of both others that overlap with them sum to nearly the same.
    """
    groups = [one for g in _named_groups(names, places) if (one := _summed(numbers, g, True))]
    neighbours = _neighbours(numbers, places)
    found = groups + neighbours or _counts(names, numbers, places)
    if not found:
        return None
    best = min(
        found,
        key=lambda one: (
            not one.exact,
            -len(one.places) if one.exact else 0,
            one.unit != 1,
            not one.named,
            0.0 if one.exact else round(one.off, 9),
            -len(one.places),
        ),
    )
    if role == "both" and not (best.exact or best.named):
        for other in neighbours:
            differing = set(other.places) ^ set(best.places)
            overlap = set(other.places) & set(best.places)
            zero = all(not _known(numbers[:, place]).any() for place in differing)
            if overlap and not zero and other.off < CLEAR * best.off:
                raise DataError(
                    f"Expected in {path} one choice of columns that sum to 1, found that they do "
                    f"with and without {listed([names[p] for p in sorted(differing)], 4)}: "
                    f"{DECLARE}"
                )
    return best


def _summed(numbers: np.ndarray, places: tuple[int, ...], named: bool) -> _Mixture | None:
    """Returns columns as a mixture, if they sum to 1 or to 100 in every run that has them all."""
    values = numbers[:, list(places)]
    values = values[np.isfinite(values).all(1)]
    if len(places) < 2 or 2 * len(values) < len(numbers) or (values < 0).any():
        return None
    sums = values.sum(1)
    offs = {unit: float(np.abs(sums / unit - 1).max()) for unit in (1.0, 100.0)}
    unit = min(offs, key=lambda one: offs[one])
    if offs[unit] > ROUNDING + UNROUNDED:
        return None
    return _Mixture(places=places, unit=unit, off=offs[unit], named=named)


def _neighbours(numbers: np.ndarray, places: Sequence[int]) -> list[_Mixture]:
    """Returns all mixtures of columns that stand beside each other among some."""
    found = []
    for unit in (1.0, 100.0):
        stretch: list[int] = []
        for place in (*places, None):
            if place is not None and _known(numbers[:, place]).max() <= unit * (1 + ROUNDING):
                stretch.append(place)
                continue
            found += _in_stretch(numbers, stretch, unit)
            stretch = []
    return found


def _in_stretch(numbers: np.ndarray, places: Sequence[int], unit: float) -> list[_Mixture]:
    """Returns all mixtures of neighbours among columns of which none is above their sum."""
    values = numbers[:, list(places)]
    lacking = np.isnan(values).cumsum(1)
    sums = np.nan_to_num(values).cumsum(1)
    found = []
    for start in range(len(places) - 1):
        before = sums[:, start - 1 : start] if start else 0.0
        without = lacking[:, start - 1 : start] if start else 0
        own, gaps = sums[:, start + 1 :] - before, lacking[:, start + 1 :] - without
        off = np.where(gaps > 0, 0.0, np.abs(own / unit - 1)).max(0)
        for end in np.flatnonzero(off <= ROUNDING + 2 * UNROUNDED):
            chosen = tuple(places[start : start + 2 + int(end)])
            if one := _summed(numbers, chosen, False):
                found.append(one)
    return found


def _counts(names: Sequence[str], numbers: np.ndarray, places: Sequence[int]) -> list[_Mixture]:
    """Returns columns of counts of tokens that sum to one number in all runs."""
    quiet = [p for p in places if not sounds_like_a_metric(names[p])]
    whole = [p for p in quiet if not (_known(numbers[:, p]) % 1).any()]
    differing = [p for p in whole if np.ptp(_known(numbers[:, p])) > 0]
    found = []
    for group in (*_named_groups(names, differing), *_spans(differing)):
        values = numbers[:, list(group)]
        values = values[np.isfinite(values).all(1)]
        if len(group) < 2 or 2 * len(values) < len(numbers) or len(values) < 2:
            continue
        sums = values.sum(1)
        unit = float(np.median(sums))
        off = float(np.abs(sums / unit - 1).max()) if unit > 0 else np.inf
        if values.mean() >= FEWEST_COUNTED and off <= ROUNDING:
            found.append(_Mixture(places=tuple(group), unit=unit, off=off, named=True))
    return found


def _spans(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Returns all stretches of at least two neighbours."""
    for start in range(len(places) - 1):
        for end in range(start + 2, len(places) + 1):
            yield tuple(places[start:end])


def _named_groups(names: Sequence[str], places: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns columns whose names begin or end alike, and those whose names are what is left of
    such names: web and code, beside web_2 and code_2."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place in places:
        for cut in _cuts(names[place]):
            groups.setdefault(("begins", names[place][:cut]), []).append(place)
            groups.setdefault(("ends", names[place][cut:]), []).append(place)
    found, by_name = list[tuple[int, ...]](), {names[place]: place for place in places}
    for (end, common), group in groups.items():
        if len(group) < 2:
            continue
        found.append(tuple(group))
        size = len(common)
        rests = [names[p][size:] if end == "begins" else names[p][:-size] for p in group]
        if all(rest in by_name for rest in rests):
            found.append(tuple(sorted(by_name[rest] for rest in rests)))
    return list(dict.fromkeys(found))


def _cuts(name: str) -> list[int]:
    """Returns where a name may be cut: between letters, digits and others, and before capitals."""
    kinds = [
        "digit" if c.isdigit() else "upper" if c.isupper() else "lower" if c.islower() else "other"
        for c in name
    ]
    pairs = itertools.pairwise(kinds)
    return [
        place
        for place, (one, next_) in enumerate(pairs, 1)
        if one != next_ and (one, next_) != ("upper", "lower")
    ]
