"""The paper's 13 benchmarks as tasks of lm-eval, and data for tasks from a folder.

A task's data is a data set of the Hugging Face hub's cache on this machine, or of the hub where the
user asks for it, unless a folder of local data has a sub-folder of the task's name with a file for
every split that is read. Prompts and metrics stay lm-eval's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bydore_pyro.evaluation.schema import COLUMNS, Values, check_rows
from bydore_pyro.utils import DataError

__all__ = [
    "BY_TASK",
    "PILE13",
    "Benchmark",
    "local_data",
    "missing_data",
    "needed_splits",
    "wanted_files",
]

RUNS = (0, 1, 2, 3, 4, 5)  # numbers of examples before the question, as in RegMix's script


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A benchmark of the paper as a task of lm-eval.

    Args:
        task: Its name in lm-eval.
        metric: `acc_norm`, accuracy by likelihood per character, where lm-eval has it, and `acc`
            where it has not: RegMix's rule.
        questions: How many lm-eval asks.
        folder: Where lm-eval defines it.
        num_fewshot: Numbers of examples before the question; the score is the mean over them.
    """

    task: str
    metric: str
    questions: int
    folder: str
    num_fewshot: tuple[int, ...] = RUNS

    @property
    def columns(self) -> Mapping[str, Values]:
        """What its data must have, by name."""
        return COLUMNS[self.task]


def _benchmark(task: str, metric: str, questions: int, folder: str) -> Benchmark:
    return Benchmark(task=task, metric=metric, questions=questions, folder=folder)


# By the paper's names, in the order of its appendix. The tasks and the numbers of examples are
# those of RegMix's evaluation/eval_lm_eval_harness.sh (github.com/sail-sg/regmix). The paper calls
# its scores zero-shot, but they are means over six runs: where questions are few enough to tell
# (COPA 100, OpenBookQA 500, LogiQA 651), every score that it prints is a whole number of sixths of
# a question, and few are whole numbers of questions.
PILE13: Mapping[str, Benchmark] = MappingProxyType(
    {
        "Social IQA": _benchmark("social_iqa", "acc", 1954, "siqa"),
        "HellaSwag": _benchmark("hellaswag", "acc_norm", 10042, "hellaswag"),
        "PIQA": _benchmark("piqa", "acc_norm", 1838, "piqa"),
        "OpenBookQA": _benchmark("openbookqa", "acc_norm", 500, "openbookqa"),
        "LAMBADA": _benchmark("lambada_standard", "acc", 5153, "lambada"),
        "SciQ": _benchmark("sciq", "acc_norm", 1000, "sciq"),
        "ARC-Easy": _benchmark("arc_easy", "acc_norm", 2376, "arc"),
        "COPA": _benchmark("copa", "acc", 100, "super_glue/copa"),
        "RACE": _benchmark("race", "acc", 1045, "race"),
        "LogiQA": _benchmark("logiqa", "acc_norm", 651, "logiqa"),
        "QQP": _benchmark("qqp", "acc", 40430, "glue/qqp"),
        "WinoGrande": _benchmark("winogrande", "acc", 1267, "winogrande"),
        # lm-eval 0.4.13 takes "no" for right where an answer is labelled correct, and the reverse.
        "MultiRC": _benchmark("multirc", "acc", 4848, "super_glue/multirc"),
    }
)
BY_TASK = MappingProxyType({benchmark.task: name for name, benchmark in PILE13.items()})


# Where lm-eval takes examples from: the first of these that a task has.
SPLIT_KEYS = ("fewshot_split", "training_split", "validation_split", "test_split")


def needed_splits(config: Mapping[str, Any], num_fewshot: Sequence[int]) -> list[str]:
    """Returns the splits that lm-eval reads: the one of the questions, and that of the examples.

    Args:
        config: lm-eval's definition of a task; that of a group has no splits.
        num_fewshot: Numbers of examples before the question.
    """
    questions = config.get("test_split") or config.get("validation_split")
    examples = next((config[key] for key in SPLIT_KEYS if config.get(key)), None)
    needed = [questions, examples if any(num_fewshot) else None]
    return list(dict.fromkeys(split for split in needed if split))


