"""The paper's 13 benchmarks as tasks of lm-eval, and what it would misread in their data.

The tasks and the numbers of examples (0 to 5) are those of RegMix's
evaluation/eval_lm_eval_harness.sh (github.com/sail-sg/regmix). The paper calls its scores
zero-shot, but they are means over six runs: where questions are few enough to tell (COPA 100,
OpenBookQA 500, LogiQA 651), every score that it prints is a whole number of sixths of a question,
and few are whole numbers of questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from bydore_pyro.utils import DataError, one_line

__all__ = ["BY_TASK", "NUM_FEWSHOT", "PILE13", "Benchmark", "check_rows"]

NUM_FEWSHOT = (0, 1, 2, 3, 4, 5)  # numbers of examples before the question, as in RegMix's script


class Benchmark(NamedTuple):
    """A benchmark of the paper: its task in lm-eval, and the task's folder there."""

    task: str
    folder: str


# By the paper's names, in the order of its appendix. lm-eval 0.4.13 takes MultiRC's "no" for right
# where an answer is labelled correct, and the reverse.
PILE13: Mapping[str, Benchmark] = MappingProxyType(
    {
        "Social IQA": Benchmark("social_iqa", "siqa"),
        "HellaSwag": Benchmark("hellaswag", "hellaswag"),
        "PIQA": Benchmark("piqa", "piqa"),
        "OpenBookQA": Benchmark("openbookqa", "openbookqa"),
        "LAMBADA": Benchmark("lambada_standard", "lambada"),
        "SciQ": Benchmark("sciq", "sciq"),
        "ARC-Easy": Benchmark("arc_easy", "arc"),
        "COPA": Benchmark("copa", "super_glue/copa"),
        "RACE": Benchmark("race", "race"),
        "LogiQA": Benchmark("logiqa", "logiqa"),
        "QQP": Benchmark("qqp", "glue/qqp"),
        "WinoGrande": Benchmark("winogrande", "winogrande"),
        "MultiRC": Benchmark("multirc", "super_glue/multirc"),
    }
)
BY_TASK = MappingProxyType({benchmark.task: name for name, benchmark in PILE13.items()})

# What lm-eval would take for another value in silence, or stop at without naming the row: to it,
# COPA's labels "0" and -1 both mean the second choice. As patterns of the column's JSON.
MISREAD = {
    "copa": ("label", "0|1"),
    "hellaswag": ("label", '"?[0-3]"?'),
    "lambada_standard": ("text", '".* [^ ]+"'),
}


def check_rows(task: str, place: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Checks the rows of a task's data, where it is one of the paper's benchmarks.

    Args:
        task: Its name in lm-eval.
        place: Where the rows stand, in words.
        rows: All of them.

    Raises:
        DataError: When a value is null, which lm-eval reads as the text None, or is misread.
    """
    for i, row in enumerate(rows if task in BY_TASK else (), 1):
        for column, value in row.items():
            expected = MISREAD[task][1] if task in MISREAD and MISREAD[task][0] == column else ""
            text = json.dumps(value, default=repr)
            if value is None or (expected and not re.fullmatch(expected, text)):
                raise DataError(
                    f"Expected {column} = {expected or 'a value'} (JSON) in {place}, row {i}, "
                    f"found {one_line(text, 100)}"
                )
