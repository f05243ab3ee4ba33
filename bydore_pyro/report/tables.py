"""A run's tables and its cost, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bydore_pyro.answer import ANSWER, Outlook
from bydore_pyro.mixture import MOST_SHOWN, Mixture, Row, interval_of, shown_rows, total_variation
from bydore_pyro.report.outlook import WITHIN, price_columns
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import ABSENT, count, duration, number, percent
from bydore_pyro.setup import Spent
from bydore_pyro.terminal import Table

FEW_SHARES = 3  # of what a target is made of


def weights_table(record: RunRecord, *, whole: bool = False) -> Table:
    """Returns a row a domain, the largest weight first; columns that no domain has are left out.

    Of many domains the largest, and the sums of branches and of the rest (`shown_rows`). The
    `whole` table has every domain, and is none where the other has them all.
    """
    mixture = record.mixture
    if mixture is None or (whole and len(mixture.names) <= MOST_SHOWN):
        return Table()
    names, epochs = mixture.names, record.metrics.run_epochs
    rows = shown_rows(names, mixture.weights, len(names) if whole else MOST_SHOWN)
    places = [row.places[0] if row.kind == "domain" else None for row in rows]
    columns = {"domain": [row.label for row in rows], "weight": _sums(mixture.weights, rows)}
    if mixture.free_weights is not None:
        columns["uncapped"] = _sums(mixture.free_weights, rows)
    if mixture.hdi is not None:
        ends = [interval_of(mixture, row) for row in rows]
        interval = f"{percent(mixture.hdi_probability)} interval"
        columns[interval] = [
            ABSENT if one is None else f"{number(one[0])} to {number(one[1])}" for one in ends
        ]
    own = [None if k is None else names[k] for k in places]
    columns |= price_columns(record.metrics.outlook, own)
    if epochs:
        columns["epochs"] = [
            "" if k is None else number(epochs.get(names[k]), ".2f") for k in places
        ]
    if mixture.prior is not None and (decided := mixture.verdicts()):
        words = {"above": "more", "below": "less"}
        columns["than the prior"] = [
            "" if k is None else words.get(decided[names[k]], "undecided") for k in places
        ]
    return Table(
        header=tuple(columns),
        rows=list(zip(*columns.values(), strict=True)),
        caption=f"All {len(names)} domains" if whole else "",
        folded=whole,
    )


def intervals_words(record: RunRecord) -> str | None:
    """Returns in words what each interval of a weight is of; None where it has none, or other ones
    than a search by matching finds."""
    mixture, found = record.mixture, []
    if mixture is None:
        return None
    best = {
        "law": "under the law of losses, which is not known exactly",
        "trials": "by the trial runs, which do not decide it exactly",
    }.get(record.metrics.outlook.decided, "by the target's gradients, which are known in part")
    free = "" if mixture.free_weights is None else " without caps"
    if mixture.hdi is not None and (record.by_matching or record.metrics.outlook.expected):
        found.append(
            f"The {percent(mixture.hdi_probability)} interval is where the best weight{free} "
            f"probably lies {best}."
        )
    if record.metrics.outlook.freedom:
        found.append(
            f'"{WITHIN}" is how far this weight may move from the answer, the others in '
            "proportion, until the expected loss is 0.01 nats per token higher."
        )
    return " ".join(found) or None


def _sums(weights: Sequence[float], rows: Sequence[Row]) -> list[str]:
    return [number(sum(weights[k] for k in row.places), ".4f") for row in rows]


def targets_table(record: RunRecord) -> Table:
    """Returns what each target is made of, and how much of it no mixture explains."""
    rows = []
    for name, one in record.metrics.targets.items():
        most = sorted(one.composition.items(), key=lambda share: -share[1])[:FEW_SHARES]
        made = ", ".join(f"{domain} {percent(share)}" for domain, share in most)
        rows.append((name, percent(one.importance), percent(one.unexplained), made))
    return Table(
        header=("target", "importance", "unexplained", "made most of"),
        rows=rows,
        caption="What the targets are made of, each by itself"
        if len(rows) > 1
        else "What the target is made of",
    )


def loss_table(record: RunRecord) -> Table:
    """Returns fresh models' losses: label, nats per token, difference from uniform weights."""
    losses = record.metrics.validation_loss_nats_per_token
    uniform = losses.get("uniform")
    rows = [
        (label, number(loss, ".4f"), ABSENT if uniform is None else f"{loss - uniform:+.4f}")
        for label, loss in sorted(losses.items(), key=lambda item: item[1])
    ]
    return Table(header=("fresh model trained on", "nats per token", "than uniform"), rows=rows)


def round_table(record: RunRecord) -> Table:
    """Returns the rounds of a search by matching, a row each."""
    rows = [
        (str(place), number(one.step, ".0f"), count(one.sequences), number(one.validation_loss),
         percent(one.unexplained), number(one.scale, ".2f"))
        for place, one in enumerate(record.metrics.matching.rounds, start=1)
    ]  # fmt: skip
    return Table(
        header=("round", "after step", "sequences", "validation loss", "unexplained", "scale"),
        rows=rows,
        caption="The rounds. Unexplained and scale belong to the evidence of all rounds so far",
    )


