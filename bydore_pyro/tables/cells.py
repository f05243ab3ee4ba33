"""The cells of a CSV file as text: which character separates them, and how numbers are written.

Spreadsheets write semicolons and decimal commas, others tabs or percent signs. Numbers leave here
with a decimal point. What was done is reported in a line each.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bydore_pyro.errors import DataError, expecting, listed

if TYPE_CHECKING:
    import pandas

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MISSING = (  # of a failed run, as programs and spreadsheets write it
    *("", "nan", "null", "none", "na", "n/a", "n.a.", "inf", "+inf", "infinity", "-", "--"),
    *("\N{EN DASH}", "?", "#n/a", "#na", "#div/0!", "#num!", "#value!"),
)
COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?%?", re.IGNORECASE)
POINT = re.compile(r"[+-]?\d+\.\d+(e[+-]?\d+)?%?", re.IGNORECASE)
PERCENT = re.compile(r"[+-]?\d+(\.\d+)?\s*%")


def read_cells(path: Path) -> tuple[pandas.DataFrame, tuple[str, ...]]:
    """Returns a CSV file's cells as text without spaces around them, and lines on how it was read.

    Raises:
        DataError: When the file cannot be read, or a row has more or fewer cells than the header.
    """
    import pandas

    with expecting(f"Expected a CSV file in UTF-8, found {path}:"):
        text = path.read_text(encoding="utf-8-sig")
        separator, rows = _rows_of(text)
    if not rows:
        raise DataError(f"Expected a CSV file with a header in {path}, found an empty one")
    header, *rows = rows
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise DataError(
                f"Expected as many cells in every row of {path} as in its header ({len(header)}), "
                f"found {len(row)} in row {number}"
            )
    notes = [] if separator == "," else [f"{path}: cells separated by {SEPARATORS[separator]}"]
    every = [cell for row in rows for cell in row]
    if any(map(COMMA.fullmatch, every)) and not any(map(POINT.fullmatch, every)):
        rows = [[c.replace(",", ".") if COMMA.fullmatch(c) else c for c in row] for row in rows]
        notes.append(f"{path}: decimal commas")
    frame = pandas.DataFrame(rows, columns=pandas.Index(header, dtype=object), dtype=object)
    percent = []
    for place, name in enumerate(header):
        cells = frame.iloc[:, place]
        known = cells[~cells.str.lower().isin(MISSING)]
        if len(known) and all(PERCENT.fullmatch(cell) for cell in known):
            turned = {cell: repr(float(cell.rstrip("% ")) / 100) for cell in known}
            frame.isetitem(place, cells.map(lambda cell, turned=turned: turned.get(cell, cell)))
            percent.append(name)
    if percent:
        notes.append(f"{path}: percent signs, taken as hundredths: {listed(percent, 8)}")
    return frame, tuple(notes)


def _rows_of(text: str) -> tuple[str, list[list[str]]]:
    """Returns the character that separates the header's cells best, and the rows that are not
    empty."""
    parsed = {
        one: [
            [cell.strip() for cell in row]
            for row in csv.reader(text.splitlines(keepends=True), delimiter=one)
            if any(cell.strip() for cell in row)
        ]
        for one in SEPARATORS
    }
    separator = max(parsed, key=lambda one: len(parsed[one][0]) if parsed[one] else 0)
    return separator, parsed[separator]
