"""A request and a task are plain values."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from bydore_pyro.targets.request import Request, Score, Task


def test_a_task_scores_answers_by_default_and_cannot_be_changed() -> None:
    one = Request("What is it?", (" A glacier.", " A harbour."), (1,), "row 3")
    task = Task(name="quiz", requests=(one, Request("", ("alone",))))
    assert task.score in get_args(Score)
    assert task.score == "answer"
    assert task.requests[1].right == (0,)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.context = "other"  # type: ignore[misc]
