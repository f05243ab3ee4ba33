"""Is the mixture of a search by gradient matching to be believed? The verdicts that are its own."""

from __future__ import annotations

from bydore_pyro.report.matching_words import (
    check_told,
    covered,
    inference_told,
    last_alone,
    rounds_in,
    scale_told,
    width_told,
)
from bydore_pyro.report.run_record import RunRecord, as_number
from bydore_pyro.report.thresholds import CHECKED, COVERED, FITS, ROUNDS_AGREE, Level, Verdict
from bydore_pyro.report.words import number

__all__ = [
    "FITS_QUESTION",
    "SETTLED_QUESTION",
    "judge_check",
    "judge_corrected",
    "judge_coverage",
    "judge_rounds",
    "weighed",
]

SETTLED_QUESTION, FITS_QUESTION = "Has it settled?", "Is the posterior's width to be believed?"


def weighed(record: RunRecord) -> tuple[float | None, str] | None:
    """Returns the guide's k-hat, None where it is infinite, and what its draws are worth."""
    fit = record.metrics.get("guide_fit")
    if not isinstance(fit, dict):
        return None
    khat = as_number(fit.get("khat"))
    if khat is None and fit.get("khat") != "infinite":
        return None
    effective, draws = as_number(fit.get("effective_draws")), as_number(fit.get("draws"))
    told = (
        f"PSIS k-hat {'infinite' if khat is None else number(khat, 2)} (good is below "
        f"{FITS.good:g}), {number(effective, 0)} effective of {number(draws, 0)} draws"
    )
    return khat, told


def judge_coverage(record: RunRecord) -> Verdict | None:
    """Judges whether the domains cover the target."""
    unexplained = record.number("matching", "unexplained")
    if unexplained is None:
        return None
    level = COVERED.level(unexplained)
    answers = {"good": "Yes", "careful": "In part", "bad": "Hardly"}
    scale = scale_told(record.number("matching", "scale"))
    return Verdict(
        level=level,
        question="Do the domains cover the target?",
        answer=answers[level],
        figures=f"{covered(unexplained)} {scale}".strip(),
        reason=COVERED.reason,
    )


def judge_rounds(record: RunRecord) -> Verdict | None:
    """Judges whether inference settled, and how far the last round alone is from all of them."""
    rounds = rounds_in(record.metrics)
    if not rounds:
        return None
    apart, inferred = last_alone(rounds), inference_told(rounds)
    if apart is None:
        level: Level = "unknown" if rounds[0].settled else "bad"
        answer, told = "One round cannot tell", "There was only one round: nothing to compare."
    else:
        level = ROUNDS_AGREE.level(apart)
        answers = {"good": "Yes", "careful": "The rounds differ", "bad": "No, the rounds differ"}
        answer = answers[level]
        told = (
            f"The last of {len(rounds)} rounds alone finds weights that differ from those of all "
            f"rounds by {number(apart)} in total variation. Below {ROUNDS_AGREE.good:g} counts as "
            f"settled, {ROUNDS_AGREE.bad:g} or more does not."
        )
    if not rounds[-1].settled:
        level, answer = "bad", "No, inference ran out of steps"
    return Verdict(
        level=level,
        question=SETTLED_QUESTION,
        answer=answer,
        figures=f"{told} {inferred}",
        reason=ROUNDS_AGREE.reason,
    )


def judge_check(record: RunRecord) -> Verdict | None:
    """Judges what the check on fresh text found."""
    found = check_told(record.metrics)
    if found is None:
        return None
    failing, count, told = found
    level = CHECKED.level(len(failing) / count)
    answer = "Yes" if not failing else f"Not for {len(failing)} of {count} domains"
    return Verdict(
        level=level,
        question="Does the mixture hold on fresh text?",
        answer=answer,
        figures=told,
        reason=CHECKED.reason,
    )


def judge_corrected(record: RunRecord) -> Verdict | None:
    """Judges the draws of a search by matching: the model has put the guide's right, or not."""
    fit = weighed(record)
    if fit is None:
        return None
    khat, told = fit
    corrected = record.metrics["guide_fit"].get("corrected") is True
    if khat is not None and khat < FITS.good:
        level: Level = "good"
        answer = "Yes"
        meaning = "The draws were corrected by the model: they are the posterior's."
    elif corrected:
        level, answer = "good", "Yes, after its correction"
        meaning = (
            "The guide alone is not to be believed. Its draws were moved by the model until their "
            "width no longer changed: they are now the posterior's."
        )
    else:
        level, answer = "bad", "Not as a posterior"
        meaning = (
            "The draws could not be corrected: the intervals are the guide's, or lie between the "
            "guide's and the posterior's."
        )
    return Verdict(
        level=level,
        question=FITS_QUESTION,
        answer=answer,
        figures=f"The guide was compared with its model, the evidence of all rounds: {told}. "
        f"{meaning} "
        f"{width_told(record.metrics)}".strip(),
        reason=FITS.reason,
    )
