"""The tables of a report: of one run, and of several beside each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bydore_pyro import answer, proxy, terminal
from bydore_pyro.law import PER_TOKEN
from bydore_pyro.mixture import MOST_SHOWN, Mixture, Row, interval_of, shown_rows, total_variation
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import ABSENT, count, duration, number, percent, times_as_long

FEW_SHARES = 3  # of what a target is made of
THIS, JUDGED = "this mixture", "the given mixture"  # heads of columns
WITHIN, WITHIN_OTHERS = "within 0.01 nats", "within 0.01"  # likewise; of losses in other units
TOGETHER = ("all targets", "worst target")  # the texts that stand for all targets
LEAST_PRICE = 5e-5  # nats per token, that is shown


def outlook_table(outlook: answer.Outlook, label: str = THIS) -> terminal.Table:
    """Returns a row a text, targets first: the loss that is expected, and by how much it differs
    from each other mixture's, with 94 % intervals; domains by how much they differ."""
    if answer.ANSWER not in outlook.expected:
        return terminal.Table()
    others, texts = list(outlook.differences), _order(outlook)
    units = dict.fromkeys(map(outlook.unit, texts))
    header = [f"{next(iter(units))} on" if len(units) == 1 else "loss on", label]
    header += [f"than {other}" for other in others]
    rows = []
    for text in texts:
        one = outlook.expected[answer.ANSWER][text]
        named = _named(outlook, text)
        named = named if len(units) == 1 else f"{named}, {outlook.unit(text)}"
        row = [named, f"{number(one.loss)} ({number(one.low)} to {number(one.high)})"]
        for other in others:
            apart = outlook.differences[other][text]
            row.append(f"{apart.loss:+.3f} ({apart.low:+.3f} to {apart.high:+.3f})")
        rows.append(row)
    return terminal.Table(
        header=header,
        rows=rows,
        caption="Losses that runs are expected to have, with 94 % intervals for one run",
    )


def _named(outlook: answer.Outlook, text: str) -> str:
    return f"{text} (guard)" if outlook.importance.get(text) == 0 else text


def _order(outlook: answer.Outlook) -> list[str]:
    """Targets, then their mean, then the domains, those whose losses change most first."""
    texts = list(outlook.expected[answer.ANSWER])
    domains = [text for text in texts if text.startswith("domain ")]
    first = [text for text in texts if text not in domains]
    if {f"domain {name}" for name in outlook.importance} == set(domains):
        first = [text for text in first if text not in outlook.importance]
    reference = next(iter(outlook.differences.values()))
    changed = sorted(domains, key=lambda text: -abs(reference[text].loss))
    return first + changed[: max(0, MOST_SHOWN - len(first))]


def saved_table(outlook: answer.Outlook) -> terminal.Table:
    """Returns, of several targets, how many times as long a run on each other mixture trains for
    the loss that each target has under this one."""
    others = list(outlook.saved)
    texts = list(outlook.saved[others[0]]) if others else []
    rows = []
    for text in texts:
        saved = (outlook.saved[other][text] for other in others)
        cells = [times_as_long(one, "{} ({} to {})") for one in saved]
        rows.append((_named(outlook, text), *cells))
    return terminal.Table(
        header=("target", *others),
        rows=rows[:MOST_SHOWN] if len(rows) > 1 else [],
        caption="How many times as long a run on each other mixture trains for the same expected "
        "loss, with 94 % intervals",
    )


def bounds_table(outlook: answer.Outlook) -> terminal.Table:
    """Returns what each bound costs that holds the answer back, and all of them together."""
    rows = [
        (
            f"{one.domain} {one.side} {one.weight:g}" if one.weight is not None else "all bounds",
            f"{one.costs.loss:+.3f} ({one.costs.low:+.3f} to {one.costs.high:+.3f})",
            {"at least": "costs ", "at most": "brings "}.get(one.side, "")
            + number(one.of_more, ".4f"),
        )
        for one in outlook.bounds
    ]
    return terminal.Table(
        header=("bound", "costs in all", "0.01 more of it"),
        rows=rows,
        caption="What each bound costs the mixture that is best by the law: the expected loss with "
        f"it, minus that without it, in {outlook.unit('')}",
    )


