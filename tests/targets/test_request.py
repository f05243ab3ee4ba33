"""A request and a task are plain values."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from bydore_pyro.targets.request import Request, Score, Task, bordered, requests_sha256


def test_a_task_scores_answers_by_default_and_cannot_be_changed() -> None:
    one = Request("What is it?", (" A glacier.", " A harbour."), (1,), "row 3")
    task = Task(name="quiz", requests=(one, Request("", ("alone",))))
    assert task.score in get_args(Score)
    assert task.score == "answer"
    assert task.requests[1].right == (0,)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.context = "other"  # type: ignore[misc]


def test_the_hash_is_of_contexts_answers_and_which_are_right() -> None:
    base = Request("a", (" b", " c"), (0,), place="row 3")
    one = requests_sha256([base])
    assert one == requests_sha256(iter([Request("a", (" b", " c"), (0,), place="row 9")]))
    others = [
        [Request("a ", (" b", " c"))],
        [Request("a", (" b", "c"))],
        [Request("a", (" b", " c"), (1,))],
        [Request("a", (" c", " b"))],
        [base, base],
        [],
    ]
    assert len({one, *map(requests_sha256, others)}) == 7


def test_white_space_before_the_border_belongs_to_the_answers() -> None:
    given = Request("Question: why?\nAnswer: ", ("so", " "), (0,), "row 2")
    assert bordered(given) == Request("Question: why?\nAnswer:", (" so", ""), (0,), "row 2")
    assert bordered(Request(" \n", ("so",))).answers == (" \nso",)
