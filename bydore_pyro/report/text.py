"""What a run folder holds, as text: the tables and verdicts of its page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from bydore_pyro.report.comparison import agreement_table
from bydore_pyro.report.matching import round_tables
from bydore_pyro.report.regression import regression_tables
from bydore_pyro.report.run_record import RunRecord, read_run
from bydore_pyro.report.run_sections import (
    commands,
    cost_told,
    length_table,
    loss_table,
    weights_table,
)
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import number
from bydore_pyro.utils import RunFolderError, visible

__all__ = ["report_text"]

WIDTH = 100  # characters, of what is not a table


def report_text(folder: Path) -> str:
    """Returns a run's weights, rounds and losses, how far to believe them, what they cost, where
    the files lie and what to do next; of a search with several seeds how they agree.

    Raises:
        RunFolderError: When the folder holds no finished run.
    """
    record = read_run(folder)
    if record.metrics.stopped:
        raise RunFolderError(
            f"Expected a finished run in {folder}, found one that stopped after "
            f"{number(record.metrics.steps, 0)} steps: {record.metrics.stopped}"
        )
    if record.mixture is not None and record.metrics.search.flops is None:
        told = [damage for damage in record.damaged if damage.startswith("metrics.json")]
        reason = told[0] if told else "no cost of a search in its metrics.json"
        raise RunFolderError(f"Expected a complete run in {folder}, found {reason}")
    tables = (
        weights_table(record),
        agreement_table(record),
        *regression_tables(record),
        length_table(record),
        *round_tables(record.metrics.matching.rounds),
        loss_table(record),
    )
    notes = () if record.mixture is None else record.mixture.notes
    parts = [_lines([*(f"Could not be read: {line}" for line in record.damaged), *notes])]
    parts += [table.as_text() for table in tables if table.rows]
    parts.append("\n".join(map(_judged, verdicts_of(record))))
    parts.append(_lines(_ending(record)))
    return "\n" + "\n\n".join(filter(None, parts))


def _judged(verdict: Verdict) -> str:
    told = visible(f"{verdict.level:<7}  {verdict.told} {verdict.figures}")
    return fill(told, WIDTH, subsequent_indent=" " * 9, break_on_hyphens=False,
                break_long_words=False)  # fmt: skip


def _ending(record: RunRecord) -> list[str]:
    """Returns what a run cost, where its files lie, and commands to go on with."""
    files = sorted(p.name for p in record.path.iterdir() if p.is_file() or record.seeds)
    lines = [] if record.mixture is None else [cost_told(record)]
    lines.append(f"In {record.path}: {', '.join(files)}")
    following = [line for _, line in commands(record)]
    return [*lines, *(["Next:"] if following else []), *(f"  {line}" for line in following)]


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(map(visible, lines))
