"""Numbers and names as a reader wants to see them."""

from __future__ import annotations

import math

import pytest

from bydore_pyro.report.words import (
    ABSENT,
    Table,
    clean,
    count,
    duration,
    flops_of,
    number,
    percent,
)


def test_names_lose_what_a_page_must_not_hold() -> None:
    assert clean("a\n\tb  c\u2028d") == "a b c d"
    for hidden in ("\x00", "\x1b", "\u202e", "\ufeff", "\ud800"):
        assert clean(f"a{hidden}b") == "a\ufffdb"
    assert clean("<b> \u0646\u0645\u200c\u062f 🙂") == "<b> \u0646\u0645\u200c\u062f 🙂"
    clean("\ud800").encode()


def test_a_table_as_text() -> None:
    table = Table(header=("a", "bb"), rows=[("x\x1b", "1"), ("yy", "22")], caption="c", note="n")
    assert table.as_text() == "c\na      bb\nx\\x1b   1\nyy     22\nn"


@pytest.mark.parametrize("write", [number, percent, count, duration, flops_of])
def test_what_is_no_number_is_a_dash(write: object) -> None:
    assert callable(write)
    for absent in (None, math.nan, math.inf):
        assert write(absent) == ABSENT


def test_numbers() -> None:
    assert number(0.12345) == "0.123"
    assert [percent(v) for v in (0, 0.004, 0.0994, 0.0996, 0.94, 1.0)] == [
        "0 %", "0.4 %", "9.9 %", "10 %", "94 %", "100 %",
    ]  # fmt: skip
    assert [count(v) for v in (0, 12, 999_999, 1e6, 2.5e9, 999_999_999, 3.2e12, 1e18)] == [
        "0", "12", "999,999", "1 M", "2.5 B", "1 B", "3.2 T", "1.00e+18",
    ]  # fmt: skip
    assert [duration(v) for v in (0.04, 9.96, 119, 600, 7200)] == [
        "0.0 s", "10 s", "119 s", "10.0 min", "2.0 h",
    ]  # fmt: skip
    assert [flops_of(v) for v in (0, 1.284e11)] == ["0", "1.28e+11"]
