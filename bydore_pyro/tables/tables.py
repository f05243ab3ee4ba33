"""Tables of finished runs: the mixture that each was trained on, and the losses that it reached.

`read_runs` knows three formats. RegMix's: `SPLIT_mixture_SCALE.csv` has a column `index` and
columns that begin with `train_`, the weights; `SPLIT_pile_loss_SCALE.csv` has `index` and columns
that begin with `metric/` and end with `_val_loss`. olmix's: `ratios.csv` and `metrics.csv`, joined
on `run` or `run_id`. One file of both, such as W&B's. `columns` says which columns are taken as
weights, and which as metrics. What says so in all domains' names (`train_the_pile_`, `weights/`) is
left off, and so are `metric/`, `the_pile_` and `_val_loss`.

Runs fail: those whose state says so are left out; a loss may be missing, or a run's row of losses.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from bydore_pyro import files, mixture, terminal
from bydore_pyro.errors import DataError, listed
from bydore_pyro.tables.cells import MISSING, read_cells
from bydore_pyro.tables.column_names import (
    DECLARED,
    FAILED,
    FINISHED,
    KEYS,
    key_of,
    must_be_alike,
    says_state,
    without_declaration,
)
from bydore_pyro.tables.columns import (
    DECLARE,
    ROUNDING,
    UNROUNDED,
    Columns,
    classified,
    numbers_of_cells,
)

if TYPE_CHECKING:
    import pandas


FEW = 8  # models that a table may compare; more, with one run each, are names of the runs
#: Whether less or more is better: of one metric, or of the mean of several. A mean of metrics of
#: both directions is minimised, and those that are maximised count negatively in it.
Direction = Literal["minimised", "maximised", "both", ""]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A metric that was asked for: its `direction`, its `best` value in the table's unit, and the
    `run` that has it."""

    direction: Direction = ""
    best: files.Number | None = None
    run: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunsTable:
    """``N`` finished runs on mixtures of ``K`` domains, each with ``M`` target losses.

    Weights ``(N, K)`` are not negative, each row summing to 1 (within 0.01, for tables that are
    kept as they were rounded). Losses ``(N, M)`` are in the table's own unit, NaN where a run has
    none; after `directed` lower is better. `columns` and `notes` say how the table was read;
    `asked` is what `directed` did with the metrics that are asked for.
    """

    runs: tuple[str, ...]
    domains: tuple[str, ...]
    weights: np.ndarray
    targets: tuple[str, ...]
    losses: np.ndarray
    columns: Columns = field(default_factory=Columns)
    notes: tuple[str, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)

    def losses_of(self, target: str) -> np.ndarray:
        """Returns a target's losses ``(N,)``.

        Raises:
            DataError: When the table does not have the target.
        """
        if target not in self.targets:
            raise self.lacking(target)
        return self.losses[:, self.targets.index(target)]

    def column_of(self, target: str) -> str:
        """Returns the name that a target's column has in the file."""
        columns = self.columns.metrics
        return columns[self.targets.index(target)] if columns else target

    def lacking(self, target: str) -> DataError:
        """Returns the error of a target that is none, with the reason if its column has one."""
        reason = self.columns.ignored.get(target, "")
        if target in self.domains or target in self.columns.weights:
            reason = "a column of weights"
        return DataError(
            f"Expected one of the targets {listed(self.targets)}, found '{target}'"
            f"{f' ({reason})' if reason else ''}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sheet:
    path: Path
    frame: pandas.DataFrame
    notes: tuple[str, ...]


def read_runs(place: Path, *, normalise: bool = True) -> RunsTable:
    """Reads tables of weights and losses.

    Args:
        place: The table of weights, one file of both, or a folder with one table of weights. Of
            RegMix's tables in a folder those of the split "train" count, where there are such.
        normalise: Whether every run's weights, which tables hold rounded, are divided by their sum.

    Raises:
        DataError: When tables are missing, cannot be read, do not fit each other, or hold what is
            not a weight or a loss. A run of which there are only weights has no losses.

    Warns:
        UserWarning: When weights are normalised that do not sum to 1; by more than 0.01 is refused.
    """
    paths = _find(place)
    sheets = {path: _read(path) for path in dict.fromkeys(paths)}
    notes = [note for sheet in sheets.values() for note in sheet.notes]
    frames = _without_failed(sheets, notes)
    for path, frame in frames.items():
        _check_alike(frame, path)
        _once(list(frame.index), path, "run")
    weights, losses = (frames[path] for path in paths)
    if paths[0] == paths[1]:
        columns = classified(weights, place, "both")
    else:
        of_metrics = classified(losses, paths[1], "metrics")
        columns = classified(weights, paths[0], "weights").beside(of_metrics)
    found = {"weights": columns.weights, "metrics": columns.metrics}
    for path, (what, names) in zip(paths, found.items(), strict=True):
        if not names:
            others = "; ".join(columns.lines()[2:])
            raise DataError(f"Expected columns of {what} in {path}, found none; {others}")
    alone = losses.index.difference(weights.index, sort=False)
    if len(alone):
        raise DataError(
            f"Expected the weights of every run of {paths[1]}, found none of '{alone[0]}' in "
            f"{paths[0].name} ({len(alone)} in all)"
        )
    _check_joined(weights, losses, paths)
    return RunsTable(
        runs=tuple(weights.index),
        domains=without_declaration(columns.weights),
        weights=_on_simplex(weights, columns.weights, paths[0], columns.unit, normalise),
        targets=tuple(
            name.removeprefix("metric/").removeprefix("the_pile_").removesuffix("_val_loss")
            for name in columns.metrics
        ),
        losses=_numbers(
            losses.reindex(weights.index, fill_value=""), columns.metrics, paths[1], missing=True
        ),
        columns=columns,
        notes=tuple(notes),
    )


def read_mixtures(path: Path, domains: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Reads names and weights ``(S, K)`` of mixtures, a row each, on the simplex.

    Columns are the domains, or what declares weights (`weights/`) and the domains. A column that
    is called otherwise is matched, as the names of any weights (`mixture.matched`).

    Raises:
        DataError: When the file cannot be read, a domain is missing, a name matches two, or a row
            is no mixture.
    """
    frame = _read(path).frame
    _once(list(frame.index), path, "run")
    starts = {match[0] for name in frame.columns if (match := DECLARED.match(name))}
    known = next(
        (s for s in ("", *sorted(starts)) if all(f"{s}{d}" in frame.columns for d in domains)), ""
    )
    columns = [f"{known}{name}" for name in domains]
    if lacking := [name for name in columns if name not in frame.columns]:
        others = [name for name in frame.columns if name not in columns]
        called = mixture.matched(others, lacking, beginnings=False)  # web_loss is no weight of web
        frame = frame.rename(columns=called)
        if called:
            pairs = listed([f"'{new}' for '{old}'" for old, new in called.items()], FEW)
            terminal.tell(f"{path}: domains are called as in the runs: {pairs}")
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise DataError(
            f"Expected a column for each of the runs' domains in {path}, found none for "
            f"'{missing[0]}'"
        )
    sums = _numbers(frame, columns, path).sum(1)
    unit = 100.0 if (np.abs(sums / 100 - 1) <= ROUNDING).all() else 1.0
    return tuple(frame.index), _on_simplex(frame, columns, path, unit, True)


def _find(place: Path) -> tuple[Path, Path]:
    weights = place
    if place.is_dir():
        patterns = ("ratios.csv", "train_mixture_*.csv", "*_mixture_*.csv")
        found = next((one for p in patterns if (one := sorted(place.glob(p)))), [])
        if len(found) != 1:
            raise DataError(
                f"Expected one table ratios.csv or train_mixture_SCALE.csv in {place}, found "
                f"{listed([path.name for path in found]) or 'none'}"
            )
        weights = found[0]
    losses = "metrics.csv" if weights.name == "ratios.csv" else weights.name
    return weights, weights.with_name(losses.replace("_mixture_", "_pile_loss_"))


def _read(path: Path) -> _Sheet:
    import pandas

    frame, notes = read_cells(path)
    columns = [str(name) for name in frame.columns]
    _once([name for name in columns if name], path, "column")
    keys = [name for key in KEYS for name in columns if key_of(name) == key]
    keys = keys or [name for name in columns[:1] if name == "" or name == "Unnamed: 0"]
    if not keys:
        raise DataError(
            f"Expected a column that names the runs ({', '.join(KEYS)}) in {path}, found "
            f"{listed(columns)}"
        )
    if frame.empty:
        raise DataError(f"Expected runs in {path}, found none")
    places = [columns.index(key) for key in keys]
    unique = [place for place in places if frame.iloc[:, place].is_unique]
    cells = frame.iloc[:, (unique or places)[0]]
    if (cells == "").any():
        raise DataError(f"Expected a name in column '{keys[0]}' of {path}, found none in a row")
    named = [place for place, name in enumerate(columns) if name]
    return _Sheet(path=path, frame=frame.iloc[:, named].set_axis(pandas.Index(cells)), notes=notes)


def _without_failed(
    sheets: Mapping[Path, _Sheet], notes: list[str]
) -> dict[Path, pandas.DataFrame]:
    """Returns the cells of the runs that no file calls failed or unfinished; notes the others.

    Where some runs are called finished, the others are not.
    """
    frames: dict[Path, pandas.DataFrame] = {}
    states: dict[str, None] = {}
    failed, rows = set[str](), 0
    for path, sheet in sheets.items():
        bad = np.zeros(len(sheet.frame), bool)
        for name in filter(says_state, sheet.frame.columns):
            cells = sheet.frame[name].str.lower()
            ended = cells.isin((*FINISHED, ""))
            without = (~ended if cells.isin(FINISHED).any() else cells.isin(FAILED)).to_numpy(bool)
            bad |= without
            states |= dict.fromkeys(sheet.frame[name][without])
        frames[path] = sheet.frame[~bad]
        gone = set(sheet.frame.index[bad]) - set(frames[path].index)  # not those that ran again
        failed, rows = failed | gone, max(rows, int(bad.sum()))
    left_out = max(rows, len(failed))
    if left_out:
        total = max(len(sheet.frame) for sheet in sheets.values())
        notes.append(f"left out, as their state is {listed(states, 4)}: {left_out} of {total} runs")
    for path, frame in frames.items():
        frames[path] = frame[~frame.index.isin(failed)]
        if frames[path].empty:
            raise DataError(f"Expected runs that have finished in {path}, found none")
    return frames


def _check_alike(frame: pandas.DataFrame, path: Path) -> None:
    """Refuses runs of different lengths, sizes or tokenizers, whose losses do not compare."""
    import pandas

    for name in frame.columns:
        if not must_be_alike(name):
            continue
        cells = frame[name][frame[name] != ""]
        numbers = pandas.to_numeric(cells, errors="coerce")
        if len(cells) and numbers.notna().all():
            close = np.ptp(numbers) <= ROUNDING * np.abs(numbers).max()
        else:
            own = cells.is_unique and len(cells) > FEW  # a name of each run, no model's
            close = own or cells.nunique() < 2
        if not close:
            values = cells[~numbers.astype(object).where(numbers.notna(), cells).duplicated()]
            raise DataError(
                f"Expected runs with one '{name}' in {path}, found {listed(sorted(values), 3)}: "
                f"losses of different ones do not compare (if '{name}' is a domain, {DECLARE})"
            )


def _check_joined(
    weights: pandas.DataFrame, losses: pandas.DataFrame, paths: tuple[Path, Path]
) -> None:
    """Refuses two files that are joined by one column and name the runs otherwise in another."""
    own = weights.loc[losses.index]
    for name in own.columns.intersection(losses.columns):
        other = (own[name] != losses[name]).to_numpy(bool)
        if key_of(name) in KEYS and other.any():
            row = int(other.argmax())
            raise DataError(
                f"Expected one '{name}' of run '{own.index[row]}' in both files, found "
                f"'{own[name].iloc[row]}' in {paths[0]} and '{losses[name].iloc[row]}' in "
                f"{paths[1].name}: remove the column that does not name the runs"
            )


def _numbers(
    frame: pandas.DataFrame, names: Sequence[str], path: Path, *, missing: bool = False
) -> np.ndarray:
    """Returns columns as finite numbers ``(rows, columns)``, NaN for what may be `missing`."""
    names = list(names)
    values = numbers_of_cells(frame[names])
    wrong = ~(np.abs(values) < 1e100)  # a run that diverged so far would hide all others
    if missing:
        values[wrong] = np.nan
        absent = frame[names].apply(lambda cells: cells.str.lower().isin(MISSING))
        wrong &= ~absent.to_numpy(bool)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"Expected a finite number in {path}, run '{frame.index[row]}', column "
            f"'{names[column]}', found {frame[names].iloc[row, column][:40]!r}"
        )
    return values


def _on_simplex(
    frame: pandas.DataFrame, domains: Sequence[str], path: Path, unit: float, normalise: bool
) -> np.ndarray:
    """Returns the weights ``(N, K)`` of a table's columns, of which each run's sum to `unit`,
    checked."""
    weights = _numbers(frame, domains, path) / unit
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
            f"{path}: the weights of {rounded} of {len(sums)} runs do not sum to exactly 1 (they "
            f"are off by at most {off[worst]:.2g}); they are taken as rounded and divided by their "
            "sum",
            stacklevel=3,
        )
    return weights / sums[:, None]


def _once(names: list[str], path: Path, what: str) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"Expected every {what} once in {path}, found '{twice[0]}' twice")
