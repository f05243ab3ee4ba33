"""A table of words, in columns."""

from __future__ import annotations

from bydore_pyro.report.table import Table


def test_columns_are_aligned_and_safe_for_a_terminal() -> None:
    rows = [("a\x1b[1m", "1.5"), ("long name", "12")]
    table = Table(header=("name", "loss"), rows=rows, caption="above", note="below")
    above, *lines, below = table.as_text().splitlines()
    assert (above, below) == ("above", "below")
    assert "\x1b" not in "".join(lines)
    assert len({len(line) for line in lines}) == 1
