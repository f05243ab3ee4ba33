"""Data of tasks from a folder: a sub-folder by task with a file for every split that is read.

Prompts and metrics stay lm-eval's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bydore_pyro.evaluation.benchmarks import BY_TASK, PILE13, check_rows
from bydore_pyro.utils import DataError

__all__ = ["local_data", "missing_data", "needed_splits"]

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
) -> dict[str, Any]:
    """Reads a task's data from a folder, and checks what the paper's benchmarks must hold.

    Args:
        name: Of the task.
        config: lm-eval's definition of it.
        needed: The splits that are read.
        folder: Holds `SPLIT.jsonl` or `SPLIT.parquet` for each, or the hub's numbered parts of it.

    Returns:
        What to change in the definition so that lm-eval takes these data.

    Raises:
        DataError: When the task is a group, or a file is not what it must be.
        FileNotFoundError: When a split is missing.
    """
    from datasets import Dataset

    if not needed:
        raise DataError(f"Expected a single task for the data in {folder}, found the group {name}")
    splits = {}
    for split in needed:
        rows = [row for path in _files_of(split, folder) for row in _rows(path)]
        if name in BY_TASK:
            check_rows(PILE13[BY_TASK[name]].columns, rows)
        every = dict.fromkeys(column for _, row in rows for column in row)
        try:
            splits[split] = Dataset.from_dict({c: [row.get(c) for _, row in rows] for c in every})
        except (ArithmeticError, TypeError, ValueError) as error:  # pyarrow's are ValueErrors
            reason = " ".join(str(error).split())[:200]
            raise DataError(
                f"Expected values of one type in each column of {folder}, {split}, found others: "
                f"{reason}"
            ) from None
    return {
        "custom_dataset": lambda **_: splits,
        "dataset_kwargs": None,
        # lm-eval opens the examples' split whether or not there are examples.
        **{key: None for key in SPLIT_KEYS if config.get(key) and config[key] not in splits},
    }


def _files_of(split: str, folder: Path) -> list[Path]:
    """Returns the files of a split, whole or in parts.

    Raises:
        DataError: When they are of both kinds.
        FileNotFoundError: When there are none.
    """
    named = re.compile(rf"{re.escape(split)}(-\d+-of-\d+)?\.(jsonl|parquet)")
    files = sorted(p for p in folder.iterdir() if named.fullmatch(p.name) and p.is_file())
    if not files:
        raise FileNotFoundError(f"{folder} lacks {split}")
    if len({path.suffix for path in files}) > 1:
        raise DataError(f"Expected {split} as .jsonl or as .parquet in {folder}, found both")
    return files


def _rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Returns the rows of a file, at least one, each behind the words that say where it stands."""
    import pyarrow.parquet

    if path.suffix == ".parquet":
        try:
            table = pyarrow.parquet.read_table(path).to_pylist()
        except (ValueError, pyarrow.ArrowException) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"Expected parquet in {path}, found none: {reason}") from None
        rows = [(f"{path}, row {i}", row) for i, row in enumerate(table, 1)]
    else:
        lines = enumerate(path.read_bytes().split(b"\n"), 1)
        named = ((f"{path}, line {i}", line) for i, line in lines if line.strip())
        rows = [(place, _object(line, place)) for place, line in named]
    if not rows:
        raise DataError(f"Expected questions in {path}, found none")
    return rows


def _object(line: bytes, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"Expected a JSON object in {place}, found none: {error!s:.200}") from None
    if not isinstance(row, dict):
        raise DataError(f"Expected a JSON object in {place}, found a {type(row).__name__}")
    return row


def missing_data(name: str, config: Mapping[str, Any], needed: Sequence[str], place: Path) -> str:
    """Returns the files of a task's data, what they must hold and what lies there, as text."""
    text = " and ".join(f"{name}/{split}.jsonl" for split in needed) or name
    if name in BY_TASK:
        text += f" with the columns {', '.join(PILE13[BY_TASK[name]].columns)}"
    folder = place / name if (place / name).is_dir() else place
    if folder.is_dir():
        there = sorted(path.name for path in folder.iterdir())
        more = " and more" if len(there) > 5 else ""
        text += f" ({folder} holds {', '.join(there[:5]) or 'nothing'}{more})"
    hub = " ".join(filter(None, [config.get("dataset_path"), config.get("dataset_name")]))
    return f"{text} (on the hub: {hub})" if hub else text