def weights_table(record: RunRecord, *, whole: bool = False) -> terminal.Table:
    """Returns a row a domain, the largest weight first; columns that no domain has are left out.

    Of many domains the largest, and the sums of branches and of the rest (`shown_rows`). The
    `whole` table has every domain, and is none where the other has them all.
    """
    mixture = record.mixture
    if whole and len(mixture.names) <= MOST_SHOWN:
        return terminal.Table()
    names, epochs = mixture.names, record.metrics.run_epochs
    rows = shown_rows(names, mixture.weights, len(names) if whole else MOST_SHOWN)
    places = [row.places[0] if row.kind == "domain" else None for row in rows]
    columns = {"domain": [row.label for row in rows], "weight": _sums(mixture.weights, rows)}
    if mixture.free_weights is not None:
        columns["uncapped"] = _sums(mixture.free_weights, rows)
    if mixture.hdi is not None:
        ends = [interval_of(mixture, row, record.metrics.sums) for row in rows]
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
    if record.prior and (decided := mixture.verdicts(record.prior)):
        words = {"above": "more", "below": "less"}
        columns["than the prior"] = [
            "" if k is None else words.get(decided[names[k]], "undecided") for k in places
        ]
    return terminal.Table(
        header=tuple(columns),
        rows=list(zip(*columns.values(), strict=True)),
        caption=f"All {len(names)} domains" if whole else "",
        folded=whole,
    )


def groups_table(record: RunRecord) -> terminal.Table:
    """Returns a row for each group of domains that stand for each other: what they have together is
    known better than what each has."""
    weights, hdi = record.mixture.as_dict(), record.mixture.hdi
    groups = record.metrics.sums.groups if hdi is not None else ()
    return terminal.Table(
        header=("domains", "together", f"{percent(record.mixture.hdi_probability)} interval"),
        rows=[
            (
                " + ".join(one.domains),
                number(sum(weights.get(name, 0.0) for name in one.domains), ".4f"),
                f"{number(one.low)} to {number(one.high)}",
            )
            for one in groups
        ],
        caption="Domains that stand for each other: their sum is better known than each weight",
    )


def _sums(weights: Sequence[float], rows: Sequence[Row]) -> list[str]:
    return [number(sum(weights[k] for k in row.places), ".4f") for row in rows]


def head_within(outlook: answer.Outlook) -> str:
    """Returns the head of the column of how far each weight may move."""
    return WITHIN if outlook.unit("") == PER_TOKEN else WITHIN_OTHERS


def price_columns(outlook: answer.Outlook, names: Sequence[str | None]) -> dict[str, list[str]]:
    """Returns columns of a table of domains: how far each weight may move, the others in
    proportion, until the expected loss is higher by 0.01 of its unit; and by how much, in this
    unit, a tenth more of its text lowers it. A row without a name is empty."""
    columns = {}
    if outlook.freedom:
        ends = {name: f"{number(a)} to {number(b)}" for name, (a, b) in outlook.freedom.items()}
        columns[head_within(outlook)] = [ends.get(name or "", "") for name in names]
    if any(price > LEAST_PRICE for price in outlook.worth_of_text.values()):
        words = {name: number(price, ".4f") for name, price in outlook.worth_of_text.items()}
        columns["10 % more text brings"] = [words.get(name or "", "") for name in names]
    return columns


def targets_table(record: RunRecord) -> terminal.Table:
    """Returns what each target is made of, and how much of it no mixture explains."""
    rows = []
    for name, one in record.metrics.targets.items():
        most = sorted(one.composition.items(), key=lambda share: -share[1])[:FEW_SHARES]
        made = ", ".join(f"{domain} {percent(share)}" for domain, share in most)
        importance = percent(one.importance) if one.importance else "guard"
        rows.append((name, importance, percent(one.unexplained), made))
    return terminal.Table(
        header=("target", "importance", "unexplained", "made most of"),
        rows=rows,
        caption="What the targets are made of, each by itself"
        if len(rows) > 1
        else "What the target is made of",
    )


def tasks_table(record: RunRecord) -> terminal.Table:
    """Returns what is scored of each task, and what of it is lost or stands in training text."""
    rows = [
        (
            name,
            count(task.questions),
            ABSENT if task.split is None else task.split,
            ABSENT if task.shots is None else str(task.shots),
            number(task.answer_bytes, ".1f"),
            f"{number(one.loss)} {one.unit}",
            number(one.nats_per_token),
            count(task.contexts_cut + task.answers_cut),
            count(sum(task.left_out.values())),
            count(task.standing_in_any),
        )
        for name, one in record.metrics.targets.items()
        if (task := one.task) is not None
    ]
    return terminal.Table(
        header=(
            *("task", "questions", "split", "shots", "bytes of an answer", "loss"),
            *("nats per token", "cut", "left out", "in training text"),
        ),
        rows=rows,
        caption="The tasks, and their losses where the search ended",
    )


