"""A run's tables, its cost and the commands to go on with, in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bydore_pyro.mixture import Mixture, exactly, total_variation
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.verdicts import compared_with, verdicts_of
from bydore_pyro.report.words import (
    ABSENT,
    Table,
    clean,
    count,
    duration,
    flops_of,
    number,
    percent,
)
from bydore_pyro.runs import Regressed, Spent
from bydore_pyro.utils import in_tokens

__all__ = [
    "agreement_table",
    "cautions",
    "commands",
    "comparison_table",
    "cost_table",
    "cost_told",
    "length_table",
    "loss_table",
    "regression_tables",
    "round_table",
    "weights_table",
]

MOST_ROWS = 8  # domains in the table of lengths
MOST_GIVEN = 20  # given mixtures in a table; the file holds all


def weights_table(record: RunRecord) -> Table:
    """Returns a row a domain, the largest weight first; figures that no domain has are left out."""
    mixture = record.mixture
    if mixture is None:
        return Table()
    names, decided, epochs = mixture.names, mixture.verdicts(), record.metrics.run_epochs
    columns = {"domain": list(names), "weight": [number(weight, 4) for weight in mixture.weights]}
    if mixture.free_weights is not None:
        columns["uncapped"] = [number(weight, 4) for weight in mixture.free_weights]
    if mixture.hdi is not None:
        interval = f"{percent(mixture.hdi_probability)} interval"
        columns[interval] = [f"{number(low)} to {number(high)}" for low, high in mixture.hdi]
    if mixture.standard_deviation is not None:
        columns["sd"] = [number(sd) for sd in mixture.standard_deviation]
    if record.next_to_nothing:
        columns["below 0.01"] = [percent(record.next_to_nothing.get(name)) for name in names]
    if epochs:
        columns["epochs"] = [number(epochs.get(name), 2) for name in names]
    if decided:
        against = compared_with(record)[0]
        words = {"above": f"more than {against}", "below": f"less than {against}"}
        columns["verdict"] = [words.get(decided[name], "undecided") for name in names]
    order = sorted(range(len(names)), key=lambda k: -mixture.weights[k])
    rows = [tuple(column[k] for column in columns.values()) for k in order]
    return Table(header=tuple(columns), rows=rows)


def loss_table(record: RunRecord) -> Table:
    """Returns fresh models' losses: label, nats per token, difference from uniform weights."""
    losses = record.metrics.validation_loss_nats_per_token
    uniform = losses.get("uniform")
    rows = [
        (label, number(loss, 4), ABSENT if uniform is None else f"{loss - uniform:+.4f}")
        for label, loss in sorted(losses.items(), key=lambda item: item[1])
    ]
    return Table(header=("fresh model trained on", "nats per token", "than uniform"), rows=rows)


def length_table(record: RunRecord) -> Table:
    """Returns the largest weights by length, with epochs, and what each length leaves unexplained;
    no rows for fewer than two lengths."""
    lengths = record.lengths
    if len(lengths) < 2:
        return Table()
    largest = {n: max(one.weights.get(n, 0.0) for one in lengths) for n in lengths[0].weights}
    rows = [
        (
            clean(name),
            *(
                f"{number(one.weights.get(name))} ({number(one.epochs.get(name), 1)} x)"
                for one in lengths
            ),
        )
        for name in sorted(largest, key=lambda n: -largest[n])[:MOST_ROWS]
    ]
    return Table(
        header=("tokens of the run", *(count(one.tokens) for one in lengths)),
        rows=[*rows, ("unexplained", *(percent(one.unexplained) for one in lengths))],
        caption="The largest weights by length, and how often the run reads each",
    )


def round_table(record: RunRecord) -> Table:
    """Returns the rounds of a search by matching, a row each."""
    rows = [
        (
            str(place),
            number(one.step, 0),
            count(one.sequences),
            number(one.validation_loss),
            percent(one.unexplained),
            number(one.scale, 2),
        )
        for place, one in enumerate(record.metrics.matching.rounds, start=1)
    ]
    return Table(
        header=("round", "after step", "sequences", "validation loss", "unexplained", "scale"),
        rows=rows,
        caption="The rounds. Unexplained and scale belong to the evidence of all rounds so far",
    )


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


