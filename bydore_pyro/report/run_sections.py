"""The sections of a run's report: a record in, plain words and tables out; no HTML."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from bydore_pyro.report.lengths import lengths_in
from bydore_pyro.report.regression_verdicts import compared_with
from bydore_pyro.report.run_record import RunRecord, as_number
from bydore_pyro.report.table import Table
from bydore_pyro.report.verdicts import (
    SEARCHES,
    clear_of_prior,
    decisions,
    repeated,
)
from bydore_pyro.report.words import ABSENT, count, duration, flops_of, number, percent

__all__ = [
    "DomainRow",
    "asked",
    "commands",
    "cost_table",
    "cost_told",
    "domain_rows",
    "loss_table",
    "manifest_table",
    "short_version",
    "source_of",
    "weights_table",
]

PARTS = {
    "train": "training the proxy",
    "signals": "the domains' losses",
    "validation": "gradient of the validation loss",
    "hypergradient": "g: how much each domain helps",
    "gradients": "gradients of domains and validation set",
    "matching": "adding up the evidence",
    "guide": "updating the posterior",
    "check": "the check on fresh text",
    "evaluate": "judging finished proxies",
    "reference": "the reference model's losses",
    "verify_train": "training fresh models",
    "verify_evaluate": "judging fresh models",
}
COSTS = {
    "search": "Finding the weights",
    "verification": "Judging the weights by fresh models: not part of the method",
}


def asked(record: RunRecord) -> list[tuple[str, str]]:
    """Returns what was asked of a run, as pairs of words; what is not known is left out."""
    search, run = (partial(record.asked, part) for part in ("search", "run"))
    validation = run("validation")
    runs = record.asked("fit", "runs")
    if runs is not None:
        return [
            ("Method", record.method),
            ("Fitted on the finished runs in", str(runs)),
            ("Loss to lower", str(record.asked("fit", "target"))),
        ]
    sizes = [as_number(v) for v in (search("steps"), search("batch_sequences"))]
    length = as_number(run("sequence_length"))
    tokens = math.prod(size or 0 for size in (*sizes, length))
    steps = f"{number(sizes[0], 0)} steps of {number(sizes[1], 0)} sequences "
    steps += f"of {number(length, 0)} tokens"
    cap, target = as_number(run("max_epochs")), run("target_tokens")
    lengths = [as_number(one) for one in (target if isinstance(target, list) else [target])]
    budget = as_number(record.asked("budget", "budget"))
    pairs = [
        ("Method", record.method if record.method != "search" else ""),
        ("Weights for", f"{len(record.domains)} domains" if record.domains else ""),
        ("Text", "" if run("data") is None else str(run("data"))),
        ("Target", ", ".join(map(str, validation)) if validation else ""),
        ("Proxy", "" if run("proxy") is None else str(run("proxy"))),
        ("Length", f"{count(tokens)} training tokens: {steps}" if tokens else ""),
        ("Evidence", _evidence(record)),
        ("Budget", f"{budget:g} plain trainings of the proxy" if budget else ""),
        ("Learner", "" if search("learner") in (None, "bayesian") else str(search("learner"))),
        ("Batches by", "" if search("strategy") is None else str(search("strategy"))),
        ("For a run of", f"{_listed(lengths)} tokens" if any(lengths) else ""),
        ("Most epochs", f"{cap:g}" if cap else ""),
        ("Seed", "" if run("seed") is None else str(run("seed"))),
    ]
    return [(name, value) for name, value in pairs if value]


def _listed(lengths: list[float | None]) -> str:
    return ", ".join(count(length) for length in lengths if length)


def _evidence(record: RunRecord) -> str:
    """Returns what a search learned from, "" where it does not say so."""
    rounds = as_number(record.asked("search", "rounds"))
    share = as_number(record.asked("search", "train_share"))
    if record.method not in SEARCHES or record.asked("search", "evidence") is None:
        return ""
    if not record.by_matching:
        return "linear: one hypergradient per step"
    last = "" if share is None else f", the last after {percent(share)} of the steps"
    return f"gradient matching in {number(rounds, 0)} rounds{last}"


def short_version(record: RunRecord) -> list[str]:
    """Returns the result in a few sentences."""
    mixture = record.mixture
    if mixture is None:
        return []
    order = sorted(mixture.as_dict().items(), key=lambda item: -item[1])
    leading = ", ".join(f"{name} {number(weight)}" for name, weight in order[:3])
    told = [f"The largest weights are {leading}, of {len(order)} domains.", *mixture.notes]
    if mixture.free_weights is not None:
        told.append("--max_epochs caps the weights; the table shows the uncapped ones too.")
    return told


@dataclass(frozen=True, kw_only=True)
class DomainRow:
    """A row of the table of weights.

    Attributes:
        name: The domain.
        cells: Its figures as words, by what they are; every row has the same.
        decided: "above", "below", "undecided", or "" where that is not known.
        often: Whether a run reads the domain too often.
    """

    name: str
    cells: Mapping[str, str]
    decided: str
    often: bool

    @property
    def told(self) -> str:
        """Its figures in a line."""
        return ", ".join(
            cell if title == "verdict" else f"{title} {cell}" for title, cell in self.cells.items()
        )


def domain_rows(record: RunRecord) -> list[DomainRow]:
    """Returns a row a domain, the largest weight first; figures that no domain has are left out."""
    mixture = record.mixture
    if mixture is None:
        return []
    names, decided, clear = mixture.names, decisions(record), clear_of_prior(record)
    epochs, often = record.numbers("run_epochs"), repeated(record)
    columns = {"weight": [number(weight, 4) for weight in mixture.weights]}
    if mixture.free_weights is not None:
        columns["uncapped"] = [number(weight, 4) for weight in mixture.free_weights]
    if mixture.hdi is not None:
        interval = f"{percent(mixture.hdi_probability)} interval"
        columns[interval] = [f"{number(low)} to {number(high)}" for low, high in mixture.hdi]
    if mixture.standard_deviation is not None:
        columns["sd"] = [number(sd) for sd in mixture.standard_deviation]
    if draws := record.draws:
        above = [draws[name].above_uniform if name in draws else None for name in names]
        columns[f"above 1/{len(names)}"] = [percent(share) for share in above]
    if epochs:
        columns["epochs"] = [number(epochs.get(name), 2) for name in names]
    if decided:
        against = compared_with(record)[0]
        words = {"above": f"more than {against}", "below": f"less than {against}"}
        columns["verdict"] = [
            words.get(decided[name], "undecided")
            + (", clear of the prior" if name in clear else "")
            for name in names
        ]
    return [
        DomainRow(
            name=names[k],
            cells={title: column[k] for title, column in columns.items()},
            decided=decided.get(names[k], ""),
            often=names[k] in often,
        )
        for k in sorted(range(len(names)), key=lambda k: -mixture.weights[k])
    ]


def weights_table(record: RunRecord) -> Table:
    """Returns the rows of the domains as a table."""
    rows = domain_rows(record)
    header = ("domain", *(rows[0].cells if rows else ()))
    return Table(header=header, rows=[(row.name, *row.cells.values()) for row in rows])


def loss_table(record: RunRecord) -> Table:
    """Returns fresh models' losses: label, nats per token, difference from uniform weights."""
    losses = record.numbers("validation_loss_nats_per_token")
    uniform = losses.get("uniform")
    rows = [
        (
            label,
            number(loss, 4),
            ABSENT if uniform is None or label == "uniform" else f"{loss - uniform:+.4f}",
        )
        for label, loss in sorted(losses.items(), key=lambda item: item[1])
    ]
    return Table(header=("fresh model trained on", "nats per token", "than uniform"), rows=rows)