def cost_sentence(record: RunRecord) -> str:
    """Returns the cost of a run as a sentence; unknown parts are left out."""
    metrics, spent = record.metrics, record.metrics.search
    known = (
        duration(spent.seconds) if spent.seconds else "",
        f"{spent.flops:.2e} FLOPs" if spent.flops else "",
        f"on {metrics.device}" if metrics.device else "",
        f"{metrics.threads:.0f} thread{'s' * (metrics.threads > 1)}" if metrics.threads else "",
        f"peak memory {metrics.peak_memory_megabytes / 1024:.1f} GB"
        if metrics.peak_memory_megabytes
        else "",
    )
    return f"Found by {record.found_by}: {', '.join(filter(None, known)) or 'at no cost'}."


def cost_table(cost: Spent) -> Table:
    """Returns what a run cost: its parts by falling FLOPs, the sum last."""
    if not cost.flops and not cost.parts:
        return Table()
    parts = sorted(cost.parts.items(), key=lambda part: -(part[1].flops or 0.0))
    rows = [
        (name, count(one.tokens), number(one.flops, ".2e"), duration(one.seconds))
        for name, one in [*parts, ("in all", cost)]
    ]
    return Table(header=("part", "tokens", "FLOPs", "time"), rows=rows)


def cautions(records: Sequence[RunRecord]) -> list[str]:
    """Returns the reasons why these runs cannot simply be compared, if any."""
    mixtures = [record.mixture for record in records if record.mixture is not None]
    properties: dict[str, list[Any]] = {
        "The runs have different domains: a weight that is missing is not zero.": [
            frozenset(mixture.names) for mixture in mixtures
        ],
        "The runs count tokens of different tokenizers: their shares do not compare.": [
            mixture.tokenizer for mixture in mixtures
        ],
        "The runs searched on different text.": _texts(records),
        "The runs have different validation text: their losses do not compare.": [
            str(record.asked("question", "validation") or "") for record in records
        ],
    }
    return [line for line, values in properties.items() if len(set(filter(None, values))) > 1]


def _texts(records: Sequence[RunRecord]) -> list[str]:
    """Returns the hash of each run's text; of an answer that of the search that measured it: its
    own counts files that are its target too."""
    found: dict[str, str] = {}
    for record in sorted(records, key=lambda one: one.found_by == "ask"):
        if record.mixture is not None:
            found.setdefault(_measured_by(record), record.mixture.data_sha256 or "")
    return [found.get(_measured_by(record), "") for record in records]


def _measured_by(record: RunRecord) -> str:
    of = None if record.metrics.measured_anew else record.asked("answer", "of")
    return str(of or record.path.absolute())


def comparison_table(records: Sequence[RunRecord]) -> Table:
    """Returns a column a run: its method and cost, its fresh models' losses, the distance of its
    weights from the first run's, its weights with intervals, and its verdicts."""
    metrics = [record.metrics for record in records]
    rows: dict[str, list[str]] = {
        "method": [record.found_by for record in records],
        "seed": [number(one.seed, ".0f") for one in metrics],
        "FLOPs": [number(one.search.flops, ".2e") for one in metrics],
        "time": [duration(one.search.seconds) for one in metrics],
    }
    expected = [_expected(record.metrics.outlook) for record in records]
    for text in dict.fromkeys(text for found in expected for text in found):
        rows[f"expected nats per token on {text}"] = [found.get(text, ABSENT) for found in expected]
    losses = [one.validation_loss_nats_per_token for one in metrics]
    for label in dict.fromkeys(label for found in losses for label in found):
        rows[f"nats per token, fresh model on {label}"] = [
            number(found.get(label), ".4f") for found in losses
        ]
    mixtures = [record.mixture for record in records if record.mixture is not None]
    weights = [mixture.as_dict() for mixture in mixtures]
    rows[f"total variation from {records[0].label}"] = [
        number(total_variation(weights[0], other)) for other in weights
    ]
    largest = {n: max(one.get(n, 0.0) for one in weights) for one in weights for n in one}
    for row in shown_rows(list(largest), list(largest.values())):
        own = [list(largest)[k] for k in row.places]
        rows[f"weight of {row.name}"] = [_weight(mixture, own) for mixture in mixtures]
    found = [{v.question: f"{v.level}: {v.answer}" for v in verdicts_of(r)} for r in records]
    for question in dict.fromkeys(question for verdicts in found for question in verdicts):
        rows[question] = [verdicts.get(question, ABSENT) for verdicts in found]
    return Table(
        header=("", *(record.label for record in records)),
        rows=[(label, *cells) for label, cells in rows.items()],
    )


def _expected(outlook: Outlook) -> dict[str, str]:
    """Returns the losses to expect on the targets, with their intervals."""
    texts = outlook.expected.get(ANSWER, {})
    return {
        text: f"{number(one.loss)} ({number(one.low)} to {number(one.high)})"
        for text, one in texts.items()
        if not text.startswith("domain ")
    }


def _weight(mixture: Mixture, names: Sequence[str]) -> str:
    """Returns the weight of one or several domains, with the interval of one."""
    places = [mixture.names.index(name) for name in names if name in mixture.names]
    if not places:
        return ABSENT
    text = number(sum(mixture.weights[place] for place in places))
    if mixture.hdi is None or len(names) > 1:
        return text
    low, high = map(number, mixture.hdi[places[0]])
    return f"{text} ({low} to {high})"
