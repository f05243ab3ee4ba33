"""Labels: every reading that fits a whole file, and refusal where two do."""

from __future__ import annotations

from typing import Any

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.targets.labels import First, Question, is_hidden, means_a_choice, right_answers


def question(label: Any, choices: tuple[Any, ...] = ("x", "y", "z"), marks: str = "") -> Question:
    offered = tuple(("", str(one)) for one in choices)
    return Question(offered, label=label, choices=choices, marks=tuple(marks))


def read(*given: Question, first: First | None = None) -> tuple[list[tuple[int, ...]], str]:
    return right_answers([(f"line {n}", one) for n, one in enumerate(given, 1)], first)


@pytest.mark.parametrize(
    ("labels", "right", "how"),
    [
        (["A", "c", "(B)"], [0, 2, 1], "a letter"),
        (["x", " z", "y"], [0, 2, 1], "a choice's text"),
        ([0, 2, "1"], [0, 2, 1], "a number from 0"),
        ([1, "3.0", 2], [0, 2, 1], "a number from 1"),
        ([True, False, True], [1, 0, 1], "a number from 0"),
    ],
)
def test_a_label_is_read_as_the_whole_file_allows(
    labels: list[Any], right: list[int], how: str
) -> None:
    assert read(*map(question, labels)) == ([(one,) for one in right], how)


def test_the_marks_of_choices_come_before_numbers() -> None:
    """Of ARC some questions have choices 1 to 4, others A to D."""
    given = question("1", marks="123"), question("B", marks="ABC"), question("3", marks="123")
    assert read(*given) == ([(0,), (1,), (2,)], "a choice's own label")


def test_several_right_answers() -> None:
    assert read(question([0, 2]), question([1]))[0] == [(0, 2), (1,)]
    assert read(question(["A", "A", "B"]))[0] == [(0, 1)]


@pytest.mark.parametrize("label", [[0, 0, 1], [1, 0, 1], ["0", "1", "0"], [False, True, False]])
def test_a_list_of_what_is_right_of_each_choice_is_no_list_of_numbers(label: list[Any]) -> None:
    with pytest.raises(DataError, match="Expected a label that means one of 3 choices"):
        read(question(label))


def test_numbers_of_two_readings_are_refused_unless_it_is_known() -> None:
    with pytest.raises(DataError, match=r"found 1, which is a number from 0 or a number from 1 \("):
        read(question(1), question(2))
    assert read(question(1), question(2), first=0)[0] == [(1,), (2,)]
    assert read(question(1), question(2), first=1)[0] == [(0,), (1,)]


def test_a_text_that_is_a_number_too_is_refused() -> None:
    numbers = ("2", "1", "0")
    with pytest.raises(DataError, match="found '2', which is a choice's text or a number from 0"):
        read(question("2", numbers), question("0", numbers))
    assert read(question(2, numbers), question(0, numbers))[0] == [(2,), (0,)]  # no text is meant
    assert read(question(5, (4, 5, 6)))[0] == [(1,)]


def test_a_label_that_means_no_choice_is_named() -> None:
    for label in ("D", 7, "w", {"a": 1}, [0, 9]):
        with pytest.raises(DataError, match=r"means one of 3 choices .* found .*, line 2"):
            read(question("x"), question(label))
        assert not means_a_choice(question(label))
    assert all(map(means_a_choice, map(question, ("x", "b", 0, 3))))


def test_labels_of_hidden_answers() -> None:
    assert all(map(is_hidden, (None, "", " ", -1, "-1", "?", [])))
    assert not any(map(is_hidden, (0, "0", "A", False, [1], {"a": 1})))
