"""Numbers and verdicts as a reader wants to see them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bydore_pyro.answer import Saved
from bydore_pyro.law import FAR

ABSENT = "\N{EN DASH}"
MOST_DECIMALS = 8
Level = Literal["good", "careful", "bad", "unknown"]
# Probabilities of being better from which it is so, and up to which it is not; and what that means.
SURE, AGAINST = 0.9, 0.1
LEVELS: dict[str, Level] = {"Yes": "good", "No": "bad", "Open": "careful"}


@dataclass(frozen=True)
class Verdict:
    """One answer on a run: what it means for the mixture, the figures behind it, and the reason of
    their limits ("" without limits)."""

    level: Level
    question: str
    answer: str
    figures: str
    reason: str = ""

    @property
    def heading(self) -> str:
        """The question and its answer."""
        return f"{self.question} {self.answer}."


def judged_better(better: float) -> tuple[str, Level, str]:
    """Returns whether a probability of being better decides it, in words; its level; and its figure
    with the limits."""
    answer = "Yes" if better >= SURE else "No" if better <= AGAINST else "Open"
    figure = (
        f"with probability {percent(better, SURE, AGAINST)} (decided from {percent(SURE)} or up to "
        f"{percent(AGAINST)})"
    )
    return answer, LEVELS[answer], figure


def times_as_long(saved: Saved, form: str = "{} times as long ({} to {})") -> str:
    """Returns in words how much longer another run trains; what is beyond the law is called so."""
    names = {FAR: f"more than {FAR:g}", 1 / FAR: f"less than {1 / FAR:g}"}
    ends = (saved.times, saved.low, saved.high)
    return form.format(*(names.get(round(one, 6), number(one, ".2f")) for one in ends))


def number(value: float | None, form: str = ".3f") -> str:
    """Returns a number in a format of Python's; a dash where there is none."""
    return ABSENT if value is None or math.isnan(value) else f"{value:{form}}"


def percent(value: float | None, *limits: float) -> str:
    """Returns a share as a percentage, with a decimal below ten; a dash where there is none.

    It has more decimals where it would else seem to be on the other side of one of the limits.
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    decimals = 0 if abs(value) >= 0.0995 or value == 0 else 1
    return f"{100 * value:.{_decimals(value, 2 + decimals, limits) - 2}f} %"


def judged(value: float | None, decimals: int, *limits: float) -> str:
    """Returns a number with so many decimals, or more where it would else seem to be on the other
    side of one of the limits; a dash where there is none."""
    if value is None or math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return "infinite"
    return f"{value:.{_decimals(value, decimals, limits)}f}"


def _decimals(value: float, least: int, limits: tuple[float, ...]) -> int:
    """Returns the decimals from which on a rounded value compares with the limits as it does."""
    for decimals in range(least, MOST_DECIMALS):
        rounded = round(value, decimals)
        if all((value < one, value > one) == (rounded < one, rounded > one) for one in limits):
            return decimals
    return MOST_DECIMALS


def count(value: float | None) -> str:
    """Returns a count: whole below a million, with three digits and a unit above it."""
    if value is None or not math.isfinite(value):
        return ABSENT
    for scale, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= max(0.9995 * scale, 1e6):
            return f"{value / scale:.3g} {unit}"
    return f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Returns seconds in the units that fit; a dash where there are none."""
    if seconds is None or not math.isfinite(seconds):
        return ABSENT
    if seconds < 120:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
