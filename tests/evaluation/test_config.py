"""Options of an evaluation that cannot be meant are refused."""

from __future__ import annotations

import pytest

from bydore_pyro.evaluation.config import EvaluationConfig


def test_options_are_checked() -> None:
    for wrong, message in (
        ({"tasks": []}, "names of tasks, found none"),
        ({"tasks": [""]}, "names of tasks, found none"),
        ({"num_fewshot": []}, "a number for --num_fewshot, found none"),
        ({"allow_task_code": True}, "--include_path with --allow_task_code"),
    ):
        with pytest.raises(ValueError, match=message):
            EvaluationConfig(**wrong)
