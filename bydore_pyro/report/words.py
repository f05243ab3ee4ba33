"""Numbers, names and tables as a reader wants to see them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from bydore_pyro.utils import visible

__all__ = ["ABSENT", "Table", "clean", "count", "duration", "flops_of", "number", "percent"]

ABSENT = "\N{EN DASH}"
JOINERS = "\u200c\u200d"  # that scripts need to be read rightly


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of words, for a page and for a terminal.

    Attributes:
        header: What the columns hold.
        rows: Of as many cells as the header has.
        caption: What stands above it.
        note: What stands below it.
    """

    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    caption: str = ""
    note: str = ""

    def as_text(self) -> str:
        """Returns it in columns of characters, the first to the left, the others to the right."""
        table = [[visible(cell) for cell in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for first, *cells in table:
            right = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([f"{first:<{widths[0]}}", *right]).rstrip())
        return "\n".join(filter(None, (self.caption, *lines, self.note)))


def clean(text: str) -> str:
    """Returns text of others on one line, without what a page must not hold or show.

    Control characters, lone surrogates and marks that turn the direction of writing become the
    replacement character. HTML is not escaped here.
    """

    def shown(character: str) -> str:
        hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs")
        return "\ufffd" if hidden and character not in JOINERS else character

    return "".join(map(shown, " ".join(text.split())))


def number(value: float | None, digits: int = 3, infinite: str = ABSENT) -> str:
    """Returns a number with so many decimals; a dash where there is none."""
    if value is not None and math.isinf(value):
        return infinite
    return ABSENT if value is None or math.isnan(value) else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """Returns a share as a percentage, with a decimal below ten; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{100 * value:.{0 if abs(value) >= 0.0995 or value == 0 else 1}f} %"


def count(value: float | None) -> str:
    """Returns a count: whole below a million, with three digits and a unit above it."""
    if value is None or not math.isfinite(value):
        return ABSENT
    for scale, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= 1e15:
            return f"{value:.2e}"
        if abs(value) >= max(0.9995 * scale, 1e6):
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
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
