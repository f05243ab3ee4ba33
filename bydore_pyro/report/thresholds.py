"""Verdicts, and all thresholds of the report: where a figure's meaning changes, and why there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "AGREES",
    "CHECKED",
    "COVERED",
    "FEWEST_STEPS",
    "FITS",
    "HALF_DECIDED",
    "MOST_EPOCHS",
    "ROUNDS_AGREE",
    "SETTLED",
    "Level",
    "Limits",
    "Verdict",
]

Level = Literal["good", "careful", "bad", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """One answer on a run: what it means for the mixture, the figures behind it, and why the limits
    of these lie where they do ("" where there are none)."""

    level: Level
    question: str
    answer: str
    figures: str
    reason: str = ""

    @property
    def told(self) -> str:
        """The question and its answer."""
        return f"{self.question} {self.answer}."


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A question that a figure answers, and two limits of that figure.

    A figure is good below `good` and bad from `bad` on; where `good` > `bad` it is good from `good`
    on and bad below `bad`. The answers are of a good, a doubtful and a bad figure.
    """

    question: str
    answers: tuple[str, str, str] = ("Yes", "In part", "No")
    good: float
    bad: float
    reason: str

    def level(self, value: float) -> Level:
        """Returns what a figure means."""
        if self.good > self.bad:
            return "good" if value >= self.good else "bad" if value < self.bad else "careful"
        return "good" if value < self.good else "bad" if value >= self.bad else "careful"

    def judge(
        self, value: float, figures: str, *, level: Level | None = None, answer: str = ""
    ) -> Verdict:
        """Returns the verdict on a figure; a level or an answer stands for that of the limits."""
        level = level or self.level(value)
        answers = dict(zip(("good", "careful", "bad"), self.answers, strict=True))
        return Verdict(level, self.question, answer or answers[level], figures, self.reason)


SETTLED = Limits(  # total variation between the halves of the averaged steps
    question="Has it settled?",
    answers=("Yes", "It still drifts", "No, it still moves"),
    good=0.05,
    bad=0.10,
    reason="A total variation of 0.05 moves one token in twenty to another domain. On planted "
    "mixtures, searches by linear evidence came within 0.12 to 0.46 of the truth, so a drift below "
    "0.05 does not limit them.",
)
ROUNDS_AGREE = Limits(  # total variation between the last round alone and all rounds
    question="Has it settled?",
    answers=("Yes", "The rounds differ", "No, the rounds differ"),
    good=0.08,
    bad=0.15,
    reason="On nine planted mixtures the distance was 0.01 to 0.08, and 0.12 on the one that was "
    "missed. Where no domain was like the target, it was 0.10 to 0.22 (2026-11-22). Rounds differ "
    "when a model needs other text late in its training than early.",
)
COVERED = Limits(  # share of the target's gradient that no mixture explains
    question="Do the domains cover the target?",
    answers=("Yes", "In part", "Hardly"),
    good=0.15,
    bad=0.5,
    reason="Measured by the squared length of the validation set's mean gradient. Two searches "
    "whose target was drawn from their own domains left 4 to 5 % (2026-11-22). From one half on, "
    "the domains lack most of what the target asks for.",
)
CHECKED = Limits(  # share of the domains that contradict the mixture on fresh text
    question="Does the mixture hold on fresh text?",
    good=1e-9,
    bad=0.25,
    reason="A domain contradicts the mixture when it is more than 3 standard errors away. The "
    "check uses other sequences than the search, and losses instead of gradients.",
)
FITS = Limits(  # PSIS k-hat
    question="Is the posterior's width to be believed?",
    answers=("Yes", "Roughly", "Not as a posterior"),
    good=0.7,
    bad=1.0,
    reason="Below 0.7 Pareto-smoothed importance sampling is reliable; from 1 on its weights have "
    "no mean (Vehtari et al., arXiv 1507.02646).",
)
AGREES = Limits(  # share of pairs of seeds in which one's HDI holds the other's weight
    question="Would another seed find the same?",
    answers=("Mostly", "In part", "No"),
    good=0.8,
    bad=0.5,
    reason="If seeds scattered as the posterior does, an interval would hold nearly the share of "
    "the other seeds' weights that its probability says.",
)
HALF_DECIDED = Limits(  # share of the domains whose HDI is clear of 1 / K
    question="How much is decided?",
    good=0.5,
    bad=1e-9,
    reason="Good if at least half of the domains are decided, bad if none is. This is a count, not "
    "a test.",
)
MOST_EPOCHS = Limits(  # times that a run on the mixture reads a domain
    question="Is text read too often?",
    good=4.0,
    bad=float("inf"),
    reason="Up to four readings of a text are worth nearly as much as fresh text. Further readings "
    "bring less and less (Muennighoff et al., arXiv 2305.16264).",
)
FEWEST_STEPS = 20  # of an average whose halves are compared: fewer are noise
