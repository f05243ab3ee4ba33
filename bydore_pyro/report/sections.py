"""What stands in the report on a run, in which order, and the sentences between its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bydore_pyro import answer, terminal
from bydore_pyro.errors import listed
from bydore_pyro.report.commands import commands
from bydore_pyro.report.explorer import Explored, explored, explorer_words
from bydore_pyro.report.figures import (
    changes_figure,
    curves_figure,
    frontier_figure,
    trajectory_figure,
    triangle_figure,
)
from bydore_pyro.report.regressions import regression_tables
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.summary import Lead, cost_sentence, lead
from bydore_pyro.report.tables import (
    JUDGED,
    bounds_table,
    cost_table,
    groups_table,
    head_within,
    loss_table,
    outlook_table,
    round_table,
    saved_table,
    targets_table,
    tasks_table,
    weights_table,
)
from bydore_pyro.report.verdicts import asks_for_longer, outlook_verdicts, verdicts_of
from bydore_pyro.report.words import Verdict, count, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Block = str | terminal.Table | Figure | Verdict | Lead | Explored | tuple[str, str]

WEIGHTS = (
    "Weights are shares of the training tokens; rows of a path and of the rest are sums, in which "
    "domains that have rows of their own count again. Epochs: how often the run reads the domain's "
    "text. In pictures the mouse over a point, bar, line or name shows its numbers."
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
TRIANGLE = (
    "Each dot is one draw of the best weights. At a corner of the triangle, the weight of its "
    "domain is 1."
)
CHANGES = (
    "Dots: the change of each target's loss that is expected of these weights; below 0 is better. "
    "Lines: 94 % intervals for two single runs, blue where all of it is better, red where worse."
)
FIRST = 2  # sections of a page that are not folded
FRESH = (
    "One fresh model trains on each mixture, all from the same start and for as many tokens as the "
    "search. How far another start would move these losses was not measured."
)


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, in order.

    Attributes:
        title: The heading.
        blocks: Words, tables, figures, verdicts, and pairs of a command's meaning and line; None
            and tables without rows are not shown.
        expert: Whether a terminal leaves it out.
        folded: Whether a page shows it only when the reader asks for it.
    """

    title: str
    blocks: Sequence[Block | None]
    expert: bool = False
    folded: bool = False


def run_sections(record: RunRecord, *, drawn: bool = True) -> list[Section]:
    """Returns the sections of the report on a run.

    Args:
        record: The run.
        drawn: Whether figures are wanted.
    """
    metrics, mixture = record.metrics, record.mixture
    outlook, asked, fresh = metrics.outlook, record.forecast, loss_table(record)
    anew = metrics.measured_anew
    sections = [
        *(_first_screen(record) if drawn else ()),
        Section(
            "What the given mixture will do",
            [
                outlook_table(asked, JUDGED),
                saved_table(asked),
                *outlook_verdicts(asked, record.uncovered),
            ]
            if asked.expected
            else [],
        ),
        Section(
            "What the answer will do" if asked.expected else "What it will do",
            [
                outlook_table(outlook),
                losses_words(outlook),
                saved_table(outlook),
                bounds_table(outlook),
                *outlook_verdicts(outlook, record.uncovered),
                *(_with_words(frontier_figure(outlook), FRONTIER) if drawn else ()),
                *(_with_words(curves_figure(outlook), CURVES) if drawn else ()),
            ],
        ),
        Section(
            "The mixture",
            [
                f"{ANEW} {listed(anew)}." if anew else None,
                *mixture.notes,
                *(
                    _with_words(answer.plot_weights(mixture, metrics.sums), WEIGHTS)
                    if drawn
                    else ()
                ),
                *(_with_words(triangle_figure(record), TRIANGLE) if drawn else ()),
                weights_table(record),
                groups_table(record),
                weights_table(record, whole=True),
                intervals_words(record),
                targets_table(record),
                tasks_table(record),
                *regression_tables(record),
            ],
        ),
        Section("What fresh models reach", [fresh, FRESH if fresh.rows else None]),
        Section("Is it to be believed?", verdicts_of(record)),
        Section("", [] if drawn else [cost_sentence(record)]),
        Section(
            "How it was learned",
            [
                trajectory_figure(record) if drawn else None,
                round_table(record),
            ],
            expert=True,
        ),
        Section("What finding the weights cost", [cost_table(metrics.search)], expert=True),
        Section("How to use it", commands(record), expert=True),
    ]
    shown = [replace(one, blocks=[b for b in one.blocks if _is_shown(b)]) for one in sections]
    given = bool(asked.expected)  # the mixture that was asked about is not folded away
    return [
        replace(one, folded=drawn and bool(one.title) and place > (FIRST + given - 1))
        for place, one in enumerate(one for one in shown if one.blocks)
    ]


def _first_screen(record: RunRecord) -> list[Section]:
    """Returns what a page begins with: the run in five lines and a picture, and other weights."""
    changes = changes_figure(record.metrics.outlook)
    return [
        Section("", [lead(record), changes, CHANGES if changes else None]),
        Section("Try other weights", [explorer_words(record), explored(record)]),
    ]


def _with_words(figure: Figure | None, below: str) -> tuple[Figure | str, ...]:
    return () if figure is None else (figure, below)


def _is_shown(block: Block | None) -> bool:
    return bool(block.rows) if isinstance(block, terminal.Table) else block is not None


def intervals_words(record: RunRecord) -> str | None:
    """Returns in words what each interval of a weight is of; None where it has none, or other ones
    than a search by matching finds."""
    mixture, found = record.mixture, []
    best = {
        "law": "under the law of losses, which is not known exactly",
        "trials": "by the trial runs, which do not decide it exactly",
    }.get(record.metrics.outlook.decided, "by what was measured, which is known in part")
    free = "" if mixture.free_weights is None else " without caps"
    if mixture.hdi is not None and (record.by_matching or record.metrics.outlook.expected):
        found.append(
            f"The {percent(mixture.hdi_probability)} interval is where the best weight{free} "
            f"probably lies {best}."
        )
    if (outlook := record.metrics.outlook).freedom:
        found.append(
            f'"{head_within(outlook)}" is how far this weight may move from the answer, the others '
            f"in proportion, until the expected loss is 0.01 {outlook.unit('')} higher."
        )
    return " ".join(found) or None


def losses_words(outlook: answer.Outlook) -> str | None:
    """Returns for which runs an outlook holds; None where there is none."""
    if answer.ANSWER not in outlook.expected:
        return None
    words = (
        f"These losses are expected of runs of the proxy over {count(outlook.tokens)} tokens at a "
        "constant learning rate, as long as those that were measured"
    )
    if asks_for_longer(outlook):
        words += (
            f". The answer is for {count(outlook.asked)} tokens: the longer, the less of the "
            "domains' laws it rests on, from four times on only on what the targets are made of"
        )
    return f"{words}."
