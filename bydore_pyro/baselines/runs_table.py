"""Tables of finished runs: the mixture that each was trained on, and the losses that it reached.

Tables are read, and the mixtures to train next are written as further rows of them.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bydore_pyro.baselines.csv_table import CsvTable, require_once, some
from bydore_pyro.utils import DataError

__all__ = ["RunsTable", "next_table", "on_simplex", "read_runs", "table_columns"]

OLMIX = ("ratios.csv", "metrics.csv")
REGMIX = (re.compile(r"(.+)_mixture_(.+)\.csv"), re.compile(r"(.+)_pile_loss_(.+)\.csv"))
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
        losses: Of every run ``(N, M)``, finite, lower is better. Their unit is the table's own:
            nats per token, bits per byte, or an accuracy with its sign turned.
    """

    runs: tuple[str, ...]
    domains: tuple[str, ...]
    weights: np.ndarray
    targets: tuple[str, ...]
    losses: np.ndarray

    def losses_of(self, target: str) -> np.ndarray:
        """Returns a target's losses ``(N,)``, in the table's unit.

        Raises:
            DataError: When the table does not have the target.
        """
        if target not in self.targets:
            raise DataError(
                f"Expected one of the targets {', '.join(self.targets)}, found '{target}'"
            )
        return self.losses[:, self.targets.index(target)]

    def check_losses(self, target: str) -> None:
        """Refuses losses of a target from which nothing can be learned.

        Raises:
            DataError: When they are all equal but for rounding, or too large to be squared.
        """
        losses = self.losses_of(target)
        largest = float(np.abs(losses).max())
        if largest > LARGEST:
            raise DataError(f"Expected {target} of at most {LARGEST:g}, found {largest:g}")
        if len(losses) and not np.ptp(losses) > max(ROUNDED * largest, 1 / LARGEST):
            raise DataError(f"Expected {target} to differ between runs, found {losses[0]:g} in all")

    def check_copies(self, target: str) -> None:
        """Refuses runs on one and the same mixture whose losses of a target conflict.

        Repeated runs differ by their noise; these lie more than a standard deviation of all runs'
        losses apart.

        Raises:
            DataError: When there are such runs.
        """
        losses, first = self.losses_of(target), dict[bytes, int]()
        spread = float(losses.std())
        for row, weights in enumerate(self.weights):
            one = first.setdefault(weights.tobytes(), row)
            if abs(losses[row] - losses[one]) > spread:
                raise DataError(
                    f"Expected runs on one mixture to agree within {spread:.4g}, the spread of all "
                    f"runs, found runs '{self.runs[one]}' and '{self.runs[row]}' on the same "
                    f"weights with {target} {losses[one]:.6g} and {losses[row]:.6g}"
                )

    def ordered(self, domains: Sequence[str], targets: Sequence[str]) -> RunsTable:
        """Returns the table with its columns in another order.

        Args:
            domains: The same domains.
            targets: Targets of the table; others are left out.

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
    folder: Path, split: str | None, *, scale: str | None = None, normalise: bool = True
) -> RunsTable:
    """Reads a table of weights and a table of losses, joined by their runs.

    Two formats are known. RegMix's: `{split}_mixture_{scale}.csv` has a column `index` and columns
    that begin with `train_`, the weights; `{split}_pile_loss_{scale}.csv` has `index` and columns
    that begin with `metric/` or end with `_val_loss`. What all domains' names begin with
    (`train_the_pile_` or `train_`) is left off, and so are `metric/`, `the_pile_` and `_val_loss`
    from the targets'. Other columns are ignored. olmix's: `ratios.csv` and `metrics.csv`, joined
    on `run` (or `run_id`); their columns are the domains and the targets, but for `name`, `index`
    and columns in which nothing is a number.

    Args:
        folder: Where the tables lie, or the table of weights itself.
        split: Such as "train"; None for olmix's tables, or where there is one split only.
        scale: Such as "1m"; None where there is one scale only.
        normalise: Whether every run's weights, which tables hold rounded, are divided by their sum.

    Returns:
        The runs in the order of the weights' table.

    Raises:
        DataError: When tables are missing, cannot be read, do not fit each other, or hold what is
            not a weight or a loss.

    Warns:
        UserWarning: When weights are normalised that do not sum to 1; by more than 0.01 is refused.
    """
    weights, domains, losses, targets = table_columns(folder, split, scale)
    for one, other in ((weights, losses), (losses, weights)):
        alone = [run for run in one.runs if run not in other.row]
        if alone:
            raise DataError(
                f"Expected the same runs in {one.path} and {other.path}, found '{alone[0]}' "
                f"only in {one.path.name} ({len(alone)} in all)"
            )
    return RunsTable(
        runs=tuple(weights.runs),
        domains=tuple(domains),
        weights=on_simplex(weights, list(domains.values()), normalise),
        targets=tuple(targets),
        losses=losses.numbers(list(targets.values()))[[losses.row[run] for run in weights.runs]],
    )


def next_table(
    folder: Path, split: str | None, domains: Sequence[str], mixtures: np.ndarray
) -> str:
    """Returns mixtures as CSV text with the header of a folder's table of weights.

    Once its rows stand in that table, and their losses in the other one, `read_runs` reads them as
    it reads the others. The runs get names that the table does not have: the next numbers where its
    runs are numbered, else `next-N`. Columns that are no domain's hold the run's name.

    Args:
        folder: As for `read_runs`.
        split: As for `read_runs`.
        domains: All the table's domains, in the mixtures' order.
        mixtures: Weights ``(n, K)``.

    Raises:
        DataError: When the tables are missing or cannot be read.
    """
    table, column_of, _, _ = table_columns(folder, split)
    place_of = {column_of[name]: place for place, name in enumerate(domains)}
    numbered = all(run.isdecimal() for run in table.runs)
    number = max(map(int, table.runs)) if numbered else len(table.runs)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for weights in mixtures:
        number += 1
        while (name := str(number) if numbered else f"next-{number}") in table.row:
            number += 1
        row = (repr(float(weights[place_of[c]])) if c in place_of else name for c in table.columns)
        writer.writerow(row)
    return text.getvalue()


def _find(folder: Path, split: str | None, scale: str | None) -> tuple[Path, Path]:
    """Returns the table of weights and the table of losses."""
    if not folder.is_dir():
        raise DataError(f"Expected a folder of tables of runs, found no folder {folder}")
    names = sorted(path.name for path in folder.glob("*.csv"))
    if split is None and scale is None and set(OLMIX) & set(names):
        for name in OLMIX:
            if name not in names:
                raise DataError(f"Expected {' and '.join(OLMIX)} in {folder}, found no {name}")
        return folder / OLMIX[0], folder / OLMIX[1]
    found = [
        {match.groups(): name for name in names if (match := pattern.fullmatch(name))}
        for pattern in REGMIX
    ]
    pairs = sorted(
        pair
        for pair in found[0].keys() & found[1].keys()
        if split in (None, pair[0]) and scale in (None, pair[1])
    )
    if not pairs:
        left = f"{split or 'SPLIT'}_mixture_{scale or 'SCALE'}.csv"
        raise DataError(
            f"Expected {left} and {left.replace('_mixture_', '_pile_loss_')}"
            f"{'' if split or scale else ', or ' + ' and '.join(OLMIX)} in {folder}, "
            f"found {some(names) if names else 'no table'}"
        )
    if len(pairs) > 1:
        known = ", ".join(f"{one} {other}" for one, other in pairs)
        raise DataError(f"Expected one split and scale of runs in {folder}, found {known}: name "
                        "one of them")  # fmt: skip
    return folder / found[0][pairs[0]], folder / found[1][pairs[0]]


def table_columns(
    folder: Path, split: str | None, scale: str | None = None
) -> tuple[CsvTable, dict[str, str], CsvTable, dict[str, str]]:
    """Returns a folder's table of weights and the column of each domain, and its table of losses
    and the column of each target.

    Args:
        folder: As for `read_runs`.
        split: As for `read_runs`.
        scale: As for `read_runs`.

    Raises:
        DataError: When tables are missing or cannot be read.
    """
    if match := REGMIX[0].fullmatch(folder.name):
        folder, split, scale = folder.parent, match[1], match[2]
    elif folder.name == OLMIX[0]:
        folder, split, scale = folder.parent, None, None
    weights_path, losses_path = _find(folder, split, scale)
    if weights_path.name in OLMIX:
        weights, losses = (CsvTable(path, "run", "run_id") for path in (weights_path, losses_path))
        domains, targets = weights.numeric(), losses.numeric()
        by_domain = _named(weights, domains, domains, "domains")
        return weights, by_domain, losses, _named(losses, targets, targets, "losses")
    weights, losses = CsvTable(weights_path, "index"), CsvTable(losses_path, "index")
    domains = [name for name in weights.columns if name.startswith("train_")]
    targets = [n for n in losses.columns if n.startswith("metric/") or n.endswith("_val_loss")]
    pile = all(name.startswith("train_the_pile_") for name in domains)
    prefix = "train_the_pile_" if pile else "train_"
    short_domains = [name.removeprefix(prefix) for name in domains]
    short_targets = [
        name.removeprefix("metric/").removeprefix("the_pile_").removesuffix("_val_loss")
        for name in targets
    ]
    by_domain = _named(weights, domains, short_domains, "domains (train_*)")
    by_target = _named(losses, targets, short_targets, "losses (metric/*_val_loss)")
    return weights, by_domain, losses, by_target


def _named(
    table: CsvTable, columns: Sequence[str], names: Sequence[str], what: str
) -> dict[str, str]:
    """Returns the columns by name, where there are some and every name is there once."""
    if not names:
        raise DataError(f"Expected columns of {what} in {table.path}, found {some(table.columns)}")
    require_once(names, table.path, "name")
    if "" in names:
        raise DataError(f"Expected a name for every column of {table.path}, found none")
    return dict(zip(names, columns, strict=True))


def on_simplex(table: CsvTable, domains: Sequence[str], normalise: bool = True) -> np.ndarray:
    """Returns the weights ``(N, K)`` of a table's columns, checked.

    Args:
        table: A mixture a row.
        domains: Its columns of weights.
        normalise: Whether each row is divided by its sum.

    Raises:
        DataError: When a weight is negative, or a row does not sum to 1 within 0.01.
    """
    weights = table.numbers(domains)
    row, column = map(int, np.unravel_index(weights.argmin(), weights.shape))
    if weights[row, column] < 0:
        raise DataError(
            f"Expected weights >= 0 in {table.path}, run '{table.runs[row]}', column "
            f"'{domains[column]}', found {weights[row, column]:g}"
        )
    sums = weights.sum(1)  # (N,)
    off = np.abs(sums - 1)
    worst = int(off.argmax())
    if off[worst] > ROUNDING + UNROUNDED:
        without = np.abs(sums[:, None] - weights - 1).max(0)  # (K,): were this no domain
        extra = int(without.argmin())
        told = ""
        if without[extra] <= ROUNDING + UNROUNDED:
            told = f"; without column '{domains[extra]}' they would: is it a domain?"
        raise DataError(
            f"Expected weights that sum to 1 in {table.path}, found {sums[worst]:.6g} in run "
            f"'{table.runs[worst]}'{told}"
        )
    if not normalise:
        return weights
    if rounded := int((off > UNROUNDED).sum()):
        warnings.warn(
            f"{table.path}: the weights of {rounded} of {len(sums)} runs sum to "
            f"{sums.min():.4f} to {sums.max():.4f}; they are taken as rounded, and normalised",
            stacklevel=3,
        )
    return weights / sums[:, None]
