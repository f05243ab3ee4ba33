"""Tables of finished runs: the mixture that each was trained on, and the losses that it reached.

`read_runs` knows three formats. RegMix's: `{split}_mixture_{scale}.csv` has a column `index` and
columns that begin with `train_`, the weights; `{split}_pile_loss_{scale}.csv` has `index` and
columns that begin with `metric/` or end with `_val_loss`. What all domains' names begin with
(`train_the_pile_` or `train_`) is left off, and so are `metric/`, `the_pile_` and `_val_loss`.
olmix's: `ratios.csv` and `metrics.csv`, joined on `run` or `run_id`. One file: `run`, then the
weights, which are the columns that sum to 1, then the losses.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bydore_pyro.utils import DataError, one_line

if TYPE_CHECKING:
    import pandas

__all__ = ["RunsTable", "next_rows", "read_mixtures", "read_runs", "some"]

OLMIX = ("ratios.csv", "metrics.csv")
REGMIX = (re.compile(r"(.+)_mixture_(.+)\.csv"), re.compile(r"(.+)_pile_loss_(.+)\.csv"))
KEYS = ("run", "run_id", "index", "mixture", "name")  # columns that may name the rows
LARGEST = 1e100
ROUNDED = 1e-12  # differences of losses that are rounding, as a share of the largest loss
ROUNDING = 0.01  # how far the weights of a run may be from summing to 1
UNROUNDED = 1e-6  # as far, nobody is told


@dataclass(frozen=True, kw_only=True, eq=False)
class RunsTable:
    """``N`` finished runs on mixtures of ``K`` domains, each with ``M`` target losses.

    `read_runs` checks what it reads; here nothing is checked.

    Args:
        runs: Names of the runs, ``N`` different ones.
        domains: Names of the domains, ``K`` different ones.
        weights: Of every run ``(N, K)``: not negative, each row summing to 1 (within 0.01, for
            tables that are kept as they were rounded).
        targets: Names of the losses, ``M`` different ones.
        losses: Of every run ``(N, M)``, finite, lower is better, in the table's own unit.
        header: The columns of the table of weights: their names, and the domain of each or "".
    """

    runs: tuple[str, ...]
    domains: tuple[str, ...]
    weights: np.ndarray
    targets: tuple[str, ...]
    losses: np.ndarray
    header: tuple[tuple[str, str], ...] = ()

    def losses_of(self, target: str) -> np.ndarray:
        """Returns a target's losses ``(N,)``.

        Raises:
            DataError: When the table does not have the target.
        """
        if target not in self.targets:
            raise DataError(
                f"Expected one of the targets {', '.join(self.targets)}, found '{target}'"
            )
        return self.losses[:, self.targets.index(target)]

    def check(self, target: str) -> None:
        """Refuses losses of a target from which nothing can be learned.

        Raises:
            DataError: When they are all equal but for rounding, or too large to be squared; or runs
                on one mixture are more than a standard deviation of all runs' losses apart.
        """
        losses, first = self.losses_of(target), dict[bytes, int]()
        largest = float(np.abs(losses).max())
        if largest > LARGEST:
            raise DataError(f"Expected {target} of at most {LARGEST:g}, found {largest:g}")
        if not np.ptp(losses) > max(ROUNDED * largest, 1 / LARGEST):
            raise DataError(f"Expected {target} to differ between runs, found {losses[0]:g} in all")
        for row, weights in enumerate(self.weights):
            one = first.setdefault(weights.tobytes(), row)
            if abs(losses[row] - losses[one]) > losses.std():
                raise DataError(
                    f"Expected runs on one mixture to agree within {losses.std():.4g}, the spread "
                    f"of all runs, found runs '{self.runs[one]}' and '{self.runs[row]}' on the "
                    f"same weights with {target} {losses[one]:.6g} and {losses[row]:.6g}"
                )

    def ordered(self, domains: Sequence[str], targets: Sequence[str]) -> RunsTable:
        """Returns the table with the same domains in another order, and these targets alone.

        Raises:
            DataError: When the domains are not the same, or a target is missing.
        """
        other = sorted(set(domains) ^ set(self.domains))
        if other:
            raise DataError(f"Expected the same domains, found '{other[0]}' on one side only")
        return replace(
            self,
            domains=tuple(domains),
            weights=self.weights[:, [self.domains.index(name) for name in domains]],
            targets=tuple(targets),
            losses=np.stack([self.losses_of(target) for target in targets], axis=1),
        )


def read_runs(
    place: Path, split: str | None = None, *, scale: str | None = None, normalise: bool = True
) -> RunsTable:
    """Reads tables of weights and losses.

    Args:
        place: Their folder, the table of weights, or one file of both.
        split: RegMix's, such as "train"; None where there is one only.
        scale: RegMix's, such as "1m"; None where there is one only.
        normalise: Whether every run's weights, which tables hold rounded, are divided by their sum.

    Raises:
        DataError: When tables are missing, cannot be read, do not fit each other, or hold what is
            not a weight or a loss.

    Warns:
        UserWarning: When weights are normalised that do not sum to 1; by more than 0.01 is refused.
    """
    paths = _find(place, split, scale)
    weights, losses = (_read(path) for path in paths)
    if paths[0] == paths[1]:
        domains, targets = _parted(weights, place)
    elif paths[0].name in OLMIX:
        domains, targets = ({name: name for name in _values(one)} for one in (weights, losses))
    else:
        domains, targets = _regmix(weights, losses)
    for path, names in zip(paths, (domains, targets), strict=True):
        if not names or "" in names.values():
            found = "one without a name" if names else "none"
            raise DataError(f"Expected columns of weights and losses in {path}, found {found}")
        _once(list(names.values()), path, "name")
    for one, other, path in ((weights, losses, paths[0]), (losses, weights, paths[1])):
        alone = one.index.difference(other.index, sort=False)
        if len(alone):
            raise DataError(
                f"Expected the same runs in {paths[0]} and {paths[1]}, found '{alone[0]}' only in "
                f"{path.name} ({len(alone)} in all)"
            )
    return RunsTable(
        runs=tuple(weights.index),
        domains=tuple(domains.values()),
        weights=_on_simplex(weights, list(domains), paths[0], normalise),
        targets=tuple(targets.values()),
        losses=_numbers(losses.loc[weights.index], list(targets), paths[1]),
        header=tuple((column, domains.get(column, "")) for column in weights.columns),
    )


def read_mixtures(path: Path, domains: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Reads names and weights ``(S, K)`` of mixtures, a row each, on the simplex.

    Raises:
        DataError: When the file cannot be read, a domain is missing, or a row is no mixture.
    """
    table = _read(path)
    missing = [name for name in domains if name not in table.columns]
    if missing:
        raise DataError(
            f"Expected a column for each of the runs' domains in {path}, found none for "
            f"'{missing[0]}'"
        )
    return tuple(table.index), _on_simplex(table, list(domains), path, True)


