"""Numbers and tables as a reader wants to see them."""

from __future__ import annotations

import math

import pytest

from bydore_pyro.report.words import (
    ABSENT,
    Verdict,
    count,
    duration,
    number,
    percent,
    percents,
)
from bydore_pyro.utils.terminal import Table


def test_a_table_as_text() -> None:
    table = Table(header=("a", "bb"), rows=[("x\x1b", "1"), ("yy", "22")], caption="c")
    assert table.as_text() == "c\na      bb\nx\\x1b   1\nyy     22"
    assert Verdict("good", "Is it?", "Yes", "7").heading == "Is it? Yes."


@pytest.mark.parametrize("write", [number, percent, count, duration])
def test_what_is_no_number_is_a_dash(write: object) -> None:
    assert callable(write)
    for absent in (None, math.nan):
        assert write(absent) == ABSENT


def test_shares_that_are_held_against_each_other_look_different() -> None:
    assert percents(0.93, 0.9) == ("93 %", "90 %")
    assert percents(0.9, 0.9) == ("90 %", "90 %")
    assert percents(0.8996, 0.9) == ("89.96 %", "90.00 %")
    assert percents(0.996, 1.0) == ("99.6 %", "100.0 %")


def test_numbers() -> None:
    assert (number(0.12345), number(1.284e11, ".2e")) == ("0.123", "1.28e+11")
    assert [percent(v) for v in (0, 0.004, 0.0994, 0.0996, 0.94, 1.0)] == [
        "0 %", "0.4 %", "9.9 %", "10 %", "94 %", "100 %",
    ]  # fmt: skip
    assert [count(v) for v in (0, 12, 999_999, 1e6, 2.5e9, 999_999_999, 3.2e12)] == [
        "0", "12", "999,999", "1 M", "2.5 B", "1 B", "3.2 T",
    ]  # fmt: skip
    assert [duration(v) for v in (0.04, 9.96, 119, 600, 7200)] == [
        "0.0 s", "10 s", "119 s", "10.0 min", "2.0 h",
    ]  # fmt: skip
