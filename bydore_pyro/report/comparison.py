"""The sections of a report on several runs: records in, plain words and tables out; no HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from bydore_pyro.mixture import total_variation
from bydore_pyro.report.drawing import Look
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.run_sections import PARTS
from bydore_pyro.report.verdicts import decisions, verdicts_of
from bydore_pyro.report.words import ABSENT, count, duration, flops_of, number

__all__ = [
    "agreement_rows",
    "cautions",
    "costs_by_part",
    "differing_options",
    "distances",
    "overview",
    "verdict_table",
    "weight_table",
]

ASIDE = {("run", "out"), ("run", "seed"), ("fit", "method")}  # that the table of runs tells


def overview(records: Sequence[RunRecord]) -> list[dict[str, str]]:
    """Returns a row a run: what it is, what it reached and what it cost."""
    rows = []
    for record in records:
        decided = decisions(record)
        clear = sum(1 for verdict in decided.values() if verdict != "undecided")
        losses = record.numbers("validation_loss_nats_per_token")
        seed = record.number("seed")
        jitter = record.number("jitter_second_half")
        rows.append(
            {
                "method": record.method,
                "seed": number(seed, 0),
                "loss": number(losses.get("learned"), 4),
                "decided": f"{clear} of {len(decided)}" if decided else ABSENT,
                # Weights that change in rounds alone do not jitter from step to step.
                "jitter": ABSENT if record.by_matching else number(jitter, 4),
                "tokens": count(record.number("search", "tokens")),
                "flops": flops_of(record.number("search", "flops")),
                "seconds": duration(record.number("search", "seconds")),
                "path": str(record.path),
            }
        )
    return rows


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


def weight_table(
    records: Sequence[RunRecord], looks: Mapping[str, Look]
) -> list[tuple[Look, list[tuple[str, str]]]]:
    """Returns a row a domain: of each run the weight and its interval; largest mean first."""
    weights = [{} if r.mixture is None else r.mixture.as_dict() for r in records]
    order = sorted(looks, key=lambda name: -sum(found.get(name, 0.0) for found in weights))
    intervals: list[dict[str, Any]] = [
        dict(zip(r.mixture.names, r.mixture.hdi or (), strict=False)) if r.mixture else {}
        for r in records
    ]
    rows = []
    for name in order:
        cells = []
        for found, interval in zip(weights, intervals, strict=True):
            low, high = interval.get(name, (None, None))
            told = "" if low is None else f"{number(low)} to {number(high)}"
            cells.append((number(found.get(name)), told))
        rows.append((looks[name], cells))
    return rows


def distances(records: Sequence[RunRecord]) -> list[tuple[str, str, str]]:
    """Returns the total variation between the weights of every two runs."""
    rows = []
    for one, other in combinations(records, 2):
        if one.mixture is None or other.mixture is None:
            continue
        apart = total_variation(one.mixture.as_dict(), other.mixture.as_dict())
        rows.append((one.label, other.label, number(apart)))
    return rows


def verdict_table(records: Sequence[RunRecord]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns a row a question: of each run the verdict's level and answer."""
    answers = [{v.question: (v.level, v.answer) for v in verdicts_of(r)} for r in records]
    questions = list(dict.fromkeys(question for found in answers for question in found))
    return [(q, [found.get(q, ("", ABSENT)) for found in answers]) for q in questions]


def costs_by_part(records: Sequence[RunRecord]) -> list[dict[str, float]]:
    """Returns the FLOPs of each run's search or fit by part, in plain words."""
    found = []
    for record in records:
        search = record.metrics.get("search")
        parts = search.get("parts") if isinstance(search, dict) else None
        names = list(parts) if isinstance(parts, dict) else []
        flops = {n: record.numbers("search", "parts", n).get("flops", 0.0) for n in names}
        found.append({PARTS.get(name, str(name)): value for name, value in flops.items()})
    return found


def differing_options(records: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
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
            rows.append((option, told))
    return rows


def _told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "not given" if value is None else str(value)


def agreement_rows(
    record: RunRecord, looks: Mapping[str, Look]
) -> list[tuple[Look, list[str], bool]]:
    """Returns a row a domain of several seeds: its look, its figures, whether overconfident."""
    rows = []
    for name, row in record.agreement.items():
        cells = []
        for column in ("mean", "sd_over_seeds", "posterior_sd", "coverage"):
            try:
                cells.append(number(float(row.get(column, "nan")), 4 if "sd" in column else 3))
            except ValueError:
                cells.append(ABSENT)
        rows.append((looks[name], cells, row.get("overconfident") == "True"))
    return rows
