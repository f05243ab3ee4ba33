"""The paper's 13 benchmarks as tasks of lm-eval, and data for tasks from a folder.

A task's data is a data set of the Hugging Face hub, or of its cache on this machine, unless a
folder of local data has a sub-folder of the task's name with a file for every split that is read.
Prompts and metrics stay lm-eval's own.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bydore_pyro.errors import DataError

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
        columns: What its data must have, by name.
        num_fewshot: Numbers of examples before the question; the score is the mean over them.
    """

    task: str
    metric: str
    questions: int
    folder: str
    columns: tuple[str, ...]
    num_fewshot: tuple[int, ...] = RUNS


def _benchmark(task: str, metric: str, questions: int, folder: str, columns: str) -> Benchmark:
    return Benchmark(
        task=task,
        metric=metric,
        questions=questions,
        folder=folder,
        columns=tuple(columns.split()),
    )


# By the paper's names, in the order of its appendix. The tasks and the numbers of examples are
# those of RegMix's evaluation/eval_lm_eval_harness.sh (github.com/sail-sg/regmix). The paper calls
# its scores zero-shot, but they are means over six runs: where questions are few enough to tell
# (COPA 100, OpenBookQA 500, LogiQA 651), every score that it prints is a whole number of sixths of
# a question, and few are whole numbers of questions.
PILE13: Mapping[str, Benchmark] = MappingProxyType(
    {
        "Social IQA": _benchmark(
            "social_iqa", "acc", 1954, "siqa", "context question answerA answerB answerC label"
        ),
        "HellaSwag": _benchmark(
            "hellaswag", "acc_norm", 10042, "hellaswag", "activity_label ctx_a ctx_b endings label"
        ),
        "PIQA": _benchmark("piqa", "acc_norm", 1838, "piqa", "goal sol1 sol2 label"),
        "OpenBookQA": _benchmark(
            "openbookqa", "acc_norm", 500, "openbookqa", "question_stem choices answerKey"
        ),
        "LAMBADA": _benchmark("lambada_standard", "acc", 5153, "lambada", "text"),
        "SciQ": _benchmark(
            "sciq",
            "acc_norm",
            1000,
            "sciq",
            "support question distractor1 distractor2 distractor3 correct_answer",
        ),
        "ARC-Easy": _benchmark("arc_easy", "acc_norm", 2376, "arc", "question choices answerKey"),
        "COPA": _benchmark(
            "copa", "acc", 100, "super_glue/copa", "premise question choice1 choice2 label"
        ),
        "RACE": _benchmark("race", "acc", 1045, "race", "article problems"),
        "LogiQA": _benchmark("logiqa", "acc_norm", 651, "logiqa", "context question options label"),
        "QQP": _benchmark("qqp", "acc", 40430, "glue/qqp", "question1 question2 label"),
        "WinoGrande": _benchmark(
            "winogrande", "acc", 1267, "winogrande", "sentence option1 option2 answer"
        ),
        # lm-eval 0.4.13 takes "no" for right where an answer is labelled correct, and the reverse.
        "MultiRC": _benchmark(
            "multirc", "acc", 4848, "super_glue/multirc", "paragraph question answer label"
        ),
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
    name: str, config: Mapping[str, Any], needed: Sequence[str], folder: Path, cache: Path
) -> dict[str, Any] | None:
    """Finds a task's data in a folder.

    Args:
        name: Of the task.
        config: lm-eval's definition of it.
        needed: The splits that are read.
        folder: Holds `SPLIT.jsonl` or `SPLIT.parquet` for each, or the hub's numbered parts of it.
        cache: Folder to keep the data in while it is used.

    Returns:
        What to change in the definition so that lm-eval reads the folder; None where a split is
        missing.

    Raises:
        DataError: When the task is a group, or a file is not what it must be.
    """
    if not needed:
        raise DataError(f"Expected a single task for the data in {folder}, found a group, {name}")
    columns = PILE13[BY_TASK[name]].columns if name in BY_TASK else ()
    files: dict[str, list[Path]] = {}
    for split in needed:
        named = re.compile(rf"{re.escape(split)}(-\d+-of-\d+)?\.(jsonl|parquet)")
        files[split] = sorted(path for path in folder.iterdir() if named.fullmatch(path.name))
        if not files[split]:
            return None
        for path in files[split]:
            _check_columns(path, columns)
    kinds = {path.suffix for paths in files.values() for path in paths}
    if len(kinds) > 1:
        raise DataError(f"Expected either .jsonl or .parquet files in {folder}, found both")
    return {
        "dataset_path": "json" if kinds == {".jsonl"} else "parquet",
        "dataset_name": None,
        "dataset_kwargs": {
            "data_files": {
                # The package datasets takes names for patterns.
                split: [glob.escape(str(path.absolute())) for path in paths]
                for split, paths in files.items()
            },
            "cache_dir": str(cache),
        },
        # lm-eval opens the examples' split whether or not there are examples.
        **{key: None for key in SPLIT_KEYS if config.get(key) and config[key] not in files},
    }


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    """Checks that a file is of its kind, holds something and has the columns."""
    import pyarrow
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            metadata = pyarrow.parquet.read_metadata(path)
            found = metadata.schema.to_arrow_schema().names if metadata.num_rows else None
        else:
            with path.open(encoding="utf-8") as file:
                first = next((line for line in file if line.strip()), None)
            found = None if first is None else list(json.loads(first))
    except (ValueError, TypeError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"Expected {path.suffix[1:]} in {path}, found none: {reason}") from None
    if found is None:
        raise DataError(f"Expected questions in {path}, found none")
    if not set(columns) <= set(found):
        raise DataError(
            f"Expected the columns {', '.join(columns)} in {path}, "
            f"found {', '.join(map(str, found))}"
        )


def wanted_files(name: str, config: Mapping[str, Any], needed: Sequence[str]) -> str:
    """Returns the files of a task's data, and what they must hold, as text."""
    text = " and ".join(f"{name}/{split}.jsonl" for split in needed) or name
    if name in BY_TASK:
        text += f" with the columns {', '.join(PILE13[BY_TASK[name]].columns)}"
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
        f"as JSON lines or .parquet, into {place}, or fill the Hugging Face cache on a machine "
        f"that reaches the hub{fewer if any(' and ' in text for text in files) else ''}: "
        f"{'; '.join(files)}"
    )
