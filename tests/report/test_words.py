"""Numbers and tables as a reader wants to see them."""

from __future__ import annotations

import math

import pytest

from bydore_pyro.answer.saved import Saved
from bydore_pyro.report.words import (
    ABSENT,
    Verdict,
    count,
    duration,
    judged,
    judged_better,
    number,
    percent,
    times_as_long,
)
from bydore_pyro.terminal import Table


def test_a_table_as_text() -> None:
    table = Table(header=("a", "bb"), rows=[("x\x1b", "1"), ("yy", "22")], caption="c")
    assert table.as_text() == "c\na      bb\nx\\x1b   1\nyy     22"
    assert Verdict("good", "Is it?", "Yes", "7").heading == "Is it? Yes."


@pytest.mark.parametrize("write", [number, percent, count, duration])
def test_what_is_no_number_is_a_dash(write: object) -> None:
    assert callable(write)
    for absent in (None, math.nan):
        assert write(absent) == ABSENT


def test_times_beyond_the_law_are_called_so() -> None:
    assert times_as_long(Saved(times=1.2, low=1.0, high=1.5)) == "1.20 times as long (1.00 to 1.50)"
    found = times_as_long(Saved(times=0.9999 / 4, low=0.25, high=3.9999), "{} {} {}")
    assert found == "0.25 less than 0.25 4.00"
    assert times_as_long(Saved(times=4.0, low=2.0, high=4.0), "{} {} {}") == (
        "more than 4 2.00 more than 4"
    )


def test_numbers() -> None:
    assert (number(0.12345), number(1.284e11, ".2e")) == ("0.123", "1.28e+11")
    assert [percent(v) for v in (0, 0.004, 0.0994, 0.0996, 0.94, 1.0)] == [
        "0 %",
        "0.4 %",
        "9.9 %",
        "10 %",
        "94 %",
        "100 %",
    ]
    assert [count(v) for v in (0, 12, 999_999, 1e6, 2.5e9, 999_999_999, 3.2e12)] == [
        "0",
        "12",
        "999,999",
        "1 M",
        "2.5 B",
        "1 B",
        "3.2 T",
    ]
    assert [duration(v) for v in (0.04, 9.96, 119, 600, 7200)] == [
        "0.0 s",
        "10 s",
        "119 s",
        "10.0 min",
        "2.0 h",
    ]


@pytest.mark.parametrize(
    ("value", "limits", "shown"),
    [
        (0.897, (0.9,), "89.7 %"),
        (0.9, (0.9,), "90 %"),
        (0.9004, (0.9,), "90.04 %"),
        (0.2996, (0.1, 0.3), "29.96 %"),
        (0.0496, (0.05,), "4.96 %"),
        (math.nan, (0.9,), ABSENT),
    ],
)
def test_a_share_stays_on_its_side_of_a_limit(
    value: float, limits: tuple[float, ...], shown: str
) -> None:
    assert percent(value, *limits) == shown
    assert judged_better(0.897)[2].startswith("with probability 89.7 % (decided from 90 % or up")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0797, "0.0797"), (0.08, "0.080"), (0.0803, "0.0803")],
)
def test_a_number_stays_on_its_side_of_a_limit(value: float, shown: str) -> None:
    assert judged(value, 3, 0.08, 0.15) == shown
    assert judged(math.nan, 3, 0.08) == judged(None, 3, 0.08) == ABSENT
    assert judged(math.inf, 3, 0.08) == "infinite"
