"""A report as text for a terminal: on one run, or several runs beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from bydore_pyro import terminal
from bydore_pyro.report.commands import commands
from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.report.sections import Section, run_sections
from bydore_pyro.report.tables import comparison_table, seeds_table
from bydore_pyro.report.words import Verdict

WIDTH = 100  # characters, of what is not a table


def report_text(*folders: Path, domain_tokens: Sequence[str] = ()) -> str:
    """Returns the report on a run, or several runs beside each other.

    Args:
        folders: Of runs, such as searches with different seeds.
        domain_tokens: Of one run, see `read_run`.

    Raises:
        RunFolderError: When a folder holds no finished run.
    """
    if len(folders) > 1:
        return _comparison([read_run(folder, str(folder)) for folder in folders])
    record = read_run(folders[0], domain_tokens=domain_tokens)
    sections = [one for one in run_sections(record, drawn=False) if not one.expert]
    parts = [part for section in sections for part in _as_text(section)]
    shown = (path for path in record.path.iterdir() if not path.name.startswith("."))
    files = sorted(path.name for path in shown if path.is_file())
    lines = [f"In {record.path}: {', '.join(files)}"]
    lines += ["Next:", *(f"  {line}" for _, line in commands(record))]
    return "\n" + "\n\n".join([*parts, "\n".join(map(terminal.visible, lines))])


def _comparison(records: Sequence[RunRecord]) -> str:
    tables = (comparison_table(records), seeds_table(records))
    shown = [table.as_text() for table in tables if table.rows]
    return "\n" + "\n\n".join([*map(filled, cautions(records)), *shown])


def _as_text(section: Section) -> Iterator[str]:
    """Yields tables and words by themselves, and verdicts in one paragraph."""
    judged = []
    for block in section.blocks:
        if isinstance(block, Verdict):
            text = f"{block.level:<7}  {block.heading} {block.figures}"
            judged.append(filled(text, " " * 9))
        elif not isinstance(block, terminal.Table):
            yield filled(str(block))
        elif not block.folded:
            yield block.as_text()
    if judged:
        yield "\n".join(judged)


def filled(text: str, indent: str = "") -> str:
    """Returns a text in lines as wide as a terminal shows well, all but the first indented."""
    return fill(
        terminal.visible(text),
        WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def cautions(records: Sequence[RunRecord]) -> list[str]:
    """Returns the reasons why these runs cannot simply be compared, if any."""
    mixtures = [record.mixture for record in records]
    properties: dict[str, list[Any]] = {
        "The runs have different domains: a weight that is missing is not zero.": [
            frozenset(mixture.names) for mixture in mixtures
        ],
        "The runs count tokens of different tokenizers: their shares do not compare.": [
            mixture.tokenizer for mixture in mixtures
        ],
        "The runs searched on different text.": [  # of an answer the files of its target count too
            None if record.found_by == "ask" else record.mixture.data_sha256 for record in records
        ],
        "The runs have different validation text: their losses do not compare.": [
            str(record.asked("question", "validation") or "") for record in records
        ],
    }
    return [line for line, values in properties.items() if len(set(filter(None, values))) > 1]
