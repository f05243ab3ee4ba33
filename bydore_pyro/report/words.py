"""Numbers and names as a reader wants to see them."""

from __future__ import annotations

import math
import unicodedata

__all__ = ["ABSENT", "clean", "count", "duration", "flops_of", "number", "percent", "shortened"]

ABSENT = "\N{EN DASH}"
JOINERS = "\u200c\u200d"  # that scripts need to be read rightly


def clean(text: str) -> str:
    """Returns text of others on one line, without what a page must not hold or show.

    Control characters, lone surrogates and marks that turn the direction of writing become the
    replacement character. HTML is not escaped here.
    """
    return "".join(_clean_character(c) for c in " ".join(text.split()))


def _clean_character(character: str) -> str:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs")
    return "\ufffd" if hidden and character not in JOINERS else character


def shortened(text: str, most: int = 24) -> str:
    """Returns clean text of at most so many characters; an ellipsis marks a cut."""
    text = clean(text)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def number(value: float | None, digits: int = 3) -> str:
    """Returns a number with so many decimals; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """Returns a share as a percentage, with a decimal below ten; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{100 * value:.{0 if abs(value) >= 0.0995 or value == 0 else 1}f} %"


def count(value: float | None) -> str:
    """Returns a count: whole below a million, with three digits and a unit above it."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if abs(value) < 1e6:
        return f"{value:,.0f}"
    if abs(value) >= 1e15:
        return f"{value:.2e}"
    for scale, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= 0.9995 * scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:,.0f}"


def flops_of(value: float | None) -> str:
    """Returns a number of FLOPs with three digits; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{value:.2e}" if value else "0"


def duration(seconds: float | None) -> str:
    """Returns seconds in the units that fit; a dash where there are none."""
    if seconds is None or not math.isfinite(seconds):
        return ABSENT
    if seconds < 120:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"
