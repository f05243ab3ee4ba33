"""Tables of domains: cells between commas, tabs, semicolons, bars or white space."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from bydore_pyro import files
from bydore_pyro.errors import listed
from bydore_pyro.mixture.entries import NAMES, NUMBERS
from bydore_pyro.mixture.listed import SHOWN, Listed, is_number
from bydore_pyro.mixture.units import Unit

DELIMITERS = ",\t;|"
RULE = re.compile(r":?-+:?")  # below the header of a table in Markdown


def weights_of_sheet(text: str) -> Listed | None:
    """Reads a table's names and numbers; None if the text is no table.

    By its header: the column `domain`, or another name of one, and `weight`, or another name of a
    number; others are not read. Without such a header: two columns, of names and of numbers.

    Raises:
        ValueError: When a column stands twice, several could be the numbers, or rows have other
            lengths than the header.
    """
    for rows in sheets_of(text):
        header = [cell.lower() for cell in rows[0]]
        name, number = _column(header, NAMES, "domain"), _column(header, _numbers(header), "weight")
        if name and number:
            weights = column_of(rows, name, number)
            unit = NUMBERS[number]
            return Listed(weights, declared=False, unit=unit)
    return _two_columns(text)


def sheets_of(text: str) -> Iterator[list[list[str]]]:
    """Yields the rows of a text by each delimiter that gives more than one column."""
    for delimiter in DELIMITERS:
        if delimiter not in text:
            continue
        try:
            found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        except csv.Error:
            continue
        rows = [[cell.strip() for cell in row] for row in found if any(map(str.strip, row))]
        if delimiter == "|":
            if not all(len(row) > 2 and row[0] == row[-1] == "" for row in rows):
                continue
            rows = [row[1:-1] for row in rows if not all(map(RULE.fullmatch, row[1:-1]))]
        if rows and len(rows[0]) > 1:
            yield rows


def column_of(rows: Sequence[Sequence[str]], name: str, number: str) -> dict[str, str]:
    """Returns one column of a table with a header, by the names in another.

    Raises:
        ValueError: When a column or a name stands twice, or rows have other lengths.
    """
    header = [cell.lower() for cell in rows[0]]
    if len({*header}) < len(header) or any(len(row) != len(header) for row in rows):
        raise ValueError("a column twice, or rows of other lengths than the header")
    first, second = header.index(name), header.index(number)
    return files.unique_keys([(row[first], row[second]) for row in rows[1:]])


def _numbers(header: Collection[str]) -> Mapping[str, Unit]:
    """Returns what a header may call the numbers; shares of tokens before those of others."""
    shares: dict[str, Unit] = {key: unit for key, unit in NUMBERS.items() if unit == "tokens"}
    return NUMBERS if shares.keys().isdisjoint(header) else shares


def _column(header: Sequence[str], known: Collection[str], first: str) -> str:
    """Returns the one column that is called so, or the one called `first`; empty without one."""
    found = [key for key in known if key in header]
    if first in found or len(found) < 2:
        return first if first in found else "".join(found)
    if known is NAMES:
        return found[0]
    raise ValueError(f"columns {listed(found, SHOWN)}, of which one is the weight")


def _two_columns(text: str) -> Listed | None:
    words = [line.split() for line in text.splitlines() if line.strip()]
    for rows in (*sheets_of(text), words):
        if any(len(row) != 2 or row[0].endswith(":") for row in rows) or not rows:
            continue
        body = rows if is_number(rows[0][1]) else rows[1:]
        if (
            body
            and all(is_number(row[1]) for row in body)
            and not all(is_number(row[0]) for row in body)
        ):
            return Listed(files.unique_keys([(row[0], row[1]) for row in body]), declared=False)
    return None
