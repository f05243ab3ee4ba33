"""The paper's 13 benchmarks as tasks of lm-eval, and what their data hold.

lm-eval trusts its data. COPA's labels "0" and -1 both mean the second choice to it, and a label
that is no choice counts as a wrong answer: a file with other labels gets another score in silence.
So every value is checked before anything is scored: its type and form here, by a pattern of the
value as JSON (where 0, "0", 0.0, true and null differ), and by `tasks` whether the answer is among
the choices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bydore_pyro.utils import DataError

__all__ = ["BY_TASK", "PILE13", "VALUES", "Benchmark", "check_rows"]

RUNS = (0, 1, 2, 3, 4, 5)  # numbers of examples before the question, as in RegMix's script

TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*"'  # as JSON writes it
TEXTS = rf"\[{TEXT}(?:, {TEXT})+\]"
# What a column may hold, in words and as a pattern of its JSON. Where lm-eval reads text and number
# alike, both are taken.
VALUES: Mapping[str, str] = MappingProxyType(
    {
        "text": TEXT,
        "text, not empty": rf'(?!""){TEXT}',
        "text with a `_`": rf"(?=.*_){TEXT}",
        "text whose last word, behind a space, is the answer": r'".* [^ ]+"',
        "a list of texts": TEXTS,
        "a list of two to four texts": rf"\[{TEXT}(?:, {TEXT}){{1,3}}\]",
        "`text` and `label`, lists of as many texts": rf'{{"label": {TEXTS}, "text": {TEXTS}}}',
        "one of `choices.label`": TEXT,
        "the text of a list of `question`, `answer` (A to D) and four `options`; the last is "
        "asked": TEXT,
        "0 or 1": "[01]",
        '"1" or "2"': '"[12]"',
        '"1", "2", "3", 1, 2 or 3': '[123]|"[123]"',
        '"cause" or "effect"': '"(cause|effect)"',
        '"a" to "d", the right one of `options`': r'"\s*[abcd]\s*"',
        'the place of the right one in `endings`, from "0" or 0': r'\d|"\d"',
    }
)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark of the paper as a task of lm-eval.

    Args:
        task: Its name in lm-eval.
        metric: `acc_norm`, accuracy by likelihood per character, where lm-eval has it, and `acc`
            where it has not: RegMix's rule.
        questions: How many lm-eval asks.
        folder: Where lm-eval defines it.
        holds: What its data must have: names of columns, and which of `VALUES` these hold.
        num_fewshot: Numbers of examples before the question; the score is the mean over them.
    """

    task: str
    metric: str
    questions: int
    folder: str
    holds: Mapping[str, str]
    num_fewshot: tuple[int, ...] = RUNS

    @cached_property
    def columns(self) -> dict[str, str]:
        """What each column holds, by name."""
        return {name: held for names, held in self.holds.items() for name in names.split()}


def _read() -> dict[str, Benchmark]:
    import yaml

    text = (Path(__file__).parent / "benchmarks.yaml").read_text("utf-8")
    return {name: Benchmark(**entry) for name, entry in yaml.safe_load(text).items()}


# By the paper's names, in the order of its appendix.
PILE13: Mapping[str, Benchmark] = MappingProxyType(_read())
BY_TASK = MappingProxyType({benchmark.task: name for name, benchmark in PILE13.items()})


def check_rows(columns: Mapping[str, str], rows: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Checks the values of rows.

    Args:
        columns: What they must have, and which of `VALUES` these hold; further columns may hold
            anything.
        rows: Each behind the words that say where it stands.

    Raises:
        DataError: When a row lacks a column, or a value is none of the column's.
    """
    patterns = {name: re.compile(VALUES[held]) for name, held in columns.items()}
    for place, row in rows:
        if not row.keys() >= columns.keys():
            raise DataError(
                f"Expected the columns {', '.join(columns)} in {place}, "
                f"found {', '.join(map(str, row))}"
            )
        for name, pattern in patterns.items():
            # What JSON has no word for is no value.
            value = json.dumps(row[name], sort_keys=True, default=lambda value: None)
            if not pattern.fullmatch(value):
                found = " ".join(repr(row[name]).split())[:100]
                raise DataError(f"Expected {name} = {columns[name]} in {place}, found {found}")
