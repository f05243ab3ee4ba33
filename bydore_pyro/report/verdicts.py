"""Is a run's mixture to be believed? Verdicts in plain words, with the figures behind them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bydore_pyro.mixture import exactly, total_variation
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.thresholds import (
    AGREES,
    CHECKED,
    COVERED,
    FEWEST_STEPS,
    FITS,
    HALF_DECIDED,
    MOST_EPOCHS,
    ROUNDS_AGREE,
    SETTLED,
    Level,
    Verdict,
)
from bydore_pyro.report.words import clean, count, number, percent

__all__ = ["average_start", "compared_with", "verdicts_of"]

RANKS = 80.0  # rank correlation of left-out runs, x 100, from which a regression is believed


def average_start(record: RunRecord) -> int:
    """Returns the place of the first step that the result averages; by matching, of the last."""
    steps = 0 if record.trajectory is None else record.trajectory.sizes["step"]
    if record.by_matching:
        return max(0, steps - 1)
    if record.method == "doremi":  # its result averages all steps
        return 0
    share = record.asked_number("search", "average_from")
    return int(steps * min(max(0.5 if share is None else share, 0.0), 1.0))


def compared_with(record: RunRecord) -> tuple[str, str]:
    """Returns what intervals are held against, in short and with its size."""
    if record.mixture is not None and record.mixture.prior is not None:
        short = "its share of the prior"
        return short, f"{short} (the mixture that the fit started from)"
    return "an equal share", f"the uniform share {number(1 / max(1, len(record.domains)))}"


def verdicts_of(record: RunRecord) -> list[Verdict]:
    """Returns the verdicts on a run; what its files do not tell is not judged."""
    if record.by_matching:
        judges: tuple[Callable[[RunRecord], Verdict | None], ...] = (
            *(_finished, _learned, _covered, _rounds, _decided, _checked, _fits, _agrees, _repeats),
        )
    else:
        judges = (
            *(_finished, _learned, _settled, _runs, _regression, _gain, _distance, _decided),
            *(_fits, _agrees, _repeats),
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
    """Judges how far the weights moved between the halves of the steps that the result averages."""
    if record.trajectory is None:
        return None
    means = record.trajectory["mean"].values.astype(float)
    start, end = average_start(record), len(means)
    middle = (start + end) // 2
    if end - start < FEWEST_STEPS:
        told = f"The result averages fewer than {FEWEST_STEPS} steps."
        return Verdict("unknown", SETTLED.question, "Too short to tell", told)
    moved = 0.5 * float(np.abs(means[start:middle].mean(0) - means[middle:].mean(0)).sum())
    steps = record.trajectory["step"].values
    return SETTLED.judge(
        moved,
        f"The result averages steps {steps[start]} to {steps[end - 1]}. The mean weights "
        f"before and after step {steps[middle]} are {number(moved)} apart in total variation. "
        f"Below {SETTLED.good:g} counts as settled, {SETTLED.bad:g} or more as moving.",
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
    runs = _number_of_runs(record)
    too_few = runs is not None and runs < len(record.domains)
    if too_few:
        told += " So few runs cannot decide it."
    return HALF_DECIDED.judge(
        len(clear) / len(decided),
        told,
        level="bad" if too_few else None,
        answer=f"{len(clear) or 'None'} of {len(decided)} domains",
    )


def _fits(record: RunRecord) -> Verdict | None:
    """Judges the guide by its model: of linear evidence its last one, with g frozen at its mean."""
    fit, matching = record.metrics.guide_fit, record.metrics.matching
    if fit.khat is None:
        return None
    level: Level | None = None
    answer = ""
    if not record.by_matching:
        meaning = (
            "The intervals stand in for the posterior with g at its mean."
            if fit.khat < FITS.good
            else "The intervals show how far this search decided, not how sharp its evidence is."
        )
    elif not fit.corrected:
        level, meaning = "bad", "The draws could not be corrected: the intervals are the guide's."
    elif fit.khat < FITS.good:
        meaning = "The draws were corrected by the model: they are the posterior's."
    else:
        level, answer = "good", "Yes, after its correction"
        meaning = "Markov chains of the model made the draws the posterior's."
    told = (
        f"The guide was compared with its model: PSIS k-hat {number(fit.khat, 2, 'infinite')} "
        f"(good is below {FITS.good:g}), {number(fit.effective_draws, 0)} effective of "
        f"{number(fit.draws, 0)} draws. {meaning}"
    )
    if matching.by_document_over_by_sequence is not None:
        told += (
            " Documents count as witnesses, not sequences: the evidence's errors are "
            f"{number(matching.by_document_over_by_sequence, 1)} times those by sequence."
        )
    return FITS.judge(fit.khat, told, level=level, answer=answer)


def _covered(record: RunRecord) -> Verdict | None:
    unexplained, scale = record.metrics.matching.unexplained, record.metrics.matching.scale
    if unexplained is None:
        return None
    told = f"Their best mixture leaves {percent(unexplained)} of what the target asks for "
    told += "unexplained."
    if COVERED.level(unexplained) == "bad":
        told += " More text like the target's would help more than other weights."
    if scale is not None:
        told += f" The scale is {number(scale, 2)}: 1 where the target is a mixture of the domains."
    return COVERED.judge(unexplained, told)


def _rounds(record: RunRecord) -> Verdict | None:
    rounds, inference = record.metrics.matching.rounds, record.metrics.matching.inference
    if not rounds:
        return None
    apart = total_variation(rounds[-1].alone, rounds[-1].weights)
    level: Level | None = None
    answer = ""
    told = (
        f"The last of {len(rounds)} rounds alone finds weights that differ from those of all "
        f"rounds by {number(apart)} in total variation. Below {ROUNDS_AGREE.good:g} counts as "
        f"settled, {ROUNDS_AGREE.bad:g} or more does not."
    )
    if len(rounds) == 1:
        told, level = "There was only one round: nothing to compare.", "unknown"
        answer = "One round cannot tell"
    if not inference.settled:
        level, answer = "bad", "No, inference ran out of steps"
    how = "settled after" if inference.settled else "ran out of"
    told += f" Inference {how} {number(inference.steps, 0)} steps."
    return ROUNDS_AGREE.judge(apart, told, level=level, answer=answer)


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
    most = sorted(epochs.items(), key=lambda item: -item[1])
    often = [(name, times) for name, times in most if times > MOST_EPOCHS.good + 0.005]
    if not often:
        name, times = most[0]
        told = f"{run} on these weights reads no domain more than {number(times, 2)} times"
        return MOST_EPOCHS.judge(times, f"{told} ({name}).", level="good", answer="No")
    listed = ", ".join(f"{clean(name)} {number(times, 1)} times" for name, times in often)
    told = f"{run} on these weights reads {listed}; "
    if record.by_matching:
        if not record.lengths:
            told += f"with --target_tokens {'N' if tokens is None else exactly(tokens)} "
        told += "the weights count how little that teaches, "
    answer = f"{len(often)} of {len(epochs)} domains"
    return MOST_EPOCHS.judge(most[0][1], f"{told}--max_epochs caps it.", answer=answer)


def _number_of_runs(record: RunRecord) -> float | None:
    """Returns how many runs a regression was fitted to; None of another method."""
    details = record.metrics.told
    if record.method != "regmix" or record.mixture is None:
        return None
    return details.proxies if details.runs is None else details.runs


def _runs(record: RunRecord) -> Verdict | None:
    """Judges whether there were enough runs for the domains."""
    runs = _number_of_runs(record)
    if runs is None:
        return None
    question = "Are there enough runs?"
    told = f"The regression was fitted to {runs:.0f} runs of {len(record.domains)} domains."
    if runs < len(record.domains):
        told += " From so few it mostly assumes what a domain is worth."
        return Verdict("bad", question, "No", told)
    return Verdict("good", question, "Yes", told)


def _regression(record: RunRecord) -> Verdict | None:
    """Judges whether the regression ranks runs that it was not fitted to."""
    rows, chosen = record.metrics.told.regressions, record.metrics.told.regression
    one = rows.get(chosen)
    rank = None if one is None else one.spearman_x100
    if one is None or rank is None:
        return None
    best = " has the best rank correlation and" if len(rows) > 1 else ""
    told = (
        f"{chosen}{best} was taken. Of runs that were left out: rank correlation x 100 "
        f"{number(rank, 1)}, error {number(one.rmse, 4)}, {percent(one.coverage)} in their 94 % "
        "intervals."
    )
    question = "Does it predict runs that it has not seen?"
    if rank >= RANKS:
        return Verdict("good", question, "It ranks them", told)
    return Verdict("careful", question, "Roughly", told)


def _distance(record: RunRecord) -> Verdict | None:
    """Judges whether mixtures like the proposal were measured."""
    found = record.metrics.told.distance
    if not found.words:
        return None
    verdicts: dict[bool | None, tuple[Level, str]] = {
        None: ("unknown", "Not judged"),
        True: ("careful", "No"),
        False: ("good", "Yes"),
    }
    level, answer = verdicts[found.far]
    return Verdict(level, "Was anything like it run?", answer, found.words)


def _gain(record: RunRecord) -> Verdict | None:
    """Judges whether the mixture is predicted to be better than the prior."""
    mixture, gain = record.mixture, record.metrics.told.gain_over_prior
    if mixture is None or gain.mean is None or not mixture.predicted_loss:
        return None
    told = "; ".join(
        f"{'these weights' if name == 'weights' else name} {number(mean, 4)}"
        + ("" if sd is None else f" ± {number(sd, 4)}")
        for name, (mean, sd) in mixture.predicted_loss.items()
    )
    question, figures = "Is it better than the prior?", f"Predicted loss of a run on each: {told}."
    if gain.probability is None:
        figures += " This regression cannot say how certain that is."
    else:
        chance = percent(gain.probability)
        figures += f" These weights are better than the prior with probability {chance}."
    if gain.mean <= 0:
        return Verdict("bad", question, "No", figures)
    verdicts: dict[bool | None, tuple[Level, str]] = {
        None: ("unknown", "Predicted so"),
        True: ("good", "Yes, as predicted"),
        False: ("careful", "Perhaps"),
    }
    level, answer = verdicts[gain.sure]
    return Verdict(level, question, answer, figures)
