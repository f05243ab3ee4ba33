"""Tables of finished runs: the mixture that each was trained on, and the losses that it reached.

`read_runs` knows three formats. RegMix's: `SPLIT_mixture_SCALE.csv` has a column `index` and
columns that begin with `train_`, the weights; `SPLIT_pile_loss_SCALE.csv` has `index` and columns
that begin with `metric/` or end with `_val_loss`. What all domains' names begin with
(`train_the_pile_` or `train_`) is left off, and so are `metric/`, `the_pile_` and `_val_loss`.
olmix's: `ratios.csv` and `metrics.csv`, joined on `run` or `run_id`. One file: `run`, then the
weights, which are the columns that sum to 1, then the losses.

Runs fail: a loss may be missing, or a run's row of losses. `directed` leaves out the runs without
what is asked for, and turns what is to be maximised.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bydore_pyro.utils import DataError, expecting, listed

if TYPE_CHECKING:
    import pandas

ALL = "all"  # every metric of the table
KEYS = ("run", "run_id", "index", "mixture", "name")  # columns that may name the rows
ROUNDING = 0.01  # how far the weights of a run may be from summing to 1
UNROUNDED = 1e-6  # up to here no note is made
ALIKE = ("tokens", "steps", "tokenizer", "vocabulary", "sequence_length", "scale", "model")  # runs
SETTINGS = ("seed", "lr", "learning_rate")  # neither weights nor losses
MISSING = ("", "nan", "null", "none", "na", "n/a", "inf", "+inf", "infinity")  # of a failed run
# Words of names of metrics that are better when they are higher, as a rule.
HIGHER = re.compile(
    r"(^|[^a-z])(acc|accuracy|scores?|f1|exact_?match|win_?rate|auc|bleu|rouge|reward|"
    r"pass(?=@|_at_))(?![a-z])(?!.*(loss|nll|bpb|ppl|perplexity|error)$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunsTable:
    """``N`` finished runs on mixtures of ``K`` domains, each with ``M`` target losses.

    Weights ``(N, K)`` are not negative, each row summing to 1 (within 0.01, for tables that are
    kept as they were rounded). Losses ``(N, M)`` are in the table's own unit, NaN where a run has
    none; after `directed` lower is better.
    """

    runs: tuple[str, ...]
    domains: tuple[str, ...]
    weights: np.ndarray
    targets: tuple[str, ...]
    losses: np.ndarray

    def losses_of(self, target: str) -> np.ndarray:
        """Returns a target's losses ``(N,)``.

        Raises:
            DataError: When the table does not have the target.
        """
        if target not in self.targets:
            raise DataError(f"Expected one of the targets {listed(self.targets)}, found '{target}'")
        return self.losses[:, self.targets.index(target)]


def metric_shares(table: RunsTable, wanted: Sequence[str]) -> dict[str, float]:
    """Returns the metrics whose weighted mean is wanted, with shares that sum to 1.

    Wanted are names of metrics, in which * stands for anything, with =WEIGHT after them or a weight
    of 1; or `ALL`. What is named twice counts twice.

    Raises:
        DataError: When nothing has such a name, or a weight is no number >= 0.
    """
    found: dict[str, float] = {}
    for item in wanted:
        pattern, equals, number = item.rpartition("=")
        if not equals or item in table.targets:
            pattern, number = item, "1"
        try:
            weight = float(number)
        except ValueError:
            weight = np.nan
        if not (np.isfinite(weight) and weight >= 0):
            raise DataError(f"Expected NAME=WEIGHT with a weight >= 0, found '{item}'")
        names = table.targets if pattern == ALL else [
            name for name in table.targets if name == pattern or fnmatchcase(name, pattern)
        ]  # fmt: skip
        if not names:
            raise DataError(
                f"Expected one of the targets {listed(table.targets)}, found '{pattern}'"
            )
        for name in names:
            found[name] = found.get(name, 0.0) + weight
    total = sum(found.values())
    if not total > 0:
        raise DataError("Expected a metric with a weight > 0, found none")
    return {name: weight / total for name, weight in found.items() if weight > 0}


def directed(
    table: RunsTable,
    shares: Mapping[str, float],
    maximize: Sequence[str] = (),
    minimize: Sequence[str] = (),
) -> tuple[RunsTable, list[str]]:
    """Returns the runs that have all of some metrics, turned so that lower is better, and lines on
    what was done.

    Args:
        table: The runs.
        shares: The metrics that are asked for.
        maximize: Names of metrics, or patterns, that are better when higher: they are negated.
        minimize: Of those that are better when lower, in spite of their names.

    Raises:
        DataError: When a name is of a metric that is better when higher and no direction is
            given, two are, a pattern names no metric, no run has all metrics, or metrics of both
            directions, which have no unit in common, count alike.
    """
    up, down = (
        {name for name in table.targets for p in patterns if name == p or fnmatchcase(name, p)}
        for patterns in (maximize, minimize)
    )
    for pattern in (*maximize, *minimize):
        metric_shares(table, [pattern])  # raises where there is none
    if both := sorted(up & down):
        raise DataError(f"Expected one direction for '{both[0]}', found both")
    unclear = [name for name in shares if HIGHER.search(name) and name not in up | down]
    if unclear:
        raise DataError(
            f"Expected a direction for {listed(unclear, 5)}, whose name sounds as if higher were "
            f"better, found none: --maximize {unclear[0]}, or --minimize {unclear[0]}"
        )
    high = [name for name in shares if name in up]
    if high and len(high) < len(shares) and len({*shares.values()}) == 1:
        low = next(name for name in shares if name not in up)
        raise DataError(
            f"Expected metrics of one unit, or NAME=WEIGHT for each, found '{high[0]}', better "
            f"when higher, and '{low}', better when lower"
        )
    sign = np.where([name in up for name in table.targets], -1.0, 1.0)
    asked = table.losses[:, [name in shares for name in table.targets]]
    has = np.isfinite(asked).all(1)
    if not has.any():
        raise DataError(f"Expected runs with {listed(shares, 5)}, found none")
    notes = [f"maximised: {listed(high)}"] if high else []
    if lacking := int((~has).sum()):
        notes.append(f"left out without {listed(shares, 5)}: {lacking} of {len(has)} runs")
    runs = tuple(run for run, kept in zip(table.runs, has, strict=True) if kept)
    found = {"weights": table.weights[has], "losses": table.losses[has] * sign}
    return replace(table, runs=runs, **found), notes


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
    weights, losses = (_read(path) for path in paths)
    domains = _columns(weights, "train_")
    targets = _columns(losses, "metric/", "_val_loss")
    if paths[0] == paths[1]:
        if not all(name.startswith("train_") for name in domains):
            domains = _those_that_sum_to_1(weights, domains, place)
        targets = [name for name in targets if name not in domains]
    for path, names in zip(paths, (domains, targets), strict=True):
        if not names:
            raise DataError(f"Expected columns of weights and losses in {path}, found none")
    alone = losses.index.difference(weights.index, sort=False)
    if len(alone):
        raise DataError(
            f"Expected the weights of every run of {paths[1]}, found none of '{alone[0]}' in "
            f"{paths[0].name} ({len(alone)} in all)"
        )
    pile = all(name.startswith("train_the_pile_") for name in domains)
    prefix = "train_the_pile_" if pile else "train_"
    return RunsTable(
        runs=tuple(weights.index),
        domains=tuple(name.removeprefix(prefix) for name in domains),
        weights=_on_simplex(weights, domains, paths[0], normalise),
        targets=tuple(
            name.removeprefix("metric/").removeprefix("the_pile_").removesuffix("_val_loss")
            for name in targets
        ),
        losses=_numbers(
            losses.reindex(weights.index, fill_value=""), targets, paths[1], missing=True
        ),
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


def _find(place: Path) -> tuple[Path, Path]:
    """Returns the table of weights and the table of losses, which may be one file."""
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


def _read(path: Path) -> pandas.DataFrame:
    """Returns a CSV file's cells as text, indexed by the runs' names."""
    import pandas

    with expecting(f"Expected a CSV file in UTF-8, found {path}:"):
        # Without a header: so pandas renames no column that comes twice.
        frame = pandas.read_csv(path, header=None, dtype=str, na_filter=False, encoding="utf-8-sig")
    columns = frame.iloc[0].str.strip()
    columns = columns.where(~columns.str.lower().isin(ALIKE), columns.str.lower())
    _once([name for name in columns if name], path, "column")
    frame = frame.iloc[1:].set_axis(columns, axis=1)
    key = next((key for key in KEYS if key in frame.columns), None)
    if key is None:
        found = listed(list(columns))
        raise DataError(f"Expected a column {' or '.join(KEYS)} in {path}, found {found}")
    frame.index = pandas.Index(frame[key].str.strip())
    for name in frame.columns.intersection(ALIKE):
        cells = frame[name].str.strip()
        numbers = pandas.to_numeric(cells, errors="coerce").astype(object)
        values = sorted(cells[~numbers.fillna(cells).duplicated()])  # 1e9 is 1000000000
        if len(values) > 1:
            raise DataError(
                f"Expected runs with one '{name}' in {path}, found {listed(values, 3)}: losses of "
                "different ones do not compare"
            )
    if frame.empty:
        raise DataError(f"Expected runs in {path}, found none")
    _once(list(frame.index), path, "run")
    if "" in frame.index:
        raise DataError(f"Expected a name in column '{key}' of {path}, found none in a row")
    return frame


def _columns(frame: pandas.DataFrame, start: str, end: str = "\0") -> list[str]:
    """Returns the columns that begin or end so; if there are none, the columns that hold any
    number, or nothing."""
    import pandas

    named = [name for name in frame.columns if name.startswith(start) or name.endswith(end)]
    return named or [
        name
        for name in frame.columns
        if name and name not in (*KEYS, *ALIKE, *SETTINGS)
        and (pandas.to_numeric(frame[name], errors="coerce").notna().any()
             or (frame[name].str.strip() == "").any())
    ]  # fmt: skip


def _those_that_sum_to_1(frame: pandas.DataFrame, names: list[str], path: Path) -> list[str]:
    """Returns the first columns of values, up to where all runs' sums are nearest to 1."""
    sums = _numbers(frame, names, path).cumsum(1)
    off = np.abs(sums - 1).max(0)  # (columns,)
    count = int(off.argmin()) + 1 if off.min() <= ROUNDING else 0
    if count in (0, len(names)):
        raise DataError(
            f"Expected in {path} columns of weights, which sum to 1, and then columns of losses, "
            f"found {listed(names)}"
        )
    return names[:count]


def _numbers(
    frame: pandas.DataFrame, names: list[str], path: Path, *, missing: bool = False
) -> np.ndarray:
    """Returns columns as finite numbers ``(rows, columns)``, NaN for what may be `missing`."""
    import pandas

    values = frame[names].apply(pandas.to_numeric, errors="coerce").to_numpy(float, copy=True)
    wrong = ~(np.abs(values) < 1e100)  # a run that diverged so far would hide all others
    if missing:
        values[wrong] = np.nan
        absent = frame[names].apply(lambda cells: cells.str.strip().str.lower().isin(MISSING))
        wrong &= ~absent.to_numpy(bool)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
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
