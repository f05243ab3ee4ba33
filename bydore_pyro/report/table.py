"""A table of words, for a page and for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bydore_pyro.utils import visible

__all__ = ["Table"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of words.

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
        around = (self.caption, "\n".join(lines), self.note)
        return "\n".join(filter(None, around))
