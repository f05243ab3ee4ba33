"""Several runs beside each other: records in, the rows of one table out; no HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bydore_pyro.mixture import Mixture, total_variation
from bydore_pyro.report.drawing import Look
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.table import Table
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import ABSENT, count, duration, flops_of, number

__all__ = ["Cell", "Row", "agreement_table", "cautions", "comparison_table"]

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


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table, a cell a run; `look` is a domain's."""

    label: str
    cells: Sequence[Cell]
    look: Look | None = None


def cautions(records: Sequence[RunRecord]) -> list[str]:
    """Returns why these runs cannot simply be compared, where that is so."""
    told = []
    mixtures = [r.mixture for r in records if r.mixture is not None]
    if len({frozenset(m.names) for m in mixtures}) > 1:
        told.append("The runs have different domains: a weight that is missing is not zero.")
    if len({m.tokenizer for m in mixtures if m.tokenizer}) > 1:
        told.append("The runs count tokens of different tokenizers: their shares do not compare.")
    if len({m.data_sha256 for m in mixtures if m.data_sha256}) > 1:
        told.append("The runs searched on different text.")
    if (
        len({str(r.asked("run", "validation")) for r in records if r.asked("run", "validation")})
        > 1
    ):
        told.append("The runs have different validation text: their losses do not compare.")
    if any("stopped" in r.metrics for r in records):
        stopped = ", ".join(r.label for r in records if "stopped" in r.metrics)
        told.append(f"These runs stopped before their end: {stopped}.")
    return told


def comparison_table(
    records: Sequence[RunRecord], looks: Mapping[str, Look]
) -> dict[str, list[Row]]:
    """Returns the rows of the table by section: runs, weights, verdicts, options that differ."""
    return {
        "The run": _facts(records),
        "Weights": _weights(records, looks),
        "Is it to be believed?": _verdicts(records),
        "Options that differ": _options(records),
    }


def _row(records: Sequence[RunRecord], label: str, text: Callable[[RunRecord], str | None]) -> Row:
    return Row(label=label, cells=[Cell(text=text(record) or ABSENT) for record in records])


def _facts(records: Sequence[RunRecord]) -> list[Row]:
    """Returns what each run is, what fresh models on its mixture reached, and what it cost."""
    rows = [
        _row(records, "method", lambda r: r.method),
        _row(records, "seed", lambda r: number(r.number("seed"), 0)),
    ]
    losses = [record.numbers("validation_loss_nats_per_token") for record in records]
    for label in dict.fromkeys(label for found in losses for label in found):
        cells = [Cell(text=number(found.get(label), 4)) for found in losses]
        rows.append(Row(label=f"loss of a fresh model on {label}, nats per token", cells=cells))
    first = records[0] if records else None
    if first is not None and len(records) > 1:
        rows.append(
            _row(records, f"total variation from {first.label}", lambda r: _apart(first, r))
        )
    return [
        *rows,
        _row(records, "tokens", lambda r: count(r.number("search", "tokens"))),
        _row(records, "FLOPs", lambda r: flops_of(r.number("search", "flops"))),
        _row(records, "time", lambda r: duration(r.number("search", "seconds"))),
        _row(records, "folder", lambda r: str(r.path)),
    ]


def _apart(one: RunRecord, other: RunRecord) -> str | None:
    if one is other or one.mixture is None or other.mixture is None:
        return None
    return number(total_variation(one.mixture.as_dict(), other.mixture.as_dict()))


def _weights(records: Sequence[RunRecord], looks: Mapping[str, Look]) -> list[Row]:
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

    return [
        Row(label=name, cells=[cell(mixture, name) for mixture in mixtures], look=looks[name])
        for name in sorted(looks, key=total, reverse=True)
    ]


def _verdicts(records: Sequence[RunRecord]) -> list[Row]:
    found = [{v.question: v for v in verdicts_of(record)} for record in records]
    rows = []
    for question in dict.fromkeys(question for verdicts in found for question in verdicts):
        verdicts = [of_run.get(question) for of_run in found]
        cells = [Cell() if v is None else Cell(text="", more=v.answer, level=v.level)
                 for v in verdicts]  # fmt: skip
        rows.append(Row(label=question, cells=cells))
    return rows


def _options(records: Sequence[RunRecord]) -> list[Row]:
    """Returns the options in which runs that have them differ, but for seeds and folders."""
    places = dict.fromkeys(
        (part, option)
        for record in records
        for part, values in record.config.items()
        if isinstance(values, dict)
        for option in values
    )
    rows = []
    for part, option in places:
        parts = [record.config.get(part) for record in records]
        told = [
            _told(values[option]) if isinstance(values, dict) and option in values else ABSENT
            for values in parts
        ]
        if len(set(told) - {ABSENT}) > 1 and (part, option) not in ASIDE:
            rows.append(Row(label=option, cells=[Cell(text=text) for text in told]))
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
