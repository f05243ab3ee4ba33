"""A report on runs: text for a terminal, and one self-contained HTML page."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from bydore_pyro.answer import plot_weights
from bydore_pyro.errors import listed
from bydore_pyro.files import RunFolder
from bydore_pyro.mixture import require_finished
from bydore_pyro.report.commands import commands
from bydore_pyro.report.figures import as_svg, rounds_figure, trajectory_figure
from bydore_pyro.report.outlook import (
    JUDGED,
    bounds_table,
    curves_figure,
    frontier_figure,
    losses_words,
    outlook_table,
    outlook_verdicts,
)
from bydore_pyro.report.regressions import regression_tables
from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.report.tables import (
    agreement_table,
    cautions,
    comparison_table,
    cost_sentence,
    cost_table,
    intervals_words,
    loss_table,
    round_table,
    targets_table,
    weights_table,
)
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import Verdict
from bydore_pyro.terminal import Table, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)
WIDTH = 100  # characters, of what is not a table
EXPERT = ("How it was learned", "What finding the weights cost", "How to use it")
WEIGHTS = (
    "Weights are shares of the training tokens; rows of a path and of the rest are sums, in which "
    "domains that have rows of their own count again. Epochs: how often the run reads the domain's "
    "text. In pictures the mouse over a point, bar, line or name shows its numbers."
)
ROUNDS = (
    "Lines: the weights by the evidence of all rounds so far; dots: by each round alone. If rounds "
    "are far apart, the proxy asks for other text as it learns."
)
ANEW = "Measured anew, because the search did not know their text:"
FRONTIER = (
    "Grey: the best mixtures for some importance of each target; none is better on one of them "
    "without being worse on another."
)
CURVES = (
    "Lines: the law of losses, with its 94 % interval; dots: the runs that it rests on. A token of "
    "another domain counts as far as it teaches this one."
)
FRESH = (
    "One fresh model trains on each mixture, all from the same start and for as many tokens as the "
    "search. How far another start would move these losses was not measured."
)


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, in order.

    Attributes:
        title: The heading.
        blocks: Words, tables, figures, verdicts, and pairs of a command's meaning and line.
        expert: Whether a terminal leaves it out.
    """

    title: str
    blocks: Sequence[str | Table | Figure | Verdict | tuple[str, str]]
    expert: bool = False


def run_sections(record: RunRecord, *, drawn: bool = True) -> list[Section]:
    """Returns the sections of one run, or of a search with several seeds.

    Args:
        record: The run.
        drawn: Whether figures are wanted.
    """
    mixture = record.mixture
    weights = [plot_weights(mixture), WEIGHTS] if drawn and mixture is not None else []
    learned = [draw(record) for draw in (rounds_figure, trajectory_figure) if drawn]
    fresh = loss_table(record)
    outlook, asked = record.metrics.outlook, record.forecast
    seen: list[Any] = []
    for draw, below in ((frontier_figure, FRONTIER), (curves_figure, CURVES)):
        if drawn and (figure := draw(outlook)) is not None:
            seen += [figure, below]
    sections: tuple[tuple[str, Sequence[Any]], ...] = (
        ("What it will do", (
            outlook_table(outlook), losses_words(outlook), bounds_table(outlook),
            *outlook_verdicts(outlook, record.uncovered), *seen,
        )),
        ("What the given mixture will do", (
            outlook_table(asked, JUDGED), *outlook_verdicts(asked, record.uncovered),
        )),
        ("The mixture", (
            *(f"Could not be read: {line}" for line in record.damaged),
            f"{ANEW} {listed(anew)}." if (anew := record.metrics.measured_anew) else None,
            *(mixture.notes if mixture is not None else ()), *weights,
            weights_table(record), weights_table(record, whole=True), intervals_words(record),
            targets_table(record),
            agreement_table(record),
            *regression_tables(record),
        )),
        ("What fresh models reach", (fresh, FRESH if fresh.rows else None)),
        ("Is it to be believed?", verdicts_of(record)),
        ("", (cost_sentence(record) if mixture is not None else None,)),
        (EXPERT[0], (
            *learned, ROUNDS if record.metrics.matching.rounds else None, round_table(record),
        )),
        (EXPERT[1], (cost_table(record.metrics.search),)),
        (EXPERT[2], commands(record)),
    )  # fmt: skip
    shown = [
        Section(title, list(filter(_is_shown, blocks)), expert=title in EXPERT)
        for title, blocks in sections
    ]
    return [one for one in shown if one.blocks]