def cost_told(record: RunRecord) -> str:
    """Returns in a sentence what a run cost; parts that are not known are left out."""
    metrics, trainings = record.metrics, record.plain_trainings()
    spent, threads, memory = metrics.search, metrics.threads, metrics.peak_memory_megabytes
    known = (
        duration(spent.seconds) if spent.seconds else "",
        f"{number(trainings, 1)} plain trainings of the proxy" if trainings else "",
        f"{flops_of(spent.flops)} FLOPs" if spent.flops else "",
        f"on {metrics.device}" if metrics.device else "",
        f"{number(threads, 0)} thread{'' if threads == 1 else 's'}" if threads else "",
        f"peak memory {number(memory / 1024, 1)} GB" if memory else "",
    )
    return f"Found by {record.method}: {', '.join(filter(None, known)) or 'at no cost'}."


def cost_table(cost: Spent, caption: str) -> Table:
    """Returns what a part of a run cost: its own parts by falling FLOPs, the sum last."""
    if not cost.flops and not cost.parts:
        return Table()
    parts = sorted(cost.parts.items(), key=lambda part: -(part[1].flops or 0.0))
    rows = [
        (name, count(one.tokens), flops_of(one.flops), duration(one.seconds))
        for name, one in [*parts, ("in all", cost)]
    ]
    header = ("part", "tokens", "FLOPs", "time")
    return Table(header=header, rows=rows, caption=caption)


def commands(record: RunRecord) -> list[tuple[str, str]]:
    """Returns commands to go on with: what each does, and the line."""
    if record.mixture is None:
        return []
    run, prefix = shlex.quote(str(record.path)), "'/data/{domain}'"
    export = f"bydore export {run} --to megatron --prefix {prefix} --out FILE"
    pairs = [
        ("The weights in a trainer's own format", export),
        ("A target model trained on exactly these weights", _training(record)),
        ("Scores of the trained model", "bydore evaluate DIR/model --tasks pile13"),
    ]
    if len(record.lengths) > 1:
        longest = exactly(record.lengths[-1].tokens)
        more = export.replace("--prefix", f"--target_tokens {longest} --prefix", 1)
        pairs.append(("The weights for another of the lengths", more))
    if not record.agreement and record.method == "search":
        data = shlex.quote(str(record.asked("run", "data") or "STORE"))
        seeds = f"bydore search --seeds 5 --data {data} ..."
        pairs.append(("Whether other seeds find the same", seeds))
    return pairs


def _training(record: RunRecord) -> str:
    """Returns a command line of `bydore train` that fits a run's text and machine."""
    from bydore_pyro.training import TargetConfig

    data, most, more = record.asked("run", "data"), 1e9, "--model models/target-60m"
    batch = record.asked_number("search", "batch_sequences")
    length = record.asked_number("run", "sequence_length")
    if record.metrics.device == "cpu" and batch and length:  # about as long as the search took
        most = (record.metrics.steps or 1) * batch * length
        more = (
            f"--device cpu --model {shlex.quote(str(record.asked('run', 'proxy')))} "
            f"--sequence_length {length:.0f} --target_batch_sequences {batch:.0f}"
        )
    tokens, epochs = record.metrics.run_tokens, record.metrics.run_epochs
    if tokens and epochs and max(epochs.values()) > 0:
        # Nine tenths, because whole sequences are counted there.
        most = min(most, 0.9 * tokens * TargetConfig.max_epochs / max(epochs.values()))
    store = str(data) if data and (Path(str(data)) / "index.json").is_file() else "STORE"
    return (
        f"bydore train --mixture {shlex.quote(str(record.path))} --data {shlex.quote(store)} "
        f"--tokens {in_tokens(most)} {more} --out DIR"
    )


def cautions(records: Sequence[RunRecord]) -> list[str]:
    """Returns why these runs cannot simply be compared, where that is so."""
    mixtures = [record.mixture for record in records if record.mixture is not None]
    told: dict[str, list[Any]] = {
        "The runs have different domains: a weight that is missing is not zero.": [
            frozenset(mixture.names) for mixture in mixtures
        ],
        "The runs count tokens of different tokenizers: their shares do not compare.": [
            mixture.tokenizer for mixture in mixtures
        ],
        "The runs searched on different text.": [mixture.data_sha256 for mixture in mixtures],
        "The runs have different validation text: their losses do not compare.": [
            str(record.asked("run", "validation") or "") for record in records
        ],
    }
    return [line for line, values in told.items() if len(set(filter(None, values))) > 1]


