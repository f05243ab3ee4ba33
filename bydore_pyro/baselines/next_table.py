"""The mixtures to train next, as rows of the table of weights that the finished runs stand in."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bydore_pyro.baselines.runs_table import table_columns

__all__ = ["next_table"]


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
