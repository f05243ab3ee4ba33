"""The first screen of a report, for a notebook: what to train on, and what it will do."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from bydore_pyro import terminal
from bydore_pyro.report.run import read_run
from bydore_pyro.report.sections import cost_sentence
from bydore_pyro.report.tables import outlook_table, weights_table
from bydore_pyro.report.verdicts import outlook_verdicts, verdicts_of

MOST_ROWS = 12  # of a table


def short_html(folder: Path) -> str:
    """Returns the weights of a run, its losses, what is said of them, and what is doubtful, as a
    piece of HTML.

    Raises:
        RunFolderError: When the folder holds no finished run.
    """
    record = read_run(folder)
    outlook = record.metrics.outlook
    judged = outlook_verdicts(outlook, record.uncovered)
    judged += [one for one in verdicts_of(record) if one.level != "good"]
    parts = [f"<p><b>{_shown(record.label)}</b>: {_shown(cost_sentence(record))}</p>"]
    parts += [*_table(weights_table(record)), *_table(outlook_table(outlook))]
    parts += [f"<p>{_shown(one.level)}: <b>{_shown(one.heading)}</b></p>" for one in judged]
    return "\n".join(parts)


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