def local_data(
    name: str, config: Mapping[str, Any], needed: Sequence[str], folder: Path
) -> dict[str, Any] | None:
    """Reads a task's data from a folder, and checks what the paper's benchmarks must hold.

    Args:
        name: Of the task.
        config: lm-eval's definition of it.
        needed: The splits that are read.
        folder: Holds `SPLIT.jsonl` or `SPLIT.parquet` for each, or the hub's numbered parts of it.

    Returns:
        What to change in the definition so that lm-eval takes these data; None where a split is
        missing.

    Raises:
        DataError: When the task is a group, or a file is not what it must be.
    """
    from datasets import Dataset

    if not needed:
        raise DataError(f"Expected a single task for the data in {folder}, found a group, {name}")
    files = {split: _files_of(split, folder) for split in needed}
    if not all(files.values()):
        return None
    if len({path.suffix for paths in files.values() for path in paths}) > 1:
        raise DataError(f"Expected either .jsonl or .parquet files in {folder}, found both")
    columns = PILE13[BY_TASK[name]].columns if name in BY_TASK else {}
    splits = {}
    for split, paths in files.items():
        rows: list[Mapping[str, Any]] = []
        for path in paths:
            found = list(_rows(path))
            if not found:
                raise DataError(f"Expected questions in {path}, found none")
            check_rows(columns, found)
            rows += [row for _, row in found]
        every = dict.fromkeys(column for row in rows for column in row)
        try:
            splits[split] = Dataset.from_dict({c: [row.get(c) for row in rows] for c in every})
        except (ArithmeticError, TypeError, ValueError) as error:  # pyarrow's are ValueErrors
            reason = " ".join(str(error).split())[:200]
            raise DataError(
                f"Expected values of one type in each column of {paths[0]}, found others: {reason}"
            ) from None
    return {
        "custom_dataset": lambda **_: splits,
        "dataset_kwargs": None,
        # lm-eval opens the examples' split whether or not there are examples.
        **{key: None for key in SPLIT_KEYS if config.get(key) and config[key] not in splits},
    }


def _files_of(split: str, folder: Path) -> list[Path]:
    named = re.compile(rf"{re.escape(split)}(-\d+-of-\d+)?\.(jsonl|parquet)")
    return sorted(p for p in folder.iterdir() if named.fullmatch(p.name) and p.is_file())


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the rows of a file, each behind the words that say where it stands."""
    import pyarrow
    import pyarrow.parquet

    if path.suffix == ".parquet":
        try:
            rows = pyarrow.parquet.read_table(path).to_pylist()
        except (ValueError, pyarrow.ArrowException) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"Expected parquet in {path}, found none: {reason}") from None
        yield from ((f"{path}, row {i}", row) for i, row in enumerate(rows, 1))
        return
    with path.open("rb") as file:
        for i, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = " ".join(str(error).split())[:200]
                raise DataError(
                    f"Expected a JSON object in {path}, line {i}, found none: {reason}"
                ) from None
            if not isinstance(row, dict):
                kind = "a list" if isinstance(row, list) else json.dumps(row)[:50]
                raise DataError(f"Expected a JSON object in {path}, line {i}, found {kind}")
            yield f"{path}, line {i}", row


def wanted_files(
    name: str, config: Mapping[str, Any], needed: Sequence[str], data_dir: Path | None = None
) -> str:
    """Returns the files of a task's data, what they must hold and what lies there, as text."""
    text = " and ".join(f"{name}/{split}.jsonl" for split in needed) or name
    if name in BY_TASK:
        text += f" with the columns {', '.join(PILE13[BY_TASK[name]].columns)}"
    if data_dir is not None:
        folder = data_dir / name if (data_dir / name).is_dir() else data_dir
        lacking = [split for split in needed if not _files_of(split, folder)]
        lacks = f"no folder {name}" if folder == data_dir else f"lacks {' and '.join(lacking)}"
        there = sorted(path.name for path in folder.iterdir())
        more = " and more" if len(there) > 5 else ""
        text += f" ({lacks}; {folder} holds {', '.join(there[:5]) or 'nothing'}{more})"
    hub = " ".join(filter(None, [config.get("dataset_path"), config.get("dataset_name")]))
    return f"{text} (on the hub: {hub})" if hub else text


def missing_data(files: Sequence[str], reason: str, data_dir: Path | None) -> str:
    """Returns an error's text that says which data is missing and where to put it.

    Args:
        files: What `wanted_files` says of every task without data.
        reason: Why the first of them has none.
        data_dir: Folder of local data, where one was given.
    """
    place = "a folder and give it with --data_dir" if data_dir is None else f"{data_dir}"
    fewer = "; --num_fewshot 0 needs the first of two alone"
    return (
        f"Expected the data of all tasks, found none for {len(files)} ({reason}). Put these files, "
        f"as JSON lines or .parquet, into {place}, or fetch them by --hub, here or into the "
        "Hugging Face cache on a machine that reaches the hub"
        f"{fewer if any(' and ' in text for text in files) else ''}: {'; '.join(files)}"
    )
