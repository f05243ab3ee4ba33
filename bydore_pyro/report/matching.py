"""What a search by gradient matching found: the tables of its rounds, and its own verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bydore_pyro.mixture import total_variation
from bydore_pyro.report.run_files import Inferred, Round
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.table import Table
from bydore_pyro.report.thresholds import CHECKED, COVERED, FITS, ROUNDS_AGREE, Verdict
from bydore_pyro.report.words import clean, count, number, percent

__all__ = [
    "judge_check",
    "judge_corrected",
    "judge_coverage",
    "judge_rounds",
    "round_tables",
    "weighed",
]

MOST_ROWS = 8  # domains in the table of the rounds


def judge_coverage(record: RunRecord) -> Verdict | None:
    """Judges whether the domains cover the target."""
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


def judge_rounds(record: RunRecord) -> Verdict | None:
    """Judges whether inference settled, and how far the last round alone is from all of them."""
    rounds = record.metrics.matching.rounds
    if not rounds:
        return None
    inference = record.metrics.matching.inference
    inferred = f"Inference {_ended(inference)}."
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


def _ended(inference: Inferred) -> str:
    steps = number(inference.steps, 0)
    return f"settled after {steps} steps" if inference.settled else f"ran out of {steps} steps"


def judge_check(record: RunRecord) -> Verdict | None:
    """Judges what the check on fresh text found."""
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


def weighed(record: RunRecord) -> tuple[float, str] | None:
    """Returns the guide's k-hat, no unit, and what its draws are worth; None if not weighed."""
    fit = record.metrics.guide_fit
    if fit.khat is None:
        return None
    return fit.khat, (
        f"PSIS k-hat {'infinite' if math.isinf(fit.khat) else number(fit.khat, 2)} (good is below "
        f"{FITS.good:g}), {number(fit.effective_draws, 0)} effective of {number(fit.draws, 0)} "
        "draws"
    )


def judge_corrected(record: RunRecord) -> Verdict | None:
    """Judges the draws of a search by matching: the model has put the guide's right, or not."""
    fit = weighed(record)
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


def round_tables(rounds: Sequence[Round]) -> list[Table]:
    """Returns the largest weights by each round alone and by all rounds up to it, and the rounds'
    other figures; nothing without rounds."""
    if not rounds:
        return []
    header, last = ["domain", "round 1"], rounds[-1].weights
    names = sorted(last, key=lambda name: -last[name])[:MOST_ROWS]
    columns = [[clean(name) for name in names], [number(rounds[0].weights.get(n)) for n in names]]
    for place, one in enumerate(rounds[1:], start=2):
        header += [f"round {place} alone", f"rounds 1 to {place}"]
        columns += [[number(found.get(n)) for n in names] for found in (one.alone, one.weights)]
    weights = Table(
        header=header,
        rows=list(zip(*columns, strict=True)),
        caption="The largest weights, by the evidence of each round alone and of all rounds so far",
    )
    figures = Table(
        header=("round", "after step", "sequences", "validation loss", "unexplained", "scale"),
        rows=[
            (
                str(place),
                number(one.step, 0),
                count(one.sequences),
                number(one.validation_loss),
                percent(one.unexplained),
                number(one.scale, 2),
            )
            for place, one in enumerate(rounds, start=1)
        ],
        caption="The rounds. Unexplained and scale belong to the evidence of all rounds so far",
    )  # fmt: skip
    return [weights, figures]
