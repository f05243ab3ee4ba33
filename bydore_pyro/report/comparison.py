"""What the page on several runs shows: one table, in which the weights are drawn too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bydore_pyro.mixture import Mixture, total_variation
from bydore_pyro.report.drawing import domain_looks
from bydore_pyro.report.run_record import RunRecord, labelled_runs
from bydore_pyro.report.run_sections import commands
from bydore_pyro.report.table import Table
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import ABSENT, count, duration, flops_of, number

__all__ = ["Cell", "agreement_table", "cautions", "comparison_page", "comparison_table"]

ASIDE = {("run", "out"), ("run", "seed"), ("fit", "method")}  # that other rows tell


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a row tells of a run: a few words, more below them, and a verdict's level.

    A weight is drawn too: its interval's lower end, itself and the upper end, as shares of the
    largest in the table.
    """

    text: str = ABSENT
    more: str = ""
    level: str = ""
    drawn: tuple[float, float, float] | None = None


def comparison_page(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Returns what the template `comparison.html` shows of runs; several seeds are so many runs."""
    lone = records[0] if len(records) == 1 else None
    compared = [
        run
        for record in records
        for run in ((record,) if record.mixture is not None else record.seeds)
    ]
    runs = labelled_runs(compared)
    looks = domain_looks(sorted({name for r in (*records, *runs) for name in r.domains}))
    place = f"Run folder: {lone.path}" if lone else ", ".join(str(r.path) for r in records)
    return {
        "title": f"{lone.label}: {len(runs)} seeds" if lone else f"{len(runs)} runs compared",
        "subtitle": place,
        "version": "",
        "cautions": cautions(runs),
        "damaged": list(dict.fromkeys(d for record in (*records, *runs) for d in record.damaged)),
        "verdicts": verdicts_of(lone) if lone else [],
        "agreement": agreement_table(lone) if lone else Table(),
        "runs": [run.label for run in runs],
        "looks": looks,
        "sections": comparison_table(runs, looks),
        "commands": commands(runs[0]) if runs else [],
    }


def cautions(records: Sequence[RunRecord]) -> list[str]:
    """Returns why these runs cannot simply be compared, where that is so."""
    mixtures = [record.mixture for record in records if record.mixture is not None]
    targets = [str(r.asked("run", "validation") or "") for r in records]
    told: dict[str, list[Any]] = {
        "The runs have different domains: a weight that is missing is not zero.": [
            frozenset(mixture.names) for mixture in mixtures
        ],
        "The runs count tokens of different tokenizers: their shares do not compare.": [
            mixture.tokenizer for mixture in mixtures
        ],
        "The runs searched on different text.": [mixture.data_sha256 for mixture in mixtures],
        "The runs have different validation text: their losses do not compare.": targets,
    }
    found = [line for line, values in told.items() if len(set(filter(None, values))) > 1]
    stopped = ", ".join(record.label for record in records if record.metrics.stopped)
    return found + ([f"These runs stopped before their end: {stopped}."] if stopped else [])


def comparison_table(
    records: Sequence[RunRecord], names: Iterable[str]
) -> dict[str, dict[str, list[Cell]]]:
    """Returns the rows of the table by section and label, a cell a run.

    Args:
        records: The runs.
        names: The domains.
    """
    sections = {
        "The run": _facts(records),
        "Weights": _weights(records, names),
        "Is it to be believed?": _verdicts(records),
        "Options that differ": _options(records),
    }
    return {section: rows for section, rows in sections.items() if rows}


def _facts(records: Sequence[RunRecord]) -> dict[str, list[Cell]]:
    """Returns what each run is, what fresh models on its mixture reached, and what it cost."""
    metrics = [record.metrics for record in records]
    losses = [one.validation_loss_nats_per_token for one in metrics]
    told = {
        "method": [record.method for record in records],
        "seed": [number(one.seed, 0) for one in metrics],
    }
    for label in dict.fromkeys(label for found in losses for label in found):
        name = f"loss of a fresh model on {label}, nats per token"
        told[name] = [number(found.get(label), 4) for found in losses]
    if len(records) > 1:
        name = f"total variation from {records[0].label}"
        told[name] = [_apart(records[0], record) for record in records]
    told |= {
        "tokens": [count(one.search.tokens) for one in metrics],
        "FLOPs": [flops_of(one.search.flops) for one in metrics],
        "time": [duration(one.search.seconds) for one in metrics],
        "folder": [str(record.path) for record in records],
    }
    return {label: [Cell(text=text) for text in texts] for label, texts in told.items()}


def _apart(one: RunRecord, other: RunRecord) -> str:
    if one is other or one.mixture is None or other.mixture is None:
        return ABSENT
    return number(total_variation(one.mixture.as_dict(), other.mixture.as_dict()))


def _weights(records: Sequence[RunRecord], names: Iterable[str]) -> dict[str, list[Cell]]:
    """Returns a row a domain, the largest mean weight first: of each run weight and interval."""
    mixtures = [record.mixture for record in records]
    known = [mixture for mixture in mixtures if mixture is not None]
    ends = [end for m in known for end in (*m.weights, *(high for _, high in m.hdi or ()))]
    largest = max(ends, default=1.0) or 1.0

    def cell(mixture: Mixture | None, name: str) -> Cell:
        if mixture is None or name not in mixture.names:
            return Cell()
        place = mixture.names.index(name)
        weight = mixture.weights[place]
        low, high = (weight, weight) if mixture.hdi is None else mixture.hdi[place]
        return Cell(
            text=number(weight),
            more="" if mixture.hdi is None else f"{number(low)} to {number(high)}",
            drawn=(low / largest, weight / largest, high / largest),
        )

    def total(name: str) -> float:
        return sum(mixture.as_dict().get(name, 0.0) for mixture in known)

    return {
        name: [cell(mixture, name) for mixture in mixtures]
        for name in sorted(names, key=total, reverse=True)
    }


def _verdicts(records: Sequence[RunRecord]) -> dict[str, list[Cell]]:
    found = [{v.question: v for v in verdicts_of(record)} for record in records]
    return {
        question: [
            Cell(text="", more=one[question].answer, level=one[question].level)
            if question in one
            else Cell()
            for one in found
        ]
        for question in dict.fromkeys(question for verdicts in found for question in verdicts)
    }


def _options(records: Sequence[RunRecord]) -> dict[str, list[Cell]]:
    """Returns the options in which runs that have them differ, but for seeds and folders."""
    known = [
        {
            (part, option): _told(value)
            for part, values in record.config.items()
            if isinstance(values, dict)
            for option, value in values.items()
        }
        for record in records
    ]
    rows: dict[str, list[Cell]] = {}
    for part, option in dict.fromkeys(place for options in known for place in options):
        told = [options.get((part, option), ABSENT) for options in known]
        if len(set(told) - {ABSENT}) > 1 and (part, option) not in ASIDE:
            label = f"{part} {option}" if option in rows else option
            rows[label] = [Cell(text=text) for text in told]
    return rows


def _told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "not given" if value is None else str(value)


def agreement_table(record: RunRecord) -> Table:
    """Returns how several seeds agree on each domain."""
    rows = [
        (
            name,
            number(one.mean),
            number(one.sd_over_seeds, 4),
            number(one.posterior_sd, 4),
            number(one.coverage, 2),
            "overconfident" if one.overconfident else "",
        )
        for name, one in record.agreement.items()
    ]
    return Table(
        header=("domain", "weight", "sd over seeds", "posterior's own sd", "coverage", ""),
        rows=rows,
        caption="The mean weights over the seeds",
        note="Coverage: the share of pairs of seeds in which the interval of one holds the weight "
        "that the other found.",
    )