def next_rows(table: RunsTable, mixtures: np.ndarray) -> str:
    """Returns mixtures ``(n, K)`` as CSV text, to be appended to the table of weights.

    The runs get names that the table does not have: the next numbers where its runs are numbered,
    else `next-N`. Columns that are no domain's hold the run's name.
    """
    import pandas

    numbered = all(run.isdecimal() for run in table.runs)
    number = max(map(int, table.runs)) if numbered else len(table.runs)
    rows = []
    for weights in mixtures:
        number += 1
        while (name := str(number) if numbered else f"next-{number}") in table.runs:
            number += 1
        of = dict(zip(table.domains, map(repr, weights.tolist()), strict=True))
        rows.append([of.get(domain, name) for _, domain in table.header])
    frame = pandas.DataFrame(rows, columns=[column for column, _ in table.header])
    return frame.to_csv(index=False, lineterminator="\n")


def _find(place: Path, split: str | None, scale: str | None) -> tuple[Path, Path]:
    """Returns the table of weights and the table of losses, which may be one file."""
    if match := REGMIX[0].fullmatch(place.name):
        place, split, scale = place.parent, match[1], match[2]
    elif place.name == OLMIX[0]:
        place, split, scale = place.parent, None, None
    elif place.is_file():
        return place, place
    if not place.is_dir():
        raise DataError(f"Expected a folder or a CSV file of runs, found no {place}")
    names = sorted(path.name for path in place.glob("*.csv"))
    if split is None and scale is None and set(OLMIX) & set(names):
        for name in OLMIX:
            if name not in names:
                raise DataError(f"Expected {' and '.join(OLMIX)} in {place}, found no {name}")
        return place / OLMIX[0], place / OLMIX[1]
    found = [
        {match.groups(): name for name in names if (match := pattern.fullmatch(name))}
        for pattern in REGMIX
    ]
    pairs = [
        pair
        for pair in sorted(found[0].keys() & found[1].keys())
        if split in (None, pair[0]) and scale in (None, pair[1])
    ]
    if not pairs:
        left = f"{split or 'SPLIT'}_mixture_{scale or 'SCALE'}.csv"
        right = left.replace("_mixture_", "_pile_loss_")
        raise DataError(
            f"Expected {left} and {right}, or {' and '.join(OLMIX)} in {place}, found "
            f"{some(names) if names else 'no table'}"
        )
    if len(pairs) > 1:
        known = ", ".join(f"{one} {other}" for one, other in pairs)
        raise DataError(
            f"Expected one split and scale of runs in {place}, found {known}: name one of them"
        )
    return place / found[0][pairs[0]], place / found[1][pairs[0]]