def cost_told(record: RunRecord) -> str:
    """Returns what finding the weights cost, on what, in a sentence."""
    steps, spent = record.number("steps"), record.numbers("search")
    device, threads = record.metrics.get("device"), record.number("threads")
    memory, plain = record.number("peak_memory_megabytes"), record.plain_training()
    trainings = spent.get("flops", 0.0) / plain if plain else None
    known = (
        f"{number(steps, 0)} steps" if steps else "",
        f"{count(spent.get('tokens'))} tokens" if spent.get("tokens") else "",
        f"{flops_of(spent.get('flops'))} FLOPs" if spent.get("flops") else "",
        f"{number(trainings, 1)} plain trainings of the proxy" if trainings else "",
        duration(spent["seconds"]) if spent.get("seconds") else "",
        f"on {device}" if device else "",
        f"{threads:.0f} thread{'' if threads == 1 else 's'}" if threads else "",
        f"peak memory {number(memory / 1024, 1)} GB" if memory else "",
    )
    return f"Found by {record.method}: {', '.join(filter(None, known)) or 'at no cost'}."


def cost_table(record: RunRecord, total: str) -> Table:
    """Returns what a part of a run cost, its own parts by falling FLOPs, the sum last.

    Args:
        record: The run.
        total: "search" or "verification".
    """
    content = record.metrics.get(total)
    parts = content.get("parts") if isinstance(content, dict) else None
    flops, seconds = record.number(total, "flops"), record.number(total, "seconds")
    rows = []
    for name in parts if isinstance(parts, dict) else ():
        own = record.numbers(total, "parts", name)
        rows.append((PARTS.get(name, str(name)), own))
    if flops is None or (not flops and not rows):
        return Table()
    rows.sort(key=lambda row: -row[1].get("flops", 0.0))
    rows.append(("in all", record.numbers(total)))
    cells = [
        (
            label,
            count(own.get("tokens")),
            flops_of(own.get("flops")),
            percent(own.get("flops", 0.0) / flops if flops else None),
            duration(own.get("seconds")),
            percent(own.get("seconds", 0.0) / seconds if seconds else None),
        )
        for label, own in rows
    ]
    header = ("part", "tokens", "FLOPs", "share", "time", "share")
    return Table(header=header, rows=cells, caption=COSTS[total])


