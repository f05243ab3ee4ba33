"""Is a run's mixture to be believed? Verdicts in plain words, with the figures behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from bydore_pyro.mixture import exactly, total_variation
from bydore_pyro.report.regression import (
    compared_with,
    judge_distance,
    judge_gain,
    judge_regression,
    judge_runs,
    too_few_runs,
)
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.thresholds import (
    AGREES,
    CALM,
    CHECKED,
    COVERED,
    FEWEST_STEPS,
    FITS,
    HALF_DECIDED,
    MOST_EPOCHS,
    ROUNDS_AGREE,
    SETTLED,
    Verdict,
)
from bydore_pyro.report.words import clean, count, number, percent

__all__ = ["average_start", "drift", "read_often", "verdicts_of"]


def average_start(record: RunRecord) -> int:
    """Returns the place of the first step that the result averages; by matching, of the last."""
    steps = 0 if record.trajectory is None else record.trajectory.sizes["step"]
    if record.by_matching:
        return max(0, steps - 1)
    if record.method == "doremi":  # its result averages all steps
        return 0
    share = record.asked_number("search", "average_from")
    return int(steps * min(max(0.5 if share is None else share, 0.0), 1.0))


def drift(record: RunRecord) -> tuple[float, tuple[int, int, int]] | None:
    """Returns how far the weights moved while they were averaged.

    Returns:
        The total variation between the averages over the two halves of the averaged steps, in
        [0, 1], and the places of the first step of each half and of the end; None where there are
        too few steps.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return None
    start, end = average_start(record), trajectory.sizes["step"]
    middle = (start + end) // 2
    if end - start < FEWEST_STEPS:
        return None
    means = trajectory["mean"].values.astype(float)
    apart = np.abs(means[start:middle].mean(0) - means[middle:].mean(0))
    return float(0.5 * apart.sum()), (start, middle, end)


def read_often(epochs: Mapping[str, float]) -> dict[str, float]:
    """Returns the domains that are read more than four times, most often first."""
    most = sorted(epochs.items(), key=lambda item: -item[1])
    return {name: times for name, times in most if times > MOST_EPOCHS.good + 0.005}


def verdicts_of(record: RunRecord) -> list[Verdict]:
    """Returns the verdicts on a run; what its files do not tell is not judged."""
    if record.by_matching:
        judges: tuple[Callable[[RunRecord], Verdict | None], ...] = (
            *(_finished, _learned, _covered, _rounds, _decided),
            *(_checked, _corrected, _agrees, _repeats),
        )
    else:
        judges = (
            *(_finished, _learned, _settled, _calm, judge_runs, judge_regression),
            *(judge_gain, judge_distance, _decided, _fits, _agrees, _repeats),
        )
    found = [judge(record) for judge in judges]
    return [verdict for verdict in found if verdict is not None]


def _finished(record: RunRecord) -> Verdict | None:
    if not record.metrics.stopped:
        return None
    told = (
        f"It stopped after {number(record.metrics.steps, 0)} steps: {record.metrics.stopped}. The "
        "rest of this report covers the steps before."
    )
    return Verdict("bad", "Did it run to its end?", "No", told)


def _learned(record: RunRecord) -> Verdict | None:
    metrics = record.metrics  # the warning of a search itself, or of the search of a fit
    warning = metrics.learning.warning or metrics.told.learning.warning
    return Verdict("bad", "Has the proxy learned?", "No", f"{warning}.") if warning else None


def _settled(record: RunRecord) -> Verdict | None:
    if record.trajectory is None:
        return None
    found = drift(record)
    if found is None:
        told = f"The result averages fewer than {FEWEST_STEPS} steps."
        return Verdict("unknown", SETTLED.question, "Too short to tell", told)
    moved, (start, middle, end) = found
    steps = record.trajectory["step"].values
    return SETTLED.judge(
        moved,
        f"The result averages steps {steps[start]} to {steps[end - 1]}. The mean weights "
        f"before and after step {steps[middle]} are {number(moved)} apart in total variation. "
        f"Below {SETTLED.good:g} counts as settled, {SETTLED.bad:g} or more as moving.",
    )


