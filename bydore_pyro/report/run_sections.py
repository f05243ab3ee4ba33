"""The sections of a run's report: a record in, plain words and tables out; no HTML."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.mixture import exactly
from bydore_pyro.report.regression import compared_with
from bydore_pyro.report.run_files import Cost, as_number
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.table import Table
from bydore_pyro.report.verdicts import read_often
from bydore_pyro.report.words import ABSENT, clean, count, duration, flops_of, number, percent
from bydore_pyro.utils import in_tokens

__all__ = [
    "DomainRow",
    "asked",
    "commands",
    "cost_table",
    "cost_told",
    "domain_rows",
    "length_table",
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
    "trial_train": "training trial proxies",
    "trial_evaluate": "judging trial proxies",
    "verify_train": "training fresh models",
    "verify_evaluate": "judging fresh models",
}
COUNTED = ("documents", "tokens", "bytes")
MOST_ROWS = 8  # domains in the table of lengths


def asked(record: RunRecord) -> list[tuple[str, str]]:
    """Returns what was asked of a run, as pairs of words; what is not known is left out."""
    from bydore_pyro.runs import validation_of

    if record.asked("fit", "runs") is not None:
        return _told(
            ("Method", record.method),
            ("Fitted on the finished runs in", record.asked("fit", "runs")),
            ("Loss to lower", record.asked("fit", "target")),
        )
    data, given = record.asked("run", "data"), record.asked("run", "validation")
    names = ("steps", "batch_sequences")
    steps, sequences = (number(record.asked_number("search", one), 0) for one in names)
    each = number(record.asked_number("run", "sequence_length"), 0)
    tokens = record.asked_tokens()
    wanted = record.asked("run", "target_tokens")
    lengths = [as_number(one) for one in (wanted if isinstance(wanted, list) else [wanted])]
    runs = ", ".join(count(length) for length in lengths if length)
    budget, cap = record.asked_number("budget", "budget"), record.asked_number("run", "max_epochs")
    learner = record.asked("search", "learner")
    return _told(
        ("Method", None if record.method == "search" else record.method),
        ("Weights for", f"{len(record.domains)} domains" if record.domains else None),
        ("Text", data),
        ("Target", ", ".join(map(str, validation_of(data, given or [])))),
        ("Proxy", record.asked("run", "proxy")),
        (
            "Length",
            f"{count(tokens)} training tokens: {steps} steps of {sequences} sequences of {each} "
            "tokens" if tokens else None,
        ),
        ("Evidence", _evidence(record)),
        ("Budget", f"{budget:g} plain trainings of the proxy" if budget else None),
        ("Learner", None if learner == "bayesian" else learner),
        ("Batches by", record.asked("search", "strategy")),
        ("For a run of", f"{runs} tokens" if runs else None),
        ("Most epochs", f"{cap:g}" if cap else None),
        ("Seed", record.asked("run", "seed")),
    )  # fmt: skip


def _told(*pairs: tuple[str, Any]) -> list[tuple[str, str]]:
    """Returns those pairs that tell something, in words."""
    return [(name, str(value)) for name, value in pairs if value not in (None, "")]


def _evidence(record: RunRecord) -> str:
    """Returns what a search learned from, "" where it does not say so."""
    rounds, share = (record.asked_number("search", one) for one in ("rounds", "train_share"))
    if not record.searched or record.asked("search", "evidence") is None:
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
    names, decided = mixture.names, mixture.verdicts()
    epochs, often = record.metrics.run_epochs, read_often(record.metrics.run_epochs)
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
        none = [draws[name].next_to_nothing if name in draws else None for name in names]
        columns["below 0.01"] = [percent(share) for share in none]
    if epochs:
        columns["epochs"] = [number(epochs.get(name), 2) for name in names]
    if decided:
        against = compared_with(record)[0]
        words = {"above": f"more than {against}", "below": f"less than {against}"}
        columns["verdict"] = [words.get(decided[name], "undecided") for name in names]
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
    losses = record.metrics.validation_loss_nats_per_token
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


def length_table(record: RunRecord) -> Table:
    """Returns the largest weights by length, with epochs; and what each length leaves unexplained.

    A domain has a row, the largest first. Fewer than two lengths have none.
    """
    lengths, names = record.lengths, record.largest_by_length[:MOST_ROWS]
    if not names:
        return Table()

    def cells(name: str) -> list[str]:
        return [
            f"{number(one.weights.get(name))} ({number(one.epochs.get(name), 1)} x)"
            for one in lengths
        ]

    rows = [(clean(name), *cells(name)) for name in names]
    return Table(
        header=("tokens of the run", *(count(one.tokens) for one in lengths)),
        rows=[*rows, ("unexplained", *(percent(one.unexplained) for one in lengths))],
        caption="The largest weights by length, and how often the run reads each",
    )


def cost_told(record: RunRecord) -> str:
    """Returns what finding the weights cost, on what, in a sentence."""
    metrics, trainings = record.metrics, record.plain_trainings()
    spent, threads, memory = metrics.search, metrics.threads, metrics.peak_memory_megabytes
    known = (
        f"{number(metrics.steps, 0)} steps" if metrics.steps else "",
        f"{count(spent.tokens)} tokens" if spent.tokens else "",
        f"{flops_of(spent.flops)} FLOPs" if spent.flops else "",
        f"{number(trainings, 1)} plain trainings of the proxy" if trainings else "",
        duration(spent.seconds) if spent.seconds else "",
        f"on {metrics.device}" if metrics.device else "",
        f"{threads:.0f} thread{'' if threads == 1 else 's'}" if threads else "",
        f"peak memory {number(memory / 1024, 1)} GB" if memory else "",
    )
    return f"Found by {record.method}: {', '.join(filter(None, known)) or 'at no cost'}."


def cost_table(cost: Cost, caption: str) -> Table:
    """Returns what a part of a run cost: its own parts by falling FLOPs, the sum last."""
    if cost.flops is None or (not cost.flops and not cost.parts):
        return Table()
    parts = sorted(cost.parts.items(), key=lambda part: -(part[1].flops or 0.0))
    rows = [
        (
            PARTS.get(name, name),
            count(one.tokens),
            flops_of(one.flops),
            percent((one.flops or 0.0) / cost.flops if cost.flops else None),
            duration(one.seconds),
            percent((one.seconds or 0.0) / cost.seconds if cost.seconds else None),
        )
        for name, one in [*parts, ("in all", cost)]
    ]
    header = ("part", "tokens", "FLOPs", "share", "time", "share")
    return Table(header=header, rows=rows, caption=caption)


def source_of(record: RunRecord) -> list[tuple[str, str]]:
    """Returns where the text came from, with its hashes."""
    manifest, mixture = record.manifest, record.mixture
    data, tokenizer = manifest.sha256, manifest.tokenizer_sha256
    if mixture is not None:
        data, tokenizer = data or mixture.data_sha256 or "", tokenizer or mixture.tokenizer or ""
    return _told(
        ("Origin", manifest.origin),
        ("Files or sources", count(len(manifest.files)) if manifest.files else None),
        ("Tokens in the vocabulary", count(manifest.vocabulary) if manifest.vocabulary else None),
        ("SHA-256 of the tokens", data),
        ("SHA-256 of the tokenizer", tokenizer),
    )


def manifest_table(record: RunRecord) -> Table:
    """Returns a row a domain of the data: counts of both sides, and what was dropped."""
    rows = []
    for name, one in sorted(record.manifest.domains.items()):
        counts = [side.get(key) for side in (one.train, one.validation) for key in COUNTED]
        counts += [one.duplicates_dropped, one.in_validation_dropped, one.skipped]
        rows.append((name, *map(count, counts)))
    header = ("domain", "documents", "tokens", "bytes", "held-out documents", "tokens", "bytes",
              "duplicates dropped", "dropped: also held out", "rows skipped")  # fmt: skip
    return Table(header=header, rows=rows)


def _training(record: RunRecord) -> str:
    """Returns a command line of `bydore train` that fits a run's text and machine."""
    from bydore_pyro.training import TargetConfig

    data, most, more = record.asked("run", "data"), 1e9, "--model models/target-60m"
    batch = as_number(record.asked("search", "batch_sequences"))
    length = as_number(record.asked("run", "sequence_length"))
    if record.metrics.device == "cpu" and batch and length:  # about as long as the search took
        most = (record.metrics.steps or 1) * batch * length
        more = (
            f"--device cpu --model {shlex.quote(str(record.asked('run', 'proxy')))} "
            f"--sequence_length {length:.0f} --target_batch_sequences {batch:.0f}"
        )
    tokens, epochs = record.metrics.run_tokens, record.metrics.run_epochs
    if (
        tokens and epochs and max(epochs.values()) > 0
    ):  # nine tenths, because whole sequences are counted there
        most = min(most, 0.9 * tokens * TargetConfig.max_epochs / max(epochs.values()))
    store = str(data) if data and (Path(str(data)) / "index.json").is_file() else "STORE"
    return (
        f"bydore train --mixture {shlex.quote(str(record.path))} --data {shlex.quote(store)} "
        f"--tokens {in_tokens(most)} {more} --out DIR"
    )


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
        ("A target model trained on exactly these weights", _training(record)),
        ("Scores of the trained model", "bydore evaluate DIR/model --tasks pile13"),
        ("This run beside another", f"bydore report {run} OTHER"),
    ]  # fmt: skip
    if len(record.lengths) > 1:
        longest = exactly(record.lengths[-1].tokens)
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
        pairs.append(("The draws in Python", f"import arviz as az; az.from_netcdf({path})"))
    if record.method.startswith("bydore") and (record.path / "search").is_dir():
        nested = shlex.quote(str(record.path / "search"))
        pairs.append(("The search behind this fit", f"bydore report {nested}"))
    return pairs
