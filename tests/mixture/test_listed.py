"""What a file lists: numbers, settings, totals and keys that are not there."""

from __future__ import annotations

import pytest

from bydore_pyro.mixture.listed import (
    COMMENT,
    NO_DOMAIN,
    Listed,
    is_number,
    item,
    keys_of,
    looks_like,
    mapping,
    number_of,
    paired,
    sequence,
    shown,
)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        ("60_000", 60000.0),
        (" 5e-06 ", 5e-6),
        ("60 %", 60.0),
        ("1.3T", 1.3e12),
        ("130 m", 1.3e8),
    ],
)
def test_numbers_as_people_write_them(value: object, number: float) -> None:
    assert is_number(value)
    assert number_of(value, "a") == pytest.approx(number)


@pytest.mark.parametrize("value", [True, None, "1,000", "6__0", "", "5 apples", [1], ".nan"])
def test_what_is_no_number(value: object) -> None:
    assert not is_number(value)
    with pytest.raises(ValueError, match="instead of a number as the weight of 'a'"):
        number_of(value, "a")


def test_numbers_that_cannot_be_weights() -> None:
    for value in (-1, "-0.5", float("inf"), 10**400):
        with pytest.raises(ValueError, match="as the weight of 'a'"):
            number_of(value, "a")


def test_names_that_are_called_as_no_domain_is() -> None:
    assert {*NO_DOMAIN} == {"a setting", "a total"}
    assert looks_like("a setting", "Max-Epochs")
    assert looks_like("a total", "Total")
    assert looks_like("a total", "Grand Total")
    assert not looks_like("a total", "totals")
    for name in ("_missing", "_missing_categories", "comment", "// the code", "Notes"):
        assert COMMENT.fullmatch(name)
    assert not COMMENT.fullmatch("code")


def test_parts_of_a_file_are_named_where_they_are_missing() -> None:
    assert item({"a": 1}, "a", "x") == 1
    assert keys_of({"a": 1, "b": 2}) == "'a', 'b'"
    assert paired(["a"], [1]) == {"a": 1}
    assert Listed({"a": 1}).unit == "tokens"
    for wrong, message in (
        (lambda: item({"b": 1}, "a", "x"), "no 'a' in x, but 'b'"),
        (lambda: mapping(3, "x"), "3 instead of a mapping under x"),
        (lambda: sequence({"a": "~"}, "a"), "nothing instead of a list under 'a'"),
        (lambda: paired(["a"], [1, 2]), "1 domains and 2 weights"),
        (lambda: paired([1], [1]), "1 instead of a name in quotes"),
        (lambda: paired(["a"], None), "nothing instead of a list of weights"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    assert shown("") == "nothing"