def _calm(record: RunRecord) -> Verdict | None:
    jitter = record.metrics.jitter_second_half
    if jitter is None:
        return None
    return CALM.judge(
        jitter,
        f"In the second half the weights change by {number(jitter, 4)} in sum from one "
        f"step to the next. Below {CALM.good:g} counts as calm, {CALM.bad:g} or more as unstable.",
    )


def _decided(record: RunRecord) -> Verdict | None:
    mixture = record.mixture
    if mixture is None:
        return None
    if mixture.hdi is None:
        told = "There are no intervals: whether these weights are decided is not known."
        return Verdict("unknown", HALF_DECIDED.question, "Not known", told)
    decided = mixture.verdicts()
    above = [name for name, one in decided.items() if one == "above"]
    below = [name for name, one in decided.items() if one == "below"]
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
    if too_few_runs(record):
        told += " So few runs cannot decide it."
    return HALF_DECIDED.judge(
        len(clear) / len(decided),
        told,
        level="bad" if too_few_runs(record) else None,
        answer=f"{len(clear) or 'None'} of {len(decided)} domains",
    )


def _fits(record: RunRecord) -> Verdict | None:
    fit = _weighed(record)
    if fit is None:
        return None
    khat, told = fit
    meaning = (
        "The intervals stand in for the posterior under that evidence."
        if khat < FITS.good
        else "The intervals show how far this search has decided, not how sharp that evidence is."
    )
    told = f"The last guide was compared with its model, with g frozen at its mean: {told}."
    return FITS.judge(khat, f"{told} {meaning}")


def _covered(record: RunRecord) -> Verdict | None:
    unexplained, scale = record.metrics.matching.unexplained, record.metrics.matching.scale
    if unexplained is None:
        return None
    share, level = percent(unexplained), COVERED.level(unexplained)
    told = f"No mixture of these domains teaches {share} of what the target asks for."
    if level == "good":
        told = f"Their best mixture leaves {share} of what the target asks for unexplained."
    elif level == "bad":
        told += " More text like the target's would help more than other weights."
    if scale is not None:
        told += f" The scale is {number(scale, 2)}: 1 where the target is a mixture of the domains."
    return COVERED.judge(unexplained, told)


def _rounds(record: RunRecord) -> Verdict | None:
    rounds = record.metrics.matching.rounds
    if not rounds:
        return None
    inference = record.metrics.matching.inference
    how = "settled after" if inference.settled else "ran out of"
    inferred = f"Inference {how} {number(inference.steps, 0)} steps."
    apart = total_variation(rounds[-1].alone, rounds[-1].weights)
    told = (
        f"The last of {len(rounds)} rounds alone finds weights that differ from those of all "
        f"rounds by {number(apart)} in total variation. Below {ROUNDS_AGREE.good:g} counts as "
        f"settled, {ROUNDS_AGREE.bad:g} or more does not."
    )
    if len(rounds) == 1:
        told = "There was only one round: nothing to compare."
    told = f"{told} {inferred}"
    if not inference.settled:
        return ROUNDS_AGREE.judge(apart, told, level="bad", answer="No, inference ran out of steps")
    if len(rounds) == 1:
        return ROUNDS_AGREE.judge(apart, told, level="unknown", answer="One round cannot tell")
    return ROUNDS_AGREE.judge(apart, told)


def _checked(record: RunRecord) -> Verdict | None:
    slopes = record.metrics.matching.check.slopes
    failing = [name for name in record.metrics.matching.check.failing if name in slopes]
    if not slopes:
        return None
    if not failing:
        told = f"On fresh text none of {len(slopes)} domains contradicts the mixture."
        return CHECKED.judge(0.0, told)
    asked_for = {
        "more": [clean(name) for name in failing if slopes[name] > 0],
        "less": [clean(name) for name in failing if slopes[name] <= 0],
    }
    parts = [f"{word} of {', '.join(names)}" for word, names in asked_for.items() if names]
    verb = "contradicts" if len(failing) == 1 else "contradict"
    return CHECKED.judge(
        len(failing) / len(slopes),
        f"On fresh text {len(failing)} of {len(slopes)} domains {verb} the mixture: "
        f"{' and '.join(parts)} would match the target better.",
        answer=f"Not for {len(failing)} of {len(slopes)} domains",
    )