def _read(path: Path) -> pandas.DataFrame:
    """Returns a CSV file's cells as text, indexed by the runs' names."""
    import pandas

    try:
        # Without a header: so pandas renames no column that comes twice.
        frame = pandas.read_csv(path, header=None, dtype=str, na_filter=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # ParserError, UnicodeDecodeError and more
        raise DataError(f"Expected a CSV file in UTF-8, found {path}: {one_line(error)}") from error
    columns = frame.iloc[0].str.strip()
    _once([name for name in columns if name], path, "column")
    frame = frame.iloc[1:].set_axis(columns, axis=1)
    key = next((key for key in KEYS if key in frame.columns), None)
    if key is None:
        raise DataError(
            f"Expected a column {' or '.join(KEYS)} in {path}, found {some(list(columns))}"
        )
    frame.index = pandas.Index(frame[key].str.strip())
    if frame.empty:
        raise DataError(f"Expected runs in {path}, found none")
    _once(list(frame.index), path, "run")
    if "" in frame.index:
        raise DataError(f"Expected a name in column '{key}' of {path}, found none in a row")
    return frame


def _values(frame: pandas.DataFrame) -> list[str]:
    """Returns the columns that hold values: those in which anything is a number, or nothing."""
    import pandas

    return [
        name
        for name in frame.columns
        if name and name not in KEYS
        and (pandas.to_numeric(frame[name], errors="coerce").notna().any()
             or (frame[name].str.strip() == "").any())
    ]  # fmt: skip


def _parted(frame: pandas.DataFrame, path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the weights' columns and the losses' of one file."""
    if any(name.startswith("train_") for name in frame.columns):
        return _regmix(frame, frame)
    names = _values(frame)
    values = _numbers(frame, names, path)
    close = np.abs(values.cumsum(1) - 1).max(0) <= ROUNDING  # (columns,): up to here they sum to 1
    count = int(np.flatnonzero(close)[-1]) + 1 if close.any() else 0
    if count in (0, len(names)):
        raise DataError(
            f"Expected in {path} columns of weights, which sum to 1, and then columns of losses, "
            f"found {some(names)}"
        )
    return {name: name for name in names[:count]}, {name: name for name in names[count:]}


def _regmix(
    weights: pandas.DataFrame, losses: pandas.DataFrame
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the domain of each column of RegMix's weights, and the target of each of losses."""
    domains = [name for name in weights.columns if name.startswith("train_")]
    pile = all(name.startswith("train_the_pile_") for name in domains)
    prefix = "train_the_pile_" if pile else "train_"
    targets = [n for n in losses.columns if n.startswith("metric/") or n.endswith("_val_loss")]
    return {name: name.removeprefix(prefix) for name in domains}, {
        n: n.removeprefix("metric/").removeprefix("the_pile_").removesuffix("_val_loss")
        for n in targets
    }


def _numbers(frame: pandas.DataFrame, names: list[str], path: Path) -> np.ndarray:
    """Returns columns as finite numbers ``(rows, columns)``."""
    import pandas

    values = frame[names].apply(pandas.to_numeric, errors="coerce").to_numpy(float, copy=True)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise DataError(
            f"Expected a finite number in {path}, run '{frame.index[row]}', column "
            f"'{names[column]}', found {frame[names].iloc[row, column][:40]!r}"
        )
    return values


def _on_simplex(
    frame: pandas.DataFrame, domains: list[str], path: Path, normalise: bool
) -> np.ndarray:
    """Returns the weights ``(N, K)`` of a table's columns, checked."""
    weights = _numbers(frame, domains, path)
    row, column = map(int, np.unravel_index(weights.argmin(), weights.shape))
    if weights[row, column] < 0:
        raise DataError(
            f"Expected weights >= 0 in {path}, run '{frame.index[row]}', column "
            f"'{domains[column]}', found {weights[row, column]:g}"
        )
    sums = weights.sum(1)  # (N,)
    off = np.abs(sums - 1)
    worst = int(off.argmax())
    if off[worst] > ROUNDING + UNROUNDED:
        raise DataError(
            f"Expected weights that sum to 1 in {path}, found {sums[worst]:.6g} in run "
            f"'{frame.index[worst]}': is every column a domain?"
        )
    if not normalise:
        return weights
    if rounded := int((off > UNROUNDED).sum()):
        warnings.warn(
            f"{path}: the weights of {rounded} of {len(sums)} runs sum to {sums.min():.4f} to "
            f"{sums.max():.4f}; they are taken as rounded, and normalised",
            stacklevel=3,
        )
    return weights / sums[:, None]


def _once(names: list[str], path: Path, what: str) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"Expected every {what} once in {path}, found '{twice[0]}' twice")


def some(names: Sequence[str], most: int = 8) -> str:
    """Returns the first names for a message."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
