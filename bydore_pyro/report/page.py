"""Runs' folders as text for a terminal, and as one self-contained HTML page."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.report.sections import Command, Section, comparison_sections, run_sections
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.words import Table, clean, number
from bydore_pyro.utils import DataError, RunFolder, RunFolderError, require, visible

__all__ = ["add_html_report", "html_report", "report_text"]

logger = logging.getLogger(__name__)
WIDTH = 100  # characters, of what is not a table


def report_text(folder: Path) -> str:
    """Returns a run's weights and losses, how far to believe them, what they cost, where the files
    lie and what to do next; of a search with several seeds how they agree.

    Raises:
        RunFolderError: When the folder holds no finished run.
    """
    record = read_run(folder)
    metrics = record.metrics
    if metrics.stopped:
        raise RunFolderError(
            f"Expected a finished run in {folder}, found one that stopped after "
            f"{number(metrics.steps, 0)} steps: {metrics.stopped}"
        )
    if record.mixture is not None and metrics.search.flops is None:
        told = [damage for damage in record.damaged if damage.startswith("metrics.json")]
        reason = told[0] if told else "no cost of a search in its metrics.json"
        raise RunFolderError(f"Expected a complete run in {folder}, found {reason}")
    sections = run_sections(record, drawn=False)
    parts = [part for one in sections if not one.expert for part in _as_text(one)]
    files = sorted(p.name for p in record.path.iterdir() if p.is_file() or record.seeds)
    lines = [f"In {record.path}: {', '.join(files)}"]
    lines += [f"  {c.line}" for s in sections for c in s.blocks if isinstance(c, Command)]
    if len(lines) > 1:
        lines.insert(1, "Next:")
    return "\n" + "\n\n".join([*parts, "\n".join(map(visible, lines))])


def _as_text(section: Section) -> Iterator[str]:
    """Yields tables and words by themselves, and verdicts in one paragraph."""
    judged = [block for block in section.blocks if isinstance(block, Verdict)]
    for block in section.blocks:
        if isinstance(block, Table) and block.rows:
            yield block.as_text()
        elif isinstance(block, str):
            yield fill(visible(block), WIDTH, break_on_hyphens=False, break_long_words=False)
    if judged:
        yield "\n".join(
            fill(visible(f"{one.level:<7}  {one.told} {one.figures}"), WIDTH,
                 subsequent_indent=" " * 9, break_on_hyphens=False, break_long_words=False)
            for one in judged
        )  # fmt: skip


def html_report(folders: Sequence[Path]) -> str:
    """Returns one HTML page on a run, or on several beside each other.

    Args:
        folders: Of runs: searches, cases, other methods' fits, searches with several seeds.

    Raises:
        ValueError: When there are none.
        RunFolderError: When a folder holds no weights.
        DataError: When plotly or jinja2 is not installed.
    """
    if not folders:
        raise ValueError("Expected the folders of runs, found none")
    records = _labelled([read_run(folder) for folder in folders])
    for package in ("jinja2", "plotly"):
        require(package, "report")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.graph_objects import Figure

    sections = run_sections(records[0]) if len(records) == 1 else []
    if len(records) > 1 or records[0].seeds:
        sections = [*sections, *comparison_sections(records)]
    drawn = 0

    def block_of(block: Any) -> dict[str, Any]:
        nonlocal drawn
        if not isinstance(block, Figure):
            return {"kind": type(block).__name__, "it": block}
        drawn += 1
        page = block.to_html(
            full_html=False, include_plotlyjs=drawn == 1, config={"displaylogo": False}
        )
        return {"kind": "Figure", "it": Markup(page)}  # plotly escapes what it is given

    def shown(value: Any) -> Any:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    label = records[0].label if len(records) == 1 else f"{len(records)} runs"
    stopped = [f"{r.label} stopped: {r.metrics.stopped}" for r in records if r.metrics.stopped]
    return environment.get_template("page.html").render(
        title=f"{label}: weights of domains",
        subtitle=", ".join(str(record.path) for record in records),
        stopped=stopped,
        sections=[
            {"title": one.title, "blocks": [block_of(b) for b in one.blocks if b is not None]}
            for one in sections
        ],
        configs=[(record.label, record.config) for record in records],
    )


def add_html_report(folder: RunFolder) -> str:
    """Writes `report.html` into a run's folder; returns a line: where it lies, or why it does not.

    Nothing is raised: a search of hours must not fail for want of its page.
    """
    try:
        if folder.writes:
            folder.write_text("report.html", html_report([folder.path]))
    except DataError as error:
        return f"No report.html: {error}"
    except Exception as error:
        logger.warning("No report.html", exc_info=True)
        return f"No report.html: {type(error).__name__}: {error}"
    return f"In a browser: {folder.path / 'report.html'}"


def _labelled(records: list[RunRecord]) -> list[RunRecord]:
    """Returns runs whose labels differ: they are numbered where two folders have one name."""
    if len({record.label for record in records}) == len(records):
        return records
    return [
        dataclasses.replace(record, label=f"{place}: {record.label}")
        for place, record in enumerate(records, start=1)
    ]
