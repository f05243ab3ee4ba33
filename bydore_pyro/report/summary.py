"""The first screen of a page: what to train on, what it will do, how surely, what it costs, what
to collect, and what was asked. Each line is a function of the run; one without anything to say
returns None."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bydore_pyro import answer
from bydore_pyro.errors import listed
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.tables import LEAST_PRICE
from bydore_pyro.report.verdicts import FEW, LIMITS, outlook_verdicts, verdicts_of
from bydore_pyro.report.words import (
    Verdict,
    count,
    duration,
    judged_better,
    number,
    percent,
    times_as_long,
)

LARGEST = 6  # names in a sentence
DEAREST = 3  # domains of which more text would help most


@dataclass(frozen=True)
class Lead:
    """The lines of the first screen: a question and its answer each."""

    rows: Sequence[tuple[str, str]]


def lead(record: RunRecord) -> Lead:
    """Returns the first screen of a run."""
    found = [(term, words(record)) for term, words in LINES.items()]
    return Lead([(term, words) for term, words in found if words])


def _train_on(record: RunRecord) -> str:
    weights = sorted(record.mixture.as_dict().items(), key=lambda item: -item[1])
    shown = [(name, share) for name, share in weights[:LARGEST] if share > 0]
    words = ", ".join(f"{name} {percent(share)}" for name, share in shown)
    rest = [share for _, share in weights[len(shown) :] if share > 0]
    if rest:
        words += f" and {len(rest)} more with {percent(sum(rest))}"
    return f"{words}, as shares of the training tokens."


def _will_do(record: RunRecord) -> str | None:
    outlook, other = record.metrics.outlook, record.metrics.outlook.baseline
    if other not in outlook.differences:
        return None
    differences = outlook.differences[other]
    text = outlook.together
    apart, loss = differences[text], outlook.expected[answer.ANSWER][text]
    words = (
        f"{number(loss.loss)} {outlook.unit(text)} on {text}, {number(abs(apart.loss))} "
        f"{'lower' if apart.loss < 0 else 'higher'} than on {other} weights (two single runs: "
        f"{apart.low:+.3f} to {apart.high:+.3f}), after {count(outlook.tokens)} tokens."
    )
    single = [differences[name] for name, share in outlook.importance.items() if share]
    if len(single) > 1:
        falls = sum(one.loss < 0 for one in single)
        sure = sum(judged_better(one.better)[0] != "Open" for one in single)
        words += f" {falls} of {len(single)} targets fall; {sure or 'no'} changes are decided."
    return words


def _saved(record: RunRecord) -> str | None:
    outlook, other = record.metrics.outlook, record.metrics.outlook.baseline
    saved = outlook.saved.get(other, {}).get(outlook.together)
    if saved is None:
        return None
    worse = ": these weights are worse" if saved.times < 1 else ""
    return f"{other} weights would train {times_as_long(saved)} for the same loss{worse}."


def _how_surely(record: RunRecord) -> str | None:
    outlook, other = record.metrics.outlook, record.metrics.outlook.baseline
    words = []
    if other in outlook.differences:
        better = outlook.differences[other][outlook.together].better
        words.append(f"It is better than {other} {judged_better(better)[2]}.")
    found = [*outlook_verdicts(outlook, record.uncovered), *verdicts_of(record)]
    for level, name in (("bad", "Against it"), ("careful", "Careful")):
        told = dict.fromkeys(one.heading for one in found if _says(one, level))
        if told:
            words.append(f"{name}: {' '.join(told)}")
    return " ".join(words) or None


def _says(verdict: Verdict, level: str) -> bool:
    """Whether a verdict is of a level, and not on the losses themselves, which have their line."""
    return verdict.level == level and not verdict.question.startswith("Is it better than ")


def _costs(record: RunRecord) -> str:
    epochs, words = record.metrics.run_epochs, [cost_sentence(record)]
    if epochs and record.metrics.run_tokens:
        name, most = max(epochs.items(), key=lambda item: item[1])
        often = f"A run of {count(record.metrics.run_tokens)} tokens reads {name} {most:.2f} times"
        many = [one for one, times in epochs.items() if times > LIMITS["epochs"].good]
        more = f"; more than {LIMITS['epochs'].good:g} times {listed(many, FEW)}" if many else ""
        words.append(f"{often}, no domain more often{more}.")
    dearest = next(iter(record.metrics.outlook.bounds), None)
    if dearest is not None and dearest.costs.loss > LEAST_PRICE:
        bound = f"{dearest.domain} {dearest.side} {dearest.weight:g}"
        unit = record.metrics.outlook.unit("")
        words.append(f"The bound {bound} costs {number(dearest.costs.loss)} {unit}.")
    return " ".join(words)


def _collect(record: RunRecord) -> str | None:
    outlook = record.metrics.outlook
    worth = sorted(outlook.worth_of_text.items(), key=lambda item: -item[1])
    dear = [(name, fall) for name, fall in worth[:DEAREST] if fall > LEAST_PRICE]
    told = [f"{name} ({number(fall, '.4f')})" for name, fall in dear]
    words = []
    if told:
        words.append(
            f"A tenth more text lowers the loss in {outlook.unit('')} most of {', '.join(told)}."
        )
    if record.uncovered:
        most = sorted(record.uncovered.items(), key=lambda item: -item[1])
        named = [f"{name} ({percent(share)} unexplained)" for name, share in most]
        words.append(f"Text like that of {listed(named, DEAREST)}: no mixture has it.")
    if not words and outlook.expected:
        words.append("Nothing that was measured asks for other text.")
    return " ".join(words) or None


def cost_sentence(record: RunRecord) -> str:
    """Returns the cost of a run as a sentence; unknown parts are left out."""
    metrics, spent = record.metrics, record.metrics.search
    known = (
        duration(spent.seconds) if spent and spent.seconds else "",
        f"{spent.flops:.2e} FLOPs" if spent and spent.flops else "",
        f"on {metrics.device}" if metrics.device else "",
        f"{metrics.threads:.0f} thread{'s' * (metrics.threads > 1)}" if metrics.threads else "",
        f"peak memory {metrics.peak_memory_megabytes / 1024:.1f} GB"
        if metrics.peak_memory_megabytes
        else "",
    )
    return f"Found by {record.found_by}: {', '.join(filter(None, known)) or 'at no cost'}."


def _asked(record: RunRecord) -> str | None:
    """The targets with their sizes, the data, and the day on which the weights were written."""
    targets = record.metrics.targets
    if not targets:
        return None
    sizes = {n: f" ({one.task.questions:,} questions)" for n, one in targets.items() if one.task}
    named = listed([f"{name}{sizes.get(name, '')}" for name in targets], LARGEST)
    data, domains = record.asked("run", "data"), len(record.mixture.names)
    file, day = record.path / "mixture.json", ""
    if file.exists():
        day = time.strftime("; %Y-%m-%d", time.gmtime(file.stat().st_mtime))
    return f"{named}; {domains} domains{f' of {data}' if data else ''}{day}."


LINES: dict[str, Callable[[RunRecord], str | None]] = {
    "Train on": _train_on,
    "It will reach": _will_do,
    "Compute": _saved,
    "How surely": _how_surely,
    "It costs": _costs,
    "Collect": _collect,
    "Asked": _asked,
}
