"""Verdicts on a run, with the figures behind them: is its mixture better, is it to be believed?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bydore_pyro import setup
from bydore_pyro.answer import COVERED, HARDLY, MOST_RUNS, Needed, Outlook
from bydore_pyro.errors import listed
from bydore_pyro.mixture import GOOD_EPOCHS, total_variation
from bydore_pyro.report.regressions import regression_verdicts
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.words import (
    SURE,
    Level,
    Verdict,
    count,
    judged,
    judged_better,
    number,
    percent,
    times_as_long,
)

FEW = 20  # names in a sentence
FEW_OPEN = 5  # targets of which it is told what would decide them
FEWEST_STEPS = 20  # of an average whose halves are compared: fewer are noise
UNSURE = 0.5  # a probability
SAME = 5e-4  # nats per token, below which a difference is shown as 0.000
WORDS = {
    "trials": "Trial runs chose the mixture by the losses that they had.",
    "match": "The mixture is the match's whole step, chosen by no trial run. bydore search makes "
    "four by default and may choose another; --trials 4 makes them here too.",
}


@dataclass(frozen=True)
class Limits:
    """A question that a figure answers, and two limits of that figure.

    A figure is good below `good` and bad from `bad` on; where `good` > `bad` it is good from `good`
    on and bad below `bad`. The answers are of a good, a doubtful and a bad figure.
    """

    question: str
    good: float
    bad: float
    reason: str
    answers: tuple[str, str, str] = ("Yes", "In part", "No")

    def level(self, value: float) -> Level:
        """Returns what a figure means."""
        if self.good > self.bad:
            return "good" if value >= self.good else "bad" if value < self.bad else "careful"
        return "good" if value < self.good else "bad" if value >= self.bad else "careful"

    def judge(
        self, value: float, figures: str, *, level: Level | None = None, answer: str = ""
    ) -> Verdict:
        """Returns the verdict on a figure; `level` or `answer` replace those of the limits."""
        level = level or self.level(value)
        answers = dict(zip(("good", "careful", "bad"), self.answers, strict=True))
        return Verdict(level, self.question, answer or answers[level], figures, self.reason)


LIMITS = {
    "drift": Limits(  # total variation between the halves of the averaged steps
        "Has it settled?",
        0.05,
        0.10,
        "A total variation of 0.05 moves one token in twenty to another domain.",
        ("Yes", "It still drifts", "No, it still moves"),
    ),
    "rounds": Limits(  # total variation between the last round alone and all rounds
        "Has it settled?",
        0.08,
        0.15,
        "On nine planted mixtures the distance was 0.01 to 0.08, and 0.12 on the one that was "
        "missed. Where no domain was like the target, it was 0.10 to 0.22 (2026-11-22).",
        ("Yes", "The rounds differ", "No, the rounds differ"),
    ),
    "unexplained": Limits(  # share of the target that no mixture explains
        "Do the domains cover the target?",
        COVERED,
        HARDLY,
        "By their responses to branches, targets that are made of the domains left 0 to 11 %, "
        "19 of 22 tasks 20 to 55 %. By gradients alone, targets whose own domain is trained on "
        "left 4 to 23 %, docstrings withheld 59 to 69 %, tasks 69 to 100 %.",
        ("Yes", "In part", "Hardly"),
    ),
    "check": Limits(  # share of the domains that contradict the match of gradients on fresh text
        "Does the match of gradients hold on fresh text?",
        1e-9,
        0.25,
        "A domain contradicts the match when it is more than 3 standard errors away.",
    ),
    "khat": Limits(  # PSIS
        "Is the posterior's width to be believed?",
        0.7,
        1.0,
        "Below 0.7 Pareto-smoothed importance sampling is reliable; from 1 on its weights have no "
        "mean (Vehtari et al., arXiv 1507.02646).",
        ("Yes", "Roughly", "Not as a posterior"),
    ),
    "decided": Limits(  # share of the domains whose HDI is clear of what it is held against
        "How much is decided?",
        0.5,
        1e-9,
        "Good if at least half of the domains are decided, bad if none is.",
    ),
    "epochs": Limits(  # times that a run on the mixture reads a domain
        "Is text read too often?",
        GOOD_EPOCHS,
        math.inf,
        "Up to four readings of a text are worth nearly as much as fresh text (Muennighoff et al., "
        "arXiv 2305.16264).",
    ),
}


def verdicts_of(record: RunRecord) -> list[Verdict]:
    """Returns the verdicts on a run; without the figures in its files there is no verdict."""
    first = [judge(record) for judge in (_smoke, _learned, _covered, _rounds, _settled)]
    then = [judge(record) for judge in (_decided, _checked, _fits, _repeats)]
    found = [*first, *regression_verdicts(record), *then]
    return [verdict for verdict in found if verdict is not None]


def _smoke(record: RunRecord) -> Verdict | None:
    if not record.asked("run", "smoke"):
        return None
    figures = "It trains for a few steps, to check that all parts work. Its figures mean nothing."
    return Verdict("bad", "Is it more than a smoke run?", "No", figures)


def _learned(record: RunRecord) -> Verdict | None:
    warning = record.metrics.learning.warning
    return Verdict("bad", "Has the proxy learned?", "No", f"{warning}.") if warning else None


def _settled(record: RunRecord) -> Verdict | None:
    """Judges how far the weights moved between the halves of the steps that the result averages."""
    if record.trajectory is None or record.by_matching:
        return None
    limits, means = LIMITS["drift"], record.trajectory["mean"].values.astype(float)
    start, end = record.average_start, len(means)
    if end - start < FEWEST_STEPS:
        figures = f"The result averages fewer than {FEWEST_STEPS} steps."
        return Verdict("unknown", limits.question, "Too short to tell", figures)
    middle = (start + end) // 2
    moved = 0.5 * float(np.abs(means[start:middle].mean(0) - means[middle:].mean(0)).sum())
    steps = record.trajectory["step"].values
    return limits.judge(
        moved,
        f"The result averages steps {steps[start]} to {steps[end - 1]}. The mean weights before "
        f"and after step {steps[middle]} are {judged(moved, 3, limits.good, limits.bad)} apart in "
        f"total variation. Below "
        f"{limits.good:g} counts as settled, {limits.bad:g} or more as moving.",
    )


def _decided(record: RunRecord) -> Verdict | None:
    mixture, limits = record.mixture, LIMITS["decided"]
    if record.metrics.outlook.expected or record.metrics.table.mean.expected:  # verdicts on losses
        return None
    if mixture.hdi is None:
        figures = "There are no intervals: whether these weights are decided is not known."
        return Verdict("unknown", limits.question, "Not known", figures)
    decided = mixture.verdicts()
    above = [name for name, one in decided.items() if one == "above"]
    clear = [name for name, one in decided.items() if one != "undecided"]
    held = sum(mixture.as_dict()[name] for name in clear)
    figures = (
        f"The {percent(mixture.hdi_probability)} interval lies above the uniform share "
        f"{number(1 / len(decided))} for {listed(above, FEW) or 'no domain'}, and below it for "
        f"{len(clear) - len(above)} of {len(decided)} domains; they hold {percent(held)} of the "
        "weight."
    )
    if len(clear) < len(decided):
        figures += " This run cannot say whether the others deserve more or less."
    level = limits.level(len(clear) / len(decided))
    for found, doubt in (
        (_learned(record), "a proxy that has not learned"),
        (_fits(record), "intervals that are not to be trusted"),
        (_covered(record), "a target that the domains hardly cover"),
    ):
        if level == "good" and found is not None and found.level == "bad":
            level, figures = "careful", f"{figures} It rests on {doubt}."
    answer = f"{len(clear) or 'None'} of {len(decided)} domains"
    return Verdict(level, limits.question, answer, figures, limits.reason)


def _fits(record: RunRecord) -> Verdict | None:
    """Judges whether draws are the posterior's; of linear evidence, the last guide by its model
    with g frozen at its mean."""
    fit, limits = record.metrics.guide_fit, LIMITS["khat"]
    draws, guided = record.metrics.matching.draws, fit is not None and not record.by_matching
    rhat = None if draws.rhat is None else f"nested R-hat is {number(draws.rhat)}"
    if fit is None and rhat is None:
        return None
    if not guided and not draws.settled:
        figures = f"The chains disagree: {rhat}."
        if rhat is None:
            figures = "The intervals are the guide's, which importance weights could not correct."
        return Verdict("bad", limits.question, "No, the draws have not settled", figures)
    if fit is None:  # as of an answer, which fits no guide
        return None
    if not guided and rhat is not None:
        figures = f"Chains drew from the model itself, and they agree: {rhat}."
        return Verdict("good", limits.question, "Yes", figures)
    meaning = "The draws were corrected by the model: they are the posterior's."
    if guided:
        meaning = "The intervals show how far this search decided, not how sharp its evidence is."
        if fit.khat < limits.good:
            meaning = "The intervals stand in for the posterior with g at its mean."
    figures = (
        f"The guide was compared with its model: PSIS k-hat "
        f"{judged(fit.khat, 2, limits.good, limits.bad)} (good is below {limits.good:g}), "
        f"{number(fit.effective_draws, '.0f')} effective of {fit.draws} draws. {meaning}"
    )
    return limits.judge(fit.khat, figures)


def _covered(record: RunRecord) -> Verdict | None:
    limits, unexplained = LIMITS["unexplained"], record.metrics.matching.unexplained
    if unexplained is None:
        return None
    share = percent(unexplained, limits.good, limits.bad)
    figures = f"Their best mixture leaves {share} of what the target asks for unexplained."
    tested = record.metrics.matching.responses
    if words := setup.models_words(record.metrics.models, tested=tested):
        figures += f" {words}"
    level: Level | None = None
    if (bad := record.uncovered) and len(record.metrics.targets) > 1:
        each = [f"{percent(share)} of {name}" for name, share in bad.items()]
        figures += f" Each by itself, no mixture explains {listed(each, FEW)}."
        level = "careful" if limits.level(unexplained) == "good" else None
    if limits.level(unexplained) == "bad":
        figures += " More text like the target's would help more than other weights."
    return limits.judge(unexplained, figures, level=level)


def _rounds(record: RunRecord) -> Verdict | None:
    rounds = record.metrics.matching.rounds
    if not rounds:
        return None
    limits, apart = LIMITS["rounds"], total_variation(rounds[-1].alone, rounds[-1].weights)
    if len(rounds) == 1:
        figures = "There was only one round: nothing to compare."
        return Verdict("unknown", limits.question, "One round cannot tell", figures)
    figures = (
        f"The last of {len(rounds)} rounds alone finds weights that differ from those of all "
        f"rounds by {judged(apart, 3, limits.good, limits.bad)} in total variation. Below "
        f"{limits.good:g} counts as settled, {limits.bad:g} or more does not."
    )
    return limits.judge(apart, figures)


def _checked(record: RunRecord) -> Verdict | None:
    check, limits = record.metrics.matching.check, LIMITS["check"]
    slopes, failing = check.slopes, check.failing
    if not check.sequences:
        return None
    without = [name for name, new in check.sequences.items() if not new]
    if not slopes:
        figures = "No domain has text enough to set sequences aside that no round reads."
        return Verdict("unknown", limits.question, "No new sequences: no verdict", figures)
    new = sorted(int(check.sequences[name]) for name in slopes)
    each = f"{new[0]}" if new[0] == new[-1] else f"{new[0]} to {new[-1]}"
    text = (
        f"On {each} sequences of each domain that nothing had read, "
        f"{len(failing) or 'none'} of {len(slopes)} domains contradict the match"
    )
    if without:
        text += f"; there were none of {listed(without, FEW)}"
    for word, sign in (("more", 1), ("less", -1)):
        if names := [name for name in failing if slopes[name] * sign > 0]:
            text += f"; {word} of {listed(names, FEW)} would match the target better"
    answer = f"Not for {len(failing)} of {len(slopes)} domains" if failing else ""
    return limits.judge(len(failing) / len(slopes), f"{text}.", answer=answer)


def _repeats(record: RunRecord) -> Verdict | None:
    epochs, tokens, limits = record.metrics.run_epochs, record.metrics.run_tokens, LIMITS["epochs"]
    if not epochs:
        return None
    run = "A run" if tokens is None else f"A run of {count(tokens)} tokens"
    run = f"{run} on these weights"
    most = sorted(epochs.items(), key=lambda item: -item[1])
    often = [(name, times) for name, times in most if times > limits.good + 0.005]
    if not often:
        name, times = most[0]
        figures = f"{run} reads no domain twice"
        if times >= 1.005:
            figures = f"{run} reads no domain more than {times:.2f} times ({name})"
        return limits.judge(times, f"{figures}.", level="good", answer="No")
    read = listed([f"{name} {number(times, '.1f')} times" for name, times in often], FEW)
    figures = f"{run} reads {read}; --max_epochs caps it"
    if record.by_matching and record.asked("question", "target_tokens") is None:
        figures += ", and with --target_tokens the weights count how little that teaches"
    answer = f"{len(often)} of {len(epochs)} domains"
    return limits.judge(most[0][1], f"{figures}.", answer=answer)


def asks_for_longer(outlook: Outlook) -> bool:
    """Whether the answer is for a longer run than those whose losses are forecast."""
    return outlook.asked > 1.1 * outlook.tokens


def outlook_verdicts(outlook: Outlook, uncovered: Mapping[str, float]) -> list[Verdict]:
    """Returns whether the mixture is better than each other one, on all targets together.

    Args:
        outlook: Of the mixture.
        uncovered: What is unexplained of the targets that the domains do not cover, by name.
    """
    found, guesses = [], list[str]()
    if uncovered:
        guesses.append(f"No mixture of the domains covers {listed(uncovered, FEW)}.")
    if outlook.decided in WORDS:
        guesses.append(WORDS[outlook.decided])
    if guesses:
        question = "Does the law know what this mixture loses on the target?"
        found.append(Verdict("careful", question, "Hardly", " ".join(guesses)))
    when = f" after {count(outlook.tokens)} tokens" if asks_for_longer(outlook) else ""
    for other, differences in outlook.differences.items():
        text = outlook.together
        apart = differences[text]
        answer, level, sure = judged_better(apart.better)
        figures = (
            f"Expected difference {apart.loss:+.3f} {outlook.unit(text)} on {text}"
            f"{_in_noise(outlook, text, apart.loss)}. The loss is lower {sure}. "
            f"Two single runs may differ by {apart.low:+.3f} to {apart.high:+.3f}."
        )
        if saved := outlook.saved.get(other, {}).get(text):
            worse = ": this mixture is worse" if saved.times < 1 else ""
            figures += f" {other} trains {times_as_long(saved)} for the same loss{worse}."
        level = "careful" if guesses else level
        if max(abs(one.loss) for one in differences.values()) < SAME:
            level, answer = "careful", f"No, it is as {other}"
            figures = f"On no text do the expected losses differ by {SAME:g}."
        found.append(Verdict(level, f"Is it better than {other}{when}?", answer, figures))
    if outlook.baseline in outlook.differences and len(outlook.importance) > 1:
        found.append(_decided_targets(outlook, unsure=bool(guesses)))
    elif outlook.needed:
        (own,) = outlook.needed
        place = [one.question for one in found].index(
            f"Is it better than {outlook.baseline}{when}?"
        )
        more = f"{found[place].figures} {_would_decide(outlook.needed[own])}"
        found[place] = replace(found[place], figures=more)
    if outlook.none_worse is not None:
        found.append(_none_worse(outlook, unsure=bool(guesses)))
    return found


def _in_noise(outlook: Outlook, text: str, difference: float) -> str:
    """Returns in words how large a difference is beside the noise of a run; "" if not known."""
    noise = outlook.noise.get(text)
    if noise is None or not noise.deviation:
        return ""
    measured = f"measured on {noise.runs} runs" if noise.runs else "by the law's noise"
    return (
        f", {abs(difference) / noise.deviation:.1f} standard deviations between seeds ({measured})"
    )


def _would_decide(one: Needed) -> str:
    """Returns in words what would decide a target."""
    if one.runs >= MOST_RUNS:
        runs = "More runs would hardly decide it"
    else:
        runs = f"About {count(one.runs)} run{'s' * (one.runs > 1)} on each mixture would decide it"
        runs += f" (bydore check --seeds {one.runs:.0f})"
    more = f", or about {count(one.documents)} documents of it more" if one.documents else ""
    return f"{runs}{more}."


def _decided_targets(outlook: Outlook, *, unsure: bool) -> Verdict:
    """Judges on how many targets, guards among them, it is decided which mixture is better."""
    total, open_ones = len(outlook.importance), outlook.needed
    words = []
    for name, one in [*open_ones.items()][:FEW_OPEN]:
        apart = outlook.differences[outlook.baseline][name].loss
        words.append(f"{name}{_in_noise(outlook, name, apart)}. {_would_decide(one)}")
    if len(open_ones) > FEW_OPEN:
        words.append(f"And {len(open_ones) - FEW_OPEN} others.")
    figures = "Undecided: " + " ".join(words) if open_ones else "On each the probability says so."
    level: Level = "careful" if open_ones or unsure else "good"
    question = f"On how many targets does it differ from {outlook.baseline} for sure?"
    return Verdict(level, question, f"{total - len(open_ones)} of {total}", figures)


def _none_worse(outlook: Outlook, *, unsure: bool) -> Verdict:
    held, asked = outlook.none_worse or 0.0, outlook.probability or SURE
    level: Level = "good" if held >= asked else "careful" if held >= UNSURE else "bad"
    figures = (
        f"None is worse by more than {number(outlook.tolerance)} {outlook.unit('')} in "
        f"{percent(held, asked)} of the draws; {percent(asked)} was asked for."
    )
    question = "Is no target worse than under the baseline?"
    if outlook.guards:
        question = "Do the guards hold?"
        each = [f"{name} {percent(one, asked)}" for name, one in outlook.guards.items()]
        figures += f" Each by itself: {listed(each, FEW)}."
    return Verdict(
        "careful" if unsure and level == "good" else level,
        question,
        f"With probability {percent(held, asked)}",
        figures,
    )