def _weighed(record: RunRecord) -> tuple[float, str] | None:
    fit = record.metrics.guide_fit
    if fit.khat is None:
        return None
    return fit.khat, (
        f"PSIS k-hat {'infinite' if math.isinf(fit.khat) else number(fit.khat, 2)} (good is below "
        f"{FITS.good:g}), {number(fit.effective_draws, 0)} effective of {number(fit.draws, 0)} "
        "draws"
    )


def _corrected(record: RunRecord) -> Verdict | None:
    fit = _weighed(record)
    if fit is None:
        return None
    khat, told = fit
    wider = record.metrics.matching.by_document_over_by_sequence
    told = f"The guide was compared with its model, the evidence of all rounds: {told}."
    width = "" if wider is None else (
        " Documents count as witnesses, not sequences: the evidence's errors are "
        f"{number(wider, 1)} times those by sequence, in the median."
    )  # fmt: skip
    corrected = record.metrics.guide_fit.corrected
    if khat < FITS.good and corrected:
        meaning = "The draws were corrected by the model: they are the posterior's."
        return FITS.judge(khat, f"{told} {meaning}{width}")
    if corrected:
        meaning = (
            "The guide alone is not to be believed. Markov chains of the model went on from its "
            "draws: they are now the posterior's."
        )
        answer = "Yes, after its correction"
        return FITS.judge(khat, f"{told} {meaning}{width}", level="good", answer=answer)
    meaning = (
        "The draws could not be corrected: the intervals are the guide's, or lie between the "
        "guide's and the posterior's."
    )
    return FITS.judge(khat, f"{told} {meaning}{width}", level="bad")


def _agrees(record: RunRecord) -> Verdict | None:
    if not record.agreement:
        if record.trajectory is None or not record.searched:
            return None
        told = "One search cannot say; bydore search --seeds 5 measures it."
        return Verdict("unknown", AGREES.question, "Not measured", told)
    rows = record.agreement.values()
    coverage = [row.coverage for row in rows if math.isfinite(row.coverage)]
    spread = [row.sd_over_seeds for row in rows if math.isfinite(row.sd_over_seeds)]
    if not coverage or not spread:
        return None
    held = float(np.mean(coverage))
    over = [name for name, row in record.agreement.items() if row.overconfident]
    told = "No domain is overconfident."
    if over:
        told = f"Less than half as wide as that spread, so overconfident: {', '.join(over)}."
    return AGREES.judge(
        held,
        f"An interval holds what another seed found in {percent(held)} of the cases. "
        f"{percent(AGREES.good)} or more is good, below {percent(AGREES.bad)} is bad. The largest "
        f"standard deviation of a weight over the seeds is {number(max(spread))}. {told}",
        level="careful" if over and held >= AGREES.good else None,
    )


def _repeats(record: RunRecord) -> Verdict | None:
    epochs, tokens = record.metrics.run_epochs, record.metrics.run_tokens
    if not epochs:
        return None
    run = "A run" if tokens is None else f"A run of {count(tokens)} tokens"
    name, most = max(epochs.items(), key=lambda item: item[1])
    often = read_often(epochs)
    if not often:
        told = f"{run} on these weights reads no domain more than {number(most, 2)} times ({name})."
        return MOST_EPOCHS.judge(most, told, level="good", answer="No")
    listed = ", ".join(f"{clean(one)} {number(times, 1)} times" for one, times in often.items())
    told = f"{run} on these weights reads {listed}; "
    if record.by_matching:
        if not record.lengths:
            told += f"with --target_tokens {'N' if tokens is None else exactly(tokens)} "
        told += "the weights count how little that teaches, "
    return MOST_EPOCHS.judge(
        most,
        f"{told}--max_epochs caps it.",
        level="careful",
        answer=f"{len(often)} of {len(epochs)} domains",
    )