def comparison_table(records: Sequence[RunRecord]) -> Table:
    """Returns a column a run: what it is and cost, its fresh models' losses, how far its weights
    are from the first run's, its weights with intervals, and its verdicts."""
    metrics = [record.metrics for record in records]
    rows: dict[str, list[str]] = {
        "method": [record.method for record in records],
        "seed": [number(one.seed, 0) for one in metrics],
        "FLOPs": [flops_of(one.search.flops) for one in metrics],
        "time": [duration(one.search.seconds) for one in metrics],
    }
    losses = [one.validation_loss_nats_per_token for one in metrics]
    for label in dict.fromkeys(label for found in losses for label in found):
        rows[f"nats per token, fresh model on {label}"] = [
            number(found.get(label), 4) for found in losses
        ]
    mixtures = [record.mixture for record in records]
    rows[f"total variation from {records[0].label}"] = [
        ABSENT
        if mixtures[0] is None or other is None or other is mixtures[0]
        else number(total_variation(mixtures[0].as_dict(), other.as_dict()))
        for other in mixtures
    ]
    largest = {
        name: max(m.as_dict().get(name, 0.0) for m in mixtures if m is not None)
        for name in dict.fromkeys(name for record in records for name in record.domains)
    }
    for name in sorted(largest, key=lambda n: -largest[n]):
        rows[f"weight of {name}"] = [_weight(mixture, name) for mixture in mixtures]
    found = [{v.question: f"{v.level}: {v.answer}" for v in verdicts_of(r)} for r in records]
    for question in dict.fromkeys(question for verdicts in found for question in verdicts):
        rows[question] = [verdicts.get(question, ABSENT) for verdicts in found]
    return Table(
        header=("", *(record.label for record in records)),
        rows=[(label, *cells) for label, cells in rows.items()],
    )


def _weight(mixture: Mixture | None, name: str) -> str:
    if mixture is None or name not in mixture.names:
        return ABSENT
    place = mixture.names.index(name)
    interval = ""
    if mixture.hdi is not None:
        interval = " ({} to {})".format(*map(number, mixture.hdi[place]))
    return f"{number(mixture.weights[place])}{interval}"


def regression_tables(record: RunRecord) -> list[Table]:
    """Returns the tables that a fit on tables of runs left, as far as it did."""
    details = record.metrics.told
    left_out = Table(
        header=("regression", "Spearman x 100", "RMSE", "in 94 % intervals", "seconds a fit"),
        rows=[
            (kind, *_left_out(one), number(one.seconds, 1))
            for kind, one in details.regressions.items()
        ],
        caption="Runs that were left out, a fifth at a time",
    )
    each = Table(
        header=("metric", "regression", "Spearman x 100", "RMSE", "in 94 %", "these weights",
                "prior", "better than prior"),
        rows=[
            (name, one.regression, *_left_out(one), number(one.weights, 4), number(one.prior, 4),
             percent(one.better_than_prior))
            for name, one in details.each_metric.items()
        ],
        caption="Every metric on its own",
    )  # fmt: skip
    more = len(details.predictions) - MOST_GIVEN
    given = Table(
        header=("mixture", "rank", "predicted", "94 % from", "to", "better than prior",
                "tokens off the nearest run"),
        rows=[
            (one.mixture, number(one.rank, 0),
             *(number(value, 4) for value in (one.predicted, one.low, one.high)),
             percent(one.better_than_prior), percent(one.nearest_run))
            for one in details.predictions[:MOST_GIVEN]
        ],
        caption="Given mixtures",
        note=f"and {more} more in predictions.csv" if more > 0 else "",
    )  # fmt: skip
    return [table for table in (left_out, each, _scaled(record), given) if table.rows]


def _left_out(one: Regressed) -> tuple[str, str, str]:
    return number(one.spearman_x100, 1), number(one.rmse, 4), percent(one.coverage)


def _scaled(record: RunRecord) -> Table:
    """Returns what large runs are predicted to reach; no rows where there was no calibration."""
    found = record.metrics.told.scale_up
    if found.slope is None:
        return Table()
    note = "A large run on these weights is below one on the prior with probability "
    note += f"{percent(found.probability)}."
    if found.slope <= 0:
        note += " The scales do not agree: the proposal is not to be trusted there."
    return Table(
        header=("a large run on", "predicted", "94 % from", "to"),
        rows=[
            (
                name,
                number(one.mean, 4),
                *(number(end, 4) for end in (*one.interval, None, None)[:2]),
            )
            for name, one in (("these weights", found.weights), ("prior", found.prior))
        ],
        caption=f"The large scale, by a line fitted to {number(found.runs, 0)} of its runs: "
        f"rank correlation {number(found.spearman_x100, 1)}, slope {number(found.slope, 3)}",
        note=note,
    )