def _is_shown(block: Any) -> bool:
    return bool(block.rows) if isinstance(block, Table) else block is not None


def comparison_sections(records: Sequence[RunRecord]) -> list[Section]:
    """Returns the sections of several runs beside each other; each seed is a run."""
    runs = [one for r in records for one in ((r,) if r.mixture is not None else r.seeds)]
    return [
        Section("The runs", [*cautions(runs), comparison_table(runs)]),
        Section("How to use the first", commands(runs[0]), expert=True),
    ]


def report_text(folder: Path) -> str:
    """Returns a run's weights and losses, how far to believe them, its cost, its files and what to
    do next; for a search with several seeds, how they agree.

    Raises:
        RunFolderError: When the folder holds no finished run.
    """
    record = _finished(folder)
    sections = run_sections(record, drawn=False)
    parts = _texts(sections)
    shown = (path for path in record.path.iterdir() if not path.name.startswith("."))
    files = sorted(path.name for path in shown if path.is_file() or record.seeds)
    lines = [f"In {record.path}: {', '.join(files)}"]
    if following := commands(record):
        lines += ["Next:", *(f"  {line}" for _, line in following)]
    return "\n" + "\n\n".join([*parts, "\n".join(map(visible, lines))])


def comparison_text(folders: Sequence[Path]) -> str:
    """Returns several runs beside each other.

    Raises:
        RunFolderError: When a folder holds no finished run.
    """
    records = [_finished(one, str(one)) for one in folders]
    return "\n" + "\n\n".join(_texts(comparison_sections(records)))


def _finished(folder: Path, label: str | None = None) -> RunRecord:
    record = read_run(folder, label)
    if record.metrics.stopped:
        require_finished(folder)
    return record


def _texts(sections: Sequence[Section]) -> list[str]:
    return [part for one in sections if not one.expert for part in _as_text(one)]


def _as_text(section: Section) -> Iterator[str]:
    """Yields tables and words by themselves, and verdicts in one paragraph."""

    def lines(text: str, indent: str = "") -> str:
        return fill(visible(text), WIDTH, subsequent_indent=indent, break_on_hyphens=False,
                    break_long_words=False)  # fmt: skip

    judged = []
    for block in section.blocks:
        if isinstance(block, Verdict):
            text = f"{block.level:<7}  {block.heading} {block.figures}"
            judged.append(lines(text, " " * 9))
        elif not isinstance(block, Table):
            yield lines(str(block))
        elif not block.folded:
            yield block.as_text()
    if judged:
        yield "\n".join(judged)


def html_report(folders: Sequence[Path]) -> str:
    """Returns one HTML page on a run, or on several beside each other.

    Args:
        folders: Of runs: searches, cases, other methods' fits, searches with several seeds.

    Raises:
        ValueError: When there are none.
        RunFolderError: When a folder holds no weights.
    """
    if not folders:
        raise ValueError("Expected the folders of runs, found none")
    records = [read_run(one, str(one) if len(folders) > 1 else None) for one in folders]
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup
    from matplotlib.figure import Figure

    sections = run_sections(records[0]) if len(records) == 1 else []
    if len(records) > 1 or records[0].seeds:
        sections += comparison_sections(records)
    places = count()  # of figures

    def block_of(block: Any) -> dict[str, Any]:
        if isinstance(block, Figure):
            return {"kind": "Figure", "it": Markup(as_svg(block, f"figure {next(places)}"))}
        return {"kind": type(block).__name__, "it": block}

    def shown(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    label = records[0].label if len(records) == 1 else f"{len(records)} runs"
    return environment.get_template("page.html").render(
        title=f"{label}: weights of domains",
        subtitle=", ".join(str(record.path) for record in records),
        stopped=[f"{r.label} stopped: {r.metrics.stopped}" for r in records if r.metrics.stopped],
        sections=[(one.title, list(map(block_of, one.blocks))) for one in sections],
        configs=[(record.label, record.config) for record in records],
    )


def add_html_report(folder: RunFolder) -> str:
    """Writes `report.html` into a run's folder; returns its path in a line, or the reason for none.

    Nothing is raised: a search of hours must not fail for want of its page.
    """
    try:
        if folder.writes:
            folder.write_text("report.html", html_report([folder.path]))
    except Exception as error:
        logger.warning("No report.html", exc_info=True)
        return f"No report.html: {type(error).__name__}: {error}"
    return f"In a browser: {folder.path / 'report.html'}"
