"""CSV tables as text: a row a run, a header, and numbers where they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bydore_pyro.utils import DataError, one_line

__all__ = ["CsvTable", "require_once", "some"]

# No values: "" is what pandas calls the index that it writes.
NOT_VALUES = ("", "index", "name", "run", "run_id")


class CsvTable:
    """The cells of a CSV file as text, a row a run.

    Args:
        path: The file.
        keys: Columns that may name the runs; the first that is there does.

    Raises:
        DataError: When the file cannot be read, or a name is missing or comes twice.
    """

    def __init__(self, path: Path, *keys: str) -> None:
        import pandas

        self.path = path
        try:
            # Without a header and as text: so pandas renames no column and guesses no type.
            frame = pandas.read_csv(
                path, header=None, dtype=object, na_filter=False, encoding="utf-8-sig"
            )
        except (OSError, ValueError) as error:  # ParserError, UnicodeDecodeError and more
            raise DataError(
                f"Expected a CSV file in UTF-8, found {path}: {one_line(error)}"
            ) from error
        header, *rows = frame.to_numpy().tolist()
        self.columns = [str(name).strip() for name in header]
        self._rows = rows
        require_once([name for name in self.columns if name], path, "column")
        key = next((key for key in keys if key in self.columns), None)
        if key is None:
            wanted = " or ".join(f"'{name}'" for name in keys)
            raise DataError(f"Expected a column {wanted} in {path}, found {some(self.columns)}")
        if not rows:
            raise DataError(f"Expected runs in {path}, found none")
        self.runs = [str(run).strip() for run in self._column(key)]
        require_once(self.runs, path, "run")
        self.row = {run: number for number, run in enumerate(self.runs)}
        if "" in self.row:
            raise DataError(
                f"Expected a name in column '{key}' of {path}, found none in row {self.row[''] + 1}"
            )

    def _column(self, name: str) -> list[str]:
        place = self.columns.index(name)
        return [row[place] for row in self._rows]

    def numeric(self) -> list[str]:
        """Returns the columns that hold values: those in which anything is a number, or nothing."""
        return [
            name
            for name in self.columns
            if name not in NOT_VALUES
            and any(not str(cell).strip() or _number(cell) is not None
                    for cell in self._column(name))
        ]  # fmt: skip

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """Returns columns as finite numbers, a row a run.

        Raises:
            DataError: When a cell of them is no finite number.
        """
        values = np.empty((len(self.runs), len(names)))
        for place, name in enumerate(names):
            for row, cell in enumerate(self._column(name)):
                number = _number(cell)
                if number is None or not np.isfinite(number):
                    raise DataError(
                        f"Expected a finite number in {self.path}, run '{self.runs[row]}', column "
                        f"'{name}', found {str(cell)[:40]!r}"
                    )
                values[row, place] = number
        return values


def _number(cell: str) -> float | None:
    """Returns the number that a cell holds, None for anything else."""
    try:
        return None if "_" in cell else float(cell)
    except (TypeError, ValueError):
        return None


def require_once(names: Sequence[str], path: Path, what: str) -> None:
    """Refuses names of which one comes twice.

    Raises:
        DataError: When one does; it names the file and `what` the names are of.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"Expected every {what} once in {path}, found '{twice[0]}' twice")


def some(names: Sequence[str], most: int = 8) -> str:
    """Returns the first names for a message."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
