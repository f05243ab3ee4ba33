"""What a report tells of a run: sections of blocks, the same for a page and for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bydore_pyro.report.figures import rounds_figure, trajectory_figure, weights_figure
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.tables import (
    agreement_table,
    cautions,
    commands,
    comparison_table,
    cost_table,
    cost_told,
    length_table,
    loss_table,
    regression_tables,
    round_table,
    weights_table,
)
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["Command", "Section", "comparison_sections", "run_sections"]

WEIGHTS = (
    "Diamonds: weights, as shares of the training tokens; hollow: free of the cap. Thin lines: "
    "intervals. Below 0.01: the probability of next to nothing. Epochs: how often the run reads "
    "the domain's text."
)
ROUNDS = (
    "Lines: the weights by the evidence of all rounds so far; dots: by each round alone. If rounds "
    "are far apart, the proxy asks for other text as it learns."
)
FRESH = (
    "One fresh model trains on each mixture, all from the same start and for as many tokens as the "
    "search. How far another start would move these losses was not measured."
)


@dataclass(frozen=True)
class Command:
    """A command line, and what it does."""

    told: str
    line: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, in order.

    Attributes:
        title: The heading.
        blocks: Words, tables, figures, verdicts, commands; an empty table or None is left out.
        expert: Whether a terminal leaves it out.
    """

    title: str
    blocks: Sequence[str | Table | Figure | Verdict | Command | None]
    expert: bool = False


def run_sections(record: RunRecord, *, drawn: bool = True) -> list[Section]:
    """Returns the sections of one run, or of a search with several seeds.

    Args:
        record: The run.
        drawn: Whether figures are wanted; they need plotly.
    """
    metrics, mixture = record.metrics, record.mixture

    def figures(*draw: Callable[[RunRecord], Figure | None]) -> list[Figure | None]:
        return [one(record) for one in draw] if drawn else []

    notes = [] if mixture is None else list(mixture.notes)
    damaged = [f"Could not be read: {line}" for line in record.damaged]
    fresh = loss_table(record)
    sections = (
        Section(
            "The mixture",
            [
                *damaged,
                *notes,
                *figures(weights_figure),
                WEIGHTS if drawn and mixture is not None else None,
                weights_table(record),
                agreement_table(record),
                *regression_tables(record),
            ],
        ),
        Section("By the length of the run", [length_table(record)]),
        Section("What fresh models reach", [fresh, FRESH if fresh.rows else None]),
        Section("Is it to be believed?", verdicts_of(record)),
        Section("", [] if mixture is None else [cost_told(record)]),
        Section(
            "How it was learned",
            [
                *figures(rounds_figure, trajectory_figure),
                ROUNDS if metrics.matching.rounds else None,
                round_table(record),
            ],
            expert=True,
        ),
        Section(
            "What it cost",
            [
                cost_table(metrics.search, "Finding the weights"),
                cost_table(metrics.verification, "Judging them by fresh models: not part of it"),
            ],
            expert=True,
        ),
        Section("How to use it", [Command(*pair) for pair in commands(record)], expert=True),
    )
    return [one for one in sections if any(_shown(block) for block in one.blocks)]


def comparison_sections(records: Sequence[RunRecord]) -> list[Section]:
    """Returns the sections of several runs beside each other; several seeds are so many runs."""
    runs = [one for r in records for one in ((r,) if r.mixture is not None else r.seeds)]
    if not runs:
        return []
    following = [Command(*pair) for pair in commands(runs[0])]
    return [
        Section("The runs", [*cautions(runs), comparison_table(runs)]),
        Section("How to use the first", following),
    ]


def _shown(block: object) -> bool:
    return bool(block.rows) if isinstance(block, Table) else block is not None
