"""What the page on several runs shows: one table, in which the weights are drawn too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bydore_pyro.report.comparison import agreement_table, cautions, comparison_table
from bydore_pyro.report.drawing import domain_looks
from bydore_pyro.report.page_frame import frame
from bydore_pyro.report.run_record import RunRecord, labelled_runs
from bydore_pyro.report.run_sections import commands
from bydore_pyro.report.table import Table
from bydore_pyro.report.verdicts import verdicts_of

__all__ = ["comparison_page"]


def comparison_page(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Returns what the template `comparison.html` shows of runs; several seeds are so many runs.

    Raises:
        ImportError: When jinja2 is not installed.
    """
    lone = records[0] if len(records) == 1 else None
    runs = labelled_runs([run for record in records for run in _runs_of(record)])
    looks = domain_looks(sorted({name for r in (*records, *runs) for name in r.domains}))
    title = f"{lone.label}: {len(runs)} seeds" if lone else f"{len(runs)} runs compared"
    place = f"Run folder: {lone.path}" if lone else ", ".join(str(r.path) for r in records)
    sections = comparison_table(runs, looks)
    return {
        **frame(title, place, ""),
        "cautions": cautions(runs),
        "damaged": list(dict.fromkeys(d for record in (*records, *runs) for d in record.damaged)),
        "verdicts": verdicts_of(lone) if lone else [],
        "agreement": agreement_table(lone) if lone else Table(),
        "runs": [run.label for run in runs],
        "sections": {section: rows for section, rows in sections.items() if rows},
        "commands": commands(runs[0]) if runs else [],
    }


def _runs_of(record: RunRecord) -> tuple[RunRecord, ...]:
    """Returns the runs that are compared: those of several seeds, or the run itself."""
    if record.seeds or record.mixture is None:
        return record.seeds
    return (record,)