def source_of(record: RunRecord) -> list[tuple[str, str]]:
    """Returns where the text came from, with its hashes."""
    manifest, mixture = record.manifest, record.mixture
    origin, vocabulary = manifest.get("origin"), as_number(manifest.get("vocabulary"))
    data, tokenizer = manifest.get("sha256"), manifest.get("tokenizer_sha256")
    if mixture is not None:
        data, tokenizer = data or mixture.data_sha256, tokenizer or mixture.tokenizer
    files = manifest.get("files")
    pairs = [
        ("Origin", "" if origin is None else str(origin)),
        ("Files or sources", count(len(files)) if isinstance(files, list) else ""),
        ("Tokens in the vocabulary", count(vocabulary) if vocabulary else ""),
        ("SHA-256 of the tokens", str(data or "")),
        ("SHA-256 of the tokenizer", str(tokenizer or "")),
    ]
    return [(name, value) for name, value in pairs if value]


def manifest_table(record: RunRecord) -> Table:
    """Returns a row a domain of the data: counts of both sides, and what was dropped."""
    domains = record.manifest.get("domains")
    rows = []
    for name, entry in sorted(domains.items()) if isinstance(domains, dict) else ():
        cells = [str(name)]
        for side in ("train", "validation"):
            own = entry.get(side) if isinstance(entry, dict) else None
            for column in ("documents", "tokens", "bytes"):
                cells.append(count(as_number(own.get(column)) if isinstance(own, dict) else None))
        for column in ("duplicates_dropped", "in_validation_dropped", "skipped"):
            cells.append(count(as_number(entry.get(column)) if isinstance(entry, dict) else None))
        rows.append(tuple(cells))
    header = ("domain", "documents", "tokens", "bytes", "held-out documents", "tokens", "bytes",
              "duplicates dropped", "dropped: also held out", "rows skipped")  # fmt: skip
    return Table(header=header, rows=rows)


def commands(record: RunRecord) -> list[tuple[str, str]]:
    """Returns commands to go on with: what each does, and the line."""
    if record.mixture is None:
        return []
    run = shlex.quote(str(record.path))
    data = shlex.quote(str(record.asked("run", "data") or "STORE"))
    prefix = "'/data/{domain}'"
    pairs = [
        ("The weights in a trainer's own format",
         f"bydore export {run} --to megatron --prefix {prefix} --out FILE"),
        ("A target model trained on exactly these weights",
         f"bydore train --mixture {run} --data STORE --model models/target-60m --tokens 1B "
         "--out DIR"),
        ("Scores of the trained model", "bydore evaluate DIR/model --tasks pile13"),
        ("This run beside another", f"bydore report {run} OTHER"),
    ]  # fmt: skip
    lengths = lengths_in(record.metrics)
    if len(lengths) > 1:
        longest = f"{lengths[-1].tokens:.12g}"
        pairs.append(
            ("The weights for another of the lengths",
             f"bydore export {run} --to megatron --target_tokens {longest} --prefix {prefix} "
             "--out FILE")
        )  # fmt: skip
    verdicts = set(record.mixture.verdicts().values())
    prunable = record.mixture.free_weights is None and not record.mixture.pruning_hurts()
    if prunable and {"below"} < verdicts:  # some, not all
        pairs.append(
            (f"The same without domains whose interval lies below {compared_with(record)[0]}",
             f"bydore export {run} --to megatron --prune --prefix {prefix} --out FILE")
        )  # fmt: skip
    if not record.agreement and record.method == "search":
        pairs.append(
            ("Whether other seeds find the same", f"bydore search --seeds 5 --data {data} ...")
        )
    if (record.path / "posterior.nc").is_file():
        path = repr(str(record.path / "posterior.nc"))
        pairs.append(("The posterior in Python", f"import arviz as az; az.from_netcdf({path})"))
    if record.method == "bydore" and (record.path / "search").is_dir():
        nested = shlex.quote(str(record.path / "search"))
        pairs.append(("The search behind this fit", f"bydore report {nested}"))
    return pairs
