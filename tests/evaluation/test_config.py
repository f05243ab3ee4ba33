"""Options of an evaluation that cannot be meant are refused."""

from __future__ import annotations

import pytest

from bydore_pyro.evaluation.config import EvaluationConfig


def test_options_are_checked() -> None:
    for wrong, message in (
        ({"tasks": []}, "names of tasks, found none"),
        ({"tasks": [""]}, "names of tasks, found none"),
        ({"num_fewshot": []}, r"num_fewshot in \[0, 1000\], actual \[\]"),
        ({"num_fewshot": [0, -1]}, r"num_fewshot in \[0, 1000\], actual \[0, -1\]"),
        ({"limit": 0}, "limit >= 1, actual 0"),
        ({"cases": [1, 3]}, r"cases 1 or 2, actual \[1, 3\]"),
        ({"batch_size": 0}, "batch_size >= 1, actual 0"),
        ({"seed": -1}, r"seed in \[0, 2\*\*31\), actual -1"),
        ({"data_dir": ""}, "a value for --data_dir"),
        ({"allow_task_code": True}, "--include_path with --allow_task_code"),
    ):
        with pytest.raises(ValueError, match=message):
            EvaluationConfig(**wrong)
