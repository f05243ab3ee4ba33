"""The first screen of a report, for a notebook: what to train on, and what it will do."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from bydore_pyro import terminal
from bydore_pyro.report.run import read_run
from bydore_pyro.report.summary import lead
from bydore_pyro.report.tables import outlook_table, weights_table

MOST_ROWS = 12  # of a table


def short_html(folder: Path) -> str:
    """Returns the first screen of a run's page, its weights and its losses, as a piece of HTML.

    Raises:
        RunFolderError: When the folder holds no finished run.
    """
    record = read_run(folder)
    parts = [f"<p><b>{_shown(record.label)}</b></p>"]
    parts += [f"<p>{term}: {_shown(words)}</p>" for term, words in lead(record).rows]
    tables = (weights_table(record), outlook_table(record.metrics.outlook))
    return "\n".join([*parts, *(line for table in tables for line in _table(table))])


def _shown(text: str) -> str:
    return escape(terminal.visible(text))


def _table(table: terminal.Table) -> Iterator[str]:
    if not table.rows:
        return
    head = "".join(f"<th>{_shown(cell)}</th>" for cell in table.header)
    rows = ["".join(f"<td>{_shown(cell)}</td>" for cell in row) for row in table.rows[:MOST_ROWS]]
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    left = len(table.rows) - MOST_ROWS
    yield f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    if left > 0:
        yield f"<p>and {left} more rows</p>"
