"""Is a run's mixture to be believed? Verdicts in plain words, with the figures behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bydore_pyro.report_page.run_record import RunRecord, as_number
from bydore_pyro.report_page.words import number, percent

__all__ = [
    "AGREES",
    "CALM",
    "FITS",
    "MOST_EPOCHS",
    "SETTLED",
    "Level",
    "Limits",
    "Verdict",
    "clear_of_prior",
    "decisions",
    "drift",
    "repeated",
    "verdicts_of",
]

Level = Literal["good", "caution", "bad", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a figure's meaning changes, and why there.

    Args:
        good: Up to here (or from here on, where `good` > `bad`) it is good.
        bad: Beyond here it is bad.
        reason: Of the limits, as the report tells it.
    """

    good: float
    bad: float
    reason: str

    def level(self, value: float) -> Level:
        """Returns what a figure means."""
        sign = 1 if self.good <= self.bad else -1
        if sign * value < sign * self.good:
            return "good"
        return "caution" if sign * value < sign * self.bad else "bad"


# All thresholds of the report.
SETTLED = Limits(
    good=0.05,
    bad=0.10,
    reason="A total variation of 0.05 moves one token in twenty to another domain. On mixtures that "
    "were planted the search comes within 0.12 to 0.24 of the truth, so less than 0.05 is not what "
    "limits it.",
)
CALM = Limits(
    good=0.005,
    bad=0.02,
    reason="Searches of the present design had 0.002 to 0.003 over 400 steps; those that lost a "
    "domain for a while, or fell back to uniform weights, 0.007 to 0.047. Short runs move more.",
)
FITS = Limits(
    good=0.7,
    bad=1.0,
    reason="Below 0.7 Pareto-smoothed importance sampling is reliable; from 1 on its weights have "
    "no mean (Vehtari et al., arXiv 1507.02646).",
)
AGREES = Limits(
    good=0.8,
    bad=0.5,
    reason="If intervals and seeds were drawn alike, an interval would hold about as many of the "
    "other seeds' weights as its probability says, a little fewer with few seeds.",
)
MOST_EPOCHS = 4.0
MOST_EPOCHS_REASON = (
    "Up to four readings of a text are worth nearly as much as fresh text, more bring less and less "
    "(Muennighoff et al., arXiv 2305.16264)."
)
FEWEST_STEPS = 20  # of an average whose halves are compared
NOTHING_SAYS = "One search cannot say what other seeds would find."


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One answer on a run.

    Args:
        level: What it means for the mixture.
        question: What was asked of the run.
        answer: In a few words.
        figures: The figures behind it, in a sentence or two.
        reason: Why the limits lie where they do; "" where there are none.
    """

    level: Level
    question: str
    answer: str
    figures: str
    reason: str = ""


def decisions(record: RunRecord) -> dict[str, str]:
    """Returns for each domain "above", "below" or "undecided": its HDI against ``1 / K``.

    What the run noted counts; else the mixture's own intervals are held against ``1 / K``. Without
    intervals nothing is known, and nothing is returned.
    """
    mixture = record.mixture
    if mixture is None:
        return {}
    noted = {n: v for n, v in record.noted_verdicts.items() if n in mixture.names}
    if noted:
        return noted
    if mixture.hdi is None:
        return {}
    uniform = 1 / len(mixture.names)
    return {
        name: "above" if low > uniform else "below" if high < uniform else "undecided"
        for name, (low, high) in zip(mixture.names, mixture.hdi, strict=True)
    }


def clear_of_prior(record: RunRecord) -> set[str]:
    """Returns the domains whose HDI lies above the prior's own, that of ``Beta(1, K - 1)``."""
    mixture = record.mixture
    if mixture is None or mixture.hdi is None or len(mixture.names) < 2:
        return set()
    prior = 1 - (1 - mixture.hdi_probability) ** (1 / (len(mixture.names) - 1))
    return {n for n, (low, _) in zip(mixture.names, mixture.hdi, strict=True) if low > prior}


