"""How the columns of a table of runs are taken: as weights, as metrics, or not at all.

Names decide what is neither: settings, sizes, times, losses of the training. Of the others, weights
are neighbours that in every run sum to 1, to 100, or, as counts of tokens, to one number; those
whose names declare them (`weights/web`) come first. A table in which two sets of columns do so, or
several phases have columns, is refused: a run has one mixture here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """

    places: tuple[int, ...]
    unit: float
    off: float

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
    mixture = _the_mixture(names, numbers, free, path, role)
    if mixture is None and role == "both":
        text = listed([names[place] for place, reason in apart.items() if reason == "text"], SHOWN)
        raise DataError(
            f"Expected in {path} columns of weights, which sum to 1 (or 100) in every run, found "
            f"none among {listed([names[place] for place in free], SHOWN)}"
            f"{f' (text instead of numbers: {text})' if text else ''}; to see which run lacks "
            f"some, {DECLARE}"
        )
    weights = () if mixture is None else mixture.places
    phases = [phase for place in weights if (phase := phase_of(names[place]))]
    if len({*phases}) > 1:
        raise DataError(
            f"Expected one mixture a run in {path}, found columns of "
            f"{listed(dict.fromkeys(phases), 4)}: {EXPOSURE}"
        )
    for place in set(free) - set(weights):
        if reason := reason_no_metric(names[place]):
            apart[place] = reason
        elif role == "weights":
            apart[place] = "beside the weights"
    metrics = [place for place in free if place not in apart and place not in weights]
    return Columns(
        weights=tuple(names[place] for place in weights),
        metrics=tuple(names[place] for place in metrics),
        ignored={names[place]: apart[place] for place in sorted(apart)},
        unit=1.0 if mixture is None else mixture.unit,
        phase=phases[0] if phases and len(phases) == len(weights) else "",
        unused=tuple(names[place] for place in weights if not numbers[:, place].any()),
    )


def numbers_of_cells(frame: pandas.DataFrame) -> np.ndarray:
    """Returns the cells as numbers ``(rows, columns)``, NaN for what is no finite one."""
    import pandas

    values = frame.apply(pandas.to_numeric, errors="coerce").to_numpy(float, copy=True)
    values[~np.isfinite(values)] = np.nan
    return values


def _the_mixture(
    names: Sequence[str], numbers: np.ndarray, free: Sequence[int], path: Path, role: Role
) -> _Mixture | None:
    """Returns the columns of weights, None where there are none."""
    quiet = [
        place
        for place in free
        if not sounds_like_a_metric(names[place]) and not (numbers[:, place] < 0).any()
    ]
    starts = {place: match[0] for place in free if (match := DECLARED.match(names[place]))}
    declared = tuple(starts) if len({*starts.values()}) == 1 else ()
    found = _summed(numbers, declared) or _best(names, numbers, quiet, path, role)
    if role == "metrics":
        if found is None:
            return None
        raise DataError(
            f"Expected metrics in {path}, found columns that sum to {found.unit:g} in every run: "
            f"{_shown(names, found)}; {EXPOSURE}"
        )
    if role == "weights" and not (found and found.exact):
        found = _summed(numbers, tuple(free)) or found
        declared = declared or tuple(free)
    if found is None and (declared or role == "weights"):  # so that the message can name the run
        unit = 100.0 if np.median(np.nan_to_num(numbers[:, declared]).sum(1)) > 50 else 1.0
        return _Mixture(places=declared, unit=unit, off=np.inf)
    if found is None:
        return None
    rest = [place for place in quiet if place not in found.places]
    differing = [place for place in rest if np.ptp(_known(numbers[:, place]))]
    others = _neighbours(numbers, differing)
    others += [  # a second mixture may be the same in all runs
        one
        for one in _neighbours(numbers, rest)
        if len(one.places) == len(found.places) or phase_of(names[one.places[0]])
    ]
    if others:
        raise DataError(
            f"Expected one mixture a run in {path}, found two: {_shown(names, found)} (sum "
            f"{found.unit:g}); and {_shown(names, others[0])} (sum {others[0].unit:g}); {EXPOSURE}"
        )
    return found


def _shown(names: Sequence[str], mixture: _Mixture) -> str:
    return listed([names[place] for place in mixture.places], 4)


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _best(
    names: Sequence[str], numbers: np.ndarray, places: Sequence[int], path: Path, role: Role
) -> _Mixture | None:
    """Returns the neighbours among some columns that sum to one number in all runs: those that do
    so exactly, and of these many before few; else those that are nearest.

    Raises:
        DataError: When in a file of both others that overlap with them sum to nearly the same.
    """
    found = _neighbours(numbers, places)
    if not found:
        return None
    exact = [one for one in found if one.exact]
    if exact:
        return max(exact, key=lambda one: (len(one.places), one.unit == 1))
    best = min(found, key=lambda one: (one.unit != 1, round(one.off, 9), -len(one.places)))
    for other in found:
        differing = {*other.places} ^ {*best.places}
        zero = not any(_known(numbers[:, place]).any() for place in differing)
        overlap = not {*other.places}.isdisjoint(best.places)
        if role == "both" and overlap and not zero and other.off < CLEAR * best.off:
            raise DataError(
                f"Expected in {path} one choice of columns that sum to 1, found that they do with "
                f"and without {listed([names[p] for p in sorted(differing)], 4)}: {DECLARE}"
            )
    return best


def _summed(numbers: np.ndarray, places: Sequence[int]) -> _Mixture | None:
    """Returns columns as a mixture, if in every run that has them all they sum to 1 or to 100, or
    are counts of tokens that sum to one number."""
    values = numbers[:, list(places)]
    values = values[np.isfinite(values).all(1)]
    if len(places) < 2 or 2 * len(values) < len(numbers) or (values < 0).any():
        return None
    sums, units = values.sum(1), [1.0, 100.0]
    whole = len(values) > 1 and not (values % 1).any() and np.ptp(values, 0).all()
    if whole and values.mean() >= FEWEST_COUNTED:
        units.append(float(np.median(sums)))
    off, unit = min((float(np.abs(sums / unit - 1).max()), unit) for unit in units)
    if off > ROUNDING + UNROUNDED:
        return None
    return _Mixture(places=tuple(places), unit=unit, off=off)


def _neighbours(numbers: np.ndarray, places: Sequence[int]) -> list[_Mixture]:
    """Returns all mixtures of columns that stand beside each other among some."""
    found = []
    for start in range(len(places) - 1):
        values = numbers[:, list(places[start:])]
        lacking = np.isnan(values).cumsum(1)[:, 1:] > 0
        sums = np.nan_to_num(values).cumsum(1)[:, 1:]
        least, most = (np.where(lacking, end, sums) for end in (np.inf, -np.inf))
        most, least = most.max(0), least.min(0)
        for end in np.flatnonzero(most - least <= 3 * ROUNDING * most):
            if one := _summed(numbers, places[start : start + 2 + int(end)]):
                found.append(one)
    return found
