"""Is a run's mixture to be believed? Verdicts in plain words, with the figures behind them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bydore_pyro.report.lengths import advice, lengths_in, read_often
from bydore_pyro.report.matching_verdicts import (
    FITS_QUESTION,
    SETTLED_QUESTION,
    judge_check,
    judge_corrected,
    judge_coverage,
    judge_rounds,
    weighed,
)
from bydore_pyro.report.regression_verdicts import (
    compared_with,
    judge_distance,
    judge_gain,
    judge_regression,
    judge_runs,
    too_few_runs,
)
from bydore_pyro.report.run_record import RunRecord, as_number, unlearned
from bydore_pyro.report.thresholds import (
    AGREES,
    CALM,
    FEWEST_STEPS,
    FITS,
    HALF_DECIDED,
    MOST_EPOCHS,
    SETTLED,
    Level,
    Verdict,
)
from bydore_pyro.report.words import number, percent

__all__ = [
    "SEARCHES",
    "average_start",
    "clear_of_prior",
    "decisions",
    "drift",
    "repeated",
    "verdicts_of",
]


SEARCHES = ("search", "bydore")  # methods with a posterior of their own


def decisions(record: RunRecord) -> dict[str, str]:
    """Returns `Mixture.verdicts` of a run's mixture; nothing where it has none."""
    return {} if record.mixture is None else record.mixture.verdicts()


def clear_of_prior(record: RunRecord) -> set[str]:
    """Returns the domains whose HDI lies above the prior's own, that of ``Beta(1, K - 1)``.

    Methods without that prior have none.
    """
    mixture = record.mixture
    if (
        record.method not in SEARCHES
        or mixture is None
        or mixture.hdi is None
        or len(mixture.names) < 2
    ):
        return set()
    prior = 1 - (1 - mixture.hdi_probability) ** (1 / (len(mixture.names) - 1))
    return {n for n, (low, _) in zip(mixture.names, mixture.hdi, strict=True) if low > prior}


def average_start(record: RunRecord) -> int:
    """Returns the place of the first step that the result averages; by matching, of the last."""
    steps = 0 if record.trajectory is None else len(record.trajectory.steps)
    if record.by_matching:
        return max(0, steps - 1)
    if record.method == "doremi":  # its result averages all steps
        return 0
    share = as_number(record.asked("search", "average_from"))
    return int(steps * min(max(0.5 if share is None else share, 0.0), 1.0))