def drift(record: RunRecord) -> tuple[float, tuple[int, int, int]] | None:
    """Returns how far the averaged weights moved while they were averaged.

    Returns:
        The total variation between the averages over the two halves of the averaged steps, and the
        places of the first step of each and of the end; None where there are too few steps.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return None
    end = len(trajectory.steps)
    start = average_start(record)
    middle = (start + end) // 2
    if end - start < FEWEST_STEPS:
        return None
    means = trajectory.by_domain["mean"].astype(float)
    apart = np.abs(means[start:middle].mean(0) - means[middle:].mean(0))
    return float(0.5 * apart.sum()), (start, middle, end)


def average_start(record: RunRecord) -> int:
    """Returns the place of the first step that the result averages."""
    steps = 0 if record.trajectory is None else len(record.trajectory.steps)
    share = as_number(record.asked("search", "average_from"))
    whole = record.method == "doremi"  # whose result averages all steps
    return 0 if whole else int(steps * min(max(0.5 if share is None else share, 0.0), 1.0))


def repeated(record: RunRecord) -> dict[str, float]:
    """Returns the domains that a run on the mixture reads more than `MOST_EPOCHS` times."""
    epochs = record.numbers("run_epochs")
    most = sorted(epochs.items(), key=lambda item: -item[1])
    return {name: times for name, times in most if times > MOST_EPOCHS}


def verdicts_of(record: RunRecord) -> list[Verdict]:
    """Returns the verdicts on a run; what its files do not tell is not judged."""
    found = [
        _finished(record),
        _settled(record),
        _calm(record),
        _decided(record),
        _fits(record),
        _agrees(record),
        _repeats(record),
    ]
    return [verdict for verdict in found if verdict is not None]


def _finished(record: RunRecord) -> Verdict | None:
    if "stopped" not in record.metrics:
        return None
    steps = record.number("steps")
    return Verdict(
        level="bad",
        question="Did it run to its end?",
        answer="No",
        figures=f"It stopped after {number(steps, 0)} steps: {record.metrics['stopped']}. All that "
        "follows is of the steps before.",
    )


def _settled(record: RunRecord) -> Verdict | None:
    if record.trajectory is None:
        return None
    question, found = "Has it settled?", drift(record)
    if found is None:
        return Verdict(
            level="unknown",
            question=question,
            answer="Too short to tell",
            figures=f"The result averages fewer than {FEWEST_STEPS} steps.",
        )
    moved, (start, middle, end) = found
    steps = record.trajectory.steps
    level = SETTLED.level(moved)
    answers = {"good": "Yes", "caution": "It still drifts", "bad": "No, it still moves"}
    return Verdict(
        level=level,
        question=question,
        answer=answers[level],
        figures=f"The mean weights of steps {steps[start]} to {steps[middle - 1]} and of steps "
        f"{steps[middle]} to {steps[end - 1]}, the two halves of what is averaged, lie "
        f"{number(moved)} apart in total variation (settled below {SETTLED.good:g}, moving from "
        f"{SETTLED.bad:g} on).",
        reason=SETTLED.reason,
    )


def _calm(record: RunRecord) -> Verdict | None:
    jitter = record.number("jitter_second_half")
    if jitter is None:
        return None
    level = CALM.level(jitter)
    answers = {"good": "Hardly", "caution": "Somewhat", "bad": "Strongly"}
    return Verdict(
        level=level,
        question="Does it jitter?",
        answer=answers[level],
        figures=f"In the second half the weights move by {number(jitter, 4)} in sum from a step to "
        f"the next (calm below {CALM.good:g}, unstable from {CALM.bad:g} on).",
        reason=CALM.reason,
    )


def _decided(record: RunRecord) -> Verdict | None:
    decided, mixture = decisions(record), record.mixture
    if not decided or mixture is None:
        return None
    clear = [name for name, verdict in decided.items() if verdict != "undecided"]
    held = sum(mixture.as_dict()[name] for name in clear)
    level: Level = "good" if 2 * len(clear) >= len(decided) else "caution"
    answer = f"{len(clear)} of {len(decided)} domains are"
    return Verdict(
        level=level if clear else "bad",
        question="How much is decided?",
        answer=answer if clear else "Nothing is",
        figures=f"The {percent(mixture.hdi_probability)} interval of {len(clear)} of "
        f"{len(decided)} domains is clear of the uniform share {number(1 / len(decided))}; together "
        f"they hold {percent(held)} of the weight. Of the others this run cannot say whether they "
        "deserve more or less than an equal share.",
        reason="Good when at least half of the domains are decided: a count, no test.",
    )


def _fits(record: RunRecord) -> Verdict | None:
    fit = record.metrics.get("guide_fit")
    if not isinstance(fit, dict):
        return None
    khat = as_number(fit.get("khat"))
    if khat is None and fit.get("khat") != "infinite":
        return None
    effective, draws = as_number(fit.get("effective_draws")), as_number(fit.get("draws"))
    level: Level = "bad" if khat is None else FITS.level(khat)
    answers = {
        "good": "It fits the frozen evidence",
        "caution": "It fits the frozen evidence loosely",
        "bad": "It is not that of the frozen evidence",
    }
    meaning = (
        "The intervals stand in for the posterior under that evidence."
        if level == "good"
        else "The intervals tell how far this search has decided, not how that evidence is spread."
    )
    return Verdict(
        level=level,
        question="Is the posterior's width believable?",
        answer=answers[level],
        figures=f"The last guide against its model, the evidence g frozen at its mean: PSIS k-hat "
        f"{'infinite' if khat is None else number(khat, 2)} (good below {FITS.good:g}), "
        f"{number(effective, 0)} effective of {number(draws, 0)} draws. {meaning}",
        reason=FITS.reason,
    )


def _agrees(record: RunRecord) -> Verdict | None:
    question = "Would another seed find the same?"
    if not record.agreement:
        if record.trajectory is None or record.method not in ("search", "bydore"):
            return None
        return Verdict(
            level="unknown",
            question=question,
            answer="Not measured",
            figures=f"{NOTHING_SAYS} bydore search --seeds 5 measures it.",
        )
    rows = record.agreement.values()
    coverage = [c for c in (_float(row, "coverage") for row in rows) if c is not None]
    spread = [s for s in (_float(row, "sd_over_seeds") for row in rows) if s is not None]
    over = [name for name, row in record.agreement.items() if row.get("overconfident") == "True"]
    if not coverage or not spread:
        return None
    held = float(np.mean(coverage))
    level = AGREES.level(held)
    if over and level == "good":
        level = "caution"
    answers = {"good": "Mostly", "caution": "In part", "bad": "No"}
    told = f" Overconfident, less than half as wide as the spread: {', '.join(over)}."
    return Verdict(
        level=level,
        question=question,
        answer=answers[level],
        figures=f"An interval holds what another seed found in {percent(held)} of the cases (good "
        f"from {percent(AGREES.good)} on, bad below {percent(AGREES.bad)}); the largest standard "
        f"deviation of a weight over the seeds is {number(max(spread))}."
        f"{told if over else ' No domain is overconfident.'}",
        reason=AGREES.reason,
    )


def _repeats(record: RunRecord) -> Verdict | None:
    epochs = record.numbers("run_epochs")
    if not epochs:
        return None
    tokens, often = record.number("run_tokens"), repeated(record)
    length = "" if tokens is None else f" of {tokens:,.0f} tokens"
    if not often:
        name, times = max(epochs.items(), key=lambda item: item[1])
        return Verdict(
            level="good",
            question="Is text read too often?",
            answer="No",
            figures=f"A run{length} on these weights reads no domain more than {number(times, 2)} "
            f"times ({name}).",
            reason=MOST_EPOCHS_REASON,
        )
    listed = ", ".join(f"{name} {number(times, 1)} times" for name, times in often.items())
    return Verdict(
        level="caution",
        question="Is text read too often?",
        answer=f"{len(often)} domain{'s are' if len(often) > 1 else ' is'}",
        figures=f"A run{length} on these weights reads {listed}; --max_epochs caps it.",
        reason=MOST_EPOCHS_REASON,
    )


def _float(row: Mapping[str, str], key: str) -> float | None:
    try:
        return as_number(float(row[key]))
    except (KeyError, ValueError):
        return None