def loss_table(record: RunRecord) -> terminal.Table:
    """Returns fresh models' losses: label, nats per token, difference from uniform weights."""
    losses = record.metrics.validation_loss_nats_per_token
    uniform = losses.get("uniform")
    rows = [
        (label, number(loss, ".4f"), ABSENT if uniform is None else f"{loss - uniform:+.4f}")
        for label, loss in sorted(losses.items(), key=lambda item: item[1])
    ]
    return terminal.Table(
        header=("fresh model trained on", "nats per token", "than uniform"), rows=rows
    )


def round_table(record: RunRecord) -> terminal.Table:
    """Returns the rounds of a search by matching, a row each."""
    rows = [
        (
            str(place),
            number(one.step, ".0f"),
            count(one.sequences),
            number(one.validation_loss),
            percent(one.unexplained),
            number(one.scale, ".2f"),
        )
        for place, one in enumerate(record.metrics.matching.rounds, start=1)
    ]
    return terminal.Table(
        header=("round", "after step", "sequences", "validation loss", "unexplained", "scale"),
        rows=rows,
        caption="The rounds. Unexplained and scale belong to the evidence of all rounds so far",
    )


def cost_table(cost: proxy.Spent | None) -> terminal.Table:
    """Returns what a run cost: its parts by falling FLOPs, the sum last."""
    if cost is None or not (cost.flops or cost.parts):
        return terminal.Table()
    parts = sorted(cost.parts.items(), key=lambda part: -part[1].flops)
    rows = [
        (name, count(one.tokens), number(one.flops, ".2e"), duration(one.seconds))
        for name, one in [*parts, ("in all", cost)]
    ]
    return terminal.Table(header=("part", "tokens", "FLOPs", "time"), rows=rows)


def comparison_table(records: Sequence[RunRecord]) -> terminal.Table:
    """Returns a column a run: its method and cost, its fresh models' losses, the distance of its
    weights from the first run's, its weights with intervals, and its verdicts."""
    metrics = [record.metrics for record in records]
    spent = [one.search for one in metrics]
    rows: dict[str, list[str]] = {
        "method": [record.found_by for record in records],
        "seed": [number(one.seed, ".0f") for one in metrics],
        "FLOPs": [number(one.flops if one else None, ".2e") for one in spent],
        "time": [duration(one.seconds if one else None) for one in spent],
    }
    expected = [_expected(record.metrics.outlook) for record in records]
    for text in dict.fromkeys(text for found in expected for text in found):
        units = dict.fromkeys(one.outlook.unit(text) for one in metrics)
        rows[f"expected {' or '.join(units)} on {text}"] = [
            found.get(text, ABSENT) for found in expected
        ]
    losses = [one.validation_loss_nats_per_token for one in metrics]
    for label in dict.fromkeys(label for found in losses for label in found):
        rows[f"nats per token, fresh model on {label}"] = [
            number(found.get(label), ".4f") for found in losses
        ]
    mixtures = [record.mixture for record in records]
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
    return terminal.Table(
        header=("", *(record.label for record in records)),
        rows=[(label, *cells) for label, cells in rows.items()],
    )


def seeds_table(records: Sequence[RunRecord]) -> terminal.Table:
    """Returns the mean, the least and the largest weight of each domain over several searches, the
    largest mean first; nothing unless all are searches of one text with seeds of their own."""
    seeds = {record.metrics.seed for record in records}
    names = {record.mixture.names for record in records}
    searched = all(record.found_by == "search" for record in records)
    if len(records) < 2 or len(seeds) < len(records) or len(names) > 1 or not searched:
        return terminal.Table()
    weights = np.array([record.mixture.weights for record in records])  # (S, K)
    rows = []
    for row in shown_rows(records[0].mixture.names, weights.mean(0).tolist()):
        own = weights[:, [*row.places]].sum(1)  # (S,)
        ends = (own.mean(), own.min(), own.max())
        rows.append((row.label, *(number(float(one), ".4f") for one in ends)))
    return terminal.Table(
        header=("domain", "mean weight", "least", "largest"),
        rows=rows,
        caption=f"The weights over {len(records)} seeds",
    )


def _expected(outlook: answer.Outlook) -> dict[str, str]:
    texts = outlook.expected.get(answer.ANSWER, {})
    return {
        text: f"{number(one.loss)} ({number(one.low)} to {number(one.high)})"
        for text, one in texts.items()
        if not text.startswith("domain ")
    }


def _weight(mixture: Mixture, names: Sequence[str]) -> str:
    places = [mixture.names.index(name) for name in names if name in mixture.names]
    if not places:
        return ABSENT
    text = number(sum(mixture.weights[place] for place in places))
    if mixture.hdi is None or len(names) > 1:
        return text
    low, high = map(number, mixture.hdi[places[0]])
    return f"{text} ({low} to {high})"