def drift(record: RunRecord) -> tuple[float, tuple[int, int, int]] | None:
    """Returns how far the weights moved while they were averaged.

    Returns:
        The total variation between the averages over the two halves of the averaged steps, and the
        places of the first step of each half and of the end; None where there are too few steps.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return None
    start, end = average_start(record), len(trajectory.steps)
    middle = (start + end) // 2
    if end - start < FEWEST_STEPS:
        return None
    means = trajectory.by_domain["mean"].astype(float)
    apart = np.abs(means[start:middle].mean(0) - means[middle:].mean(0))
    return float(0.5 * apart.sum()), (start, middle, end)


def repeated(record: RunRecord) -> dict[str, float]:
    """Returns the domains that a run on the mixture reads too often, and how often."""
    return read_often(record.numbers("run_epochs"))


def verdicts_of(record: RunRecord) -> list[Verdict]:
    """Returns the verdicts on a run; what its files do not tell is not judged."""
    if record.by_matching:
        judges: tuple[Callable[[RunRecord], Verdict | None], ...] = (
            *(_finished, _learned, judge_coverage, judge_rounds, _decided),
            *(judge_check, judge_corrected, _agrees, _repeats),
        )
    else:
        judges = (
            *(_finished, _learned, _settled, _calm, judge_runs, judge_regression),
            *(judge_gain, judge_distance, _decided, _fits, _agrees, _repeats),
        )
    found = [judge(record) for judge in judges]
    return [verdict for verdict in found if verdict is not None]


def _finished(record: RunRecord) -> Verdict | None:
    if "stopped" not in record.metrics:
        return None
    return Verdict(
        level="bad",
        question="Did it run to its end?",
        answer="No",
        figures=f"It stopped after {number(record.number('steps'), 0)} steps: "
        f"{record.metrics['stopped']}. The rest of this report covers the steps before.",
    )


def _learned(record: RunRecord) -> Verdict | None:
    warning = unlearned(record.metrics)
    if not warning:
        return None
    return Verdict(
        level="bad", question="Has the proxy learned?", answer="No", figures=f"{warning}."
    )


def _settled(record: RunRecord) -> Verdict | None:
    if record.trajectory is None:
        return None
    question, found = SETTLED_QUESTION, drift(record)
    if found is None:
        return Verdict(
            level="unknown",
            question=question,
            answer="Too short to tell",
            figures=f"The result averages fewer than {FEWEST_STEPS} steps.",
        )
    moved, (start, middle, end) = found
    steps, level = record.trajectory.steps, SETTLED.level(moved)
    answers = {"good": "Yes", "careful": "It still drifts", "bad": "No, it still moves"}
    return Verdict(
        level=level,
        question=question,
        answer=answers[level],
        figures=f"The result averages steps {steps[start]} to {steps[end - 1]}. The mean weights "
        f"before and after step {steps[middle]} are {number(moved)} apart in total variation. "
        f"Below {SETTLED.good:g} counts as settled, {SETTLED.bad:g} or more as moving.",
        reason=SETTLED.reason,
    )


def _calm(record: RunRecord) -> Verdict | None:
    jitter = record.number("jitter_second_half")
    if jitter is None:
        return None
    level = CALM.level(jitter)
    answers = {"good": "Hardly", "careful": "Somewhat", "bad": "Strongly"}
    return Verdict(
        level=level,
        question="Does it jitter?",
        answer=answers[level],
        figures=f"In the second half the weights change by {number(jitter, 4)} in sum from one "
        f"step to the next. Below {CALM.good:g} counts as calm, {CALM.bad:g} or more as unstable.",
        reason=CALM.reason,
    )


def _decided(record: RunRecord) -> Verdict | None:
    decided, mixture, question = decisions(record), record.mixture, "How much is decided?"
    if mixture is None:
        return None
    if mixture.hdi is None:
        told = "There are no intervals: whether these weights are decided is not known."
        return Verdict(level="unknown", question=question, answer="Not known", figures=told)
    if not decided:
        return None
    above, below = ([name for name, one in decided.items() if one == way]
                    for way in ("above", "below"))  # fmt: skip
    clear = [*above, *below]
    held = sum(mixture.as_dict()[name] for name in clear)
    share, (_, against) = percent(mixture.hdi_probability), compared_with(record)
    told = (
        f"The {share} interval lies above {against} for {', '.join(above) or 'no domain'}, and "
        f"below it for {len(below)} of {len(decided)} domains; they hold {percent(held)} of the "
        "weight."
        if clear
        else f"The {share} interval of every domain holds {against}: this run cannot say whether "
        "any domain deserves more or less."
    )
    if 0 < len(clear) < len(decided):
        told += " This run cannot say whether the others deserve more or less."
    level = HALF_DECIDED.level(len(clear) / len(decided))
    if too_few_runs(record):
        level, told = "bad", f"{told} So few runs cannot decide it."
    return Verdict(
        level=level,
        question=question,
        answer=f"{len(clear) or 'None'} of {len(decided)} domains",
        figures=told,
        reason=HALF_DECIDED.reason,
    )


def _fits(record: RunRecord) -> Verdict | None:
    fit = weighed(record)
    if fit is None:
        return None
    khat, told = fit
    level: Level = "bad" if khat is None else FITS.level(khat)
    answers = {"good": "Yes", "careful": "Roughly", "bad": "Not as a posterior"}
    meaning = (
        "The intervals stand in for the posterior under that evidence."
        if level == "good"
        else "The intervals show how far this search has decided, not how sharp that evidence is."
    )
    return Verdict(
        level=level,
        question=FITS_QUESTION,
        answer=answers[level],
        figures=f"The last guide was compared with its model, with g frozen at its mean: {told}. "
        f"{meaning}",
        reason=FITS.reason,
    )


def _agrees(record: RunRecord) -> Verdict | None:
    question = "Would another seed find the same?"
    if not record.agreement:
        if record.trajectory is None or record.method not in SEARCHES:
            return None
        return Verdict(
            level="unknown",
            question=question,
            answer="Not measured",
            figures="One search cannot say; bydore search --seeds 5 measures it.",
        )
    rows = record.agreement.values()
    coverage = [row.coverage for row in rows if math.isfinite(row.coverage)]
    spread = [row.sd_over_seeds for row in rows if math.isfinite(row.sd_over_seeds)]
    if not coverage or not spread:
        return None
    over = [name for name, row in record.agreement.items() if row.overconfident]
    held = float(np.mean(coverage))
    level = AGREES.level(held)
    if over and level == "good":
        level = "careful"
    answers = {"good": "Mostly", "careful": "In part", "bad": "No"}
    told = f"Less than half as wide as that spread, so overconfident: {', '.join(over)}."
    return Verdict(
        level=level,
        question=question,
        answer=answers[level],
        figures=f"An interval holds what another seed found in {percent(held)} of the cases. "
        f"{percent(AGREES.good)} or more is good, below {percent(AGREES.bad)} is bad. The largest "
        "standard "
        f"deviation of a weight over the seeds is {number(max(spread))}. "
        f"{told if over else 'No domain is overconfident.'}",
        reason=AGREES.reason,
    )


def _repeats(record: RunRecord) -> Verdict | None:
    epochs = record.numbers("run_epochs")
    if not epochs:
        return None
    tokens, often = record.number("run_tokens"), repeated(record)
    question = "Is text read too often?"
    if often:
        counted = bool(lengths_in(record.metrics))
        return Verdict(
            level="careful",
            question=question,
            answer=f"{len(often)} of {len(epochs)} domains",
            figures=advice(tokens, epochs, by_matching=record.by_matching, counted=counted),
            reason=MOST_EPOCHS.reason,
        )
    run = "A run" if tokens is None else f"A run of {tokens:,.0f} tokens"
    name, times = max(epochs.items(), key=lambda item: item[1])
    return Verdict(
        level="good",
        question=question,
        answer="No",
        figures=f"{run} on these weights reads no domain more than {number(times, 2)} times "
        f"({name}).",
        reason=MOST_EPOCHS.reason,
    )
