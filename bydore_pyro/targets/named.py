"""The tasks that an entry of options names."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Literal

from bydore_pyro import data
from bydore_pyro.errors import DataError
from bydore_pyro.targets.entry import Entry
from bydore_pyro.targets.lm_eval_tasks import tasks_of
from bydore_pyro.targets.request import Task
from bydore_pyro.targets.rows import read_task

# The help of options.
DATA_DIR = "Folder with TASK/SPLIT.jsonl or .parquet, the data of task:NAME."
HUB = "Fetch from the hub the data of task:NAME that --data_dir lacks."
MOST = 1000  # questions of a task of lm-eval, whose training splits may have 100,000


def tasks_named(
    entry: Entry,
    *,
    text_column: str | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    data_dir: str | None = None,
    hub: bool = False,
) -> dict[str, Task]:
    """Returns the task that a file holds, or those of a task or a group of lm-eval, by name; none
    of a file of plain text, and of a domain. Of a task of lm-eval at most 1,000 questions are
    taken, spread over its split.

    Args:
        entry: What is named.
        text_column: Of files that name no column: those that have it are plain text.
        on_error: See `read_task`.
        data_dir: See `tasks_of`.
        hub: See `tasks_of`.

    Raises:
        DataError: See `read_task` and `tasks_of`.
    """
    if entry.task is not None:
        shots, score = entry.shots or 0, entry.score
        found = tasks_of(
            entry.task, shots=shots, score=score, data_dir=data_dir, hub=hub, most=MOST
        )
    elif entry.file is not None and data.is_row_file(Path(entry.file)):
        path, name, columns = Path(entry.file), entry.name, entry.columns
        if text_column is not None and not columns.named and _has(path, text_column):
            columns = dataclasses.replace(columns, text=text_column)
        task = read_task(path, columns, name=name, score=entry.score, on_error=on_error)
        found = [] if task is None else [task]
    else:
        return {}
    if len(found) == 1:
        return {entry.name: dataclasses.replace(found[0], name=entry.name)}
    named = [dataclasses.replace(one, name=f"{entry.name}/{one.name}") for one in found]
    return {one.name: one for one in named}


def _has(path: Path, column: str) -> bool:
    """Whether the first row of a file has a column; a dot selects a nested one."""
    for _, row in data.read_columns(path, "skip"):
        if row is not None:
            with suppress(DataError):
                data.column_of(row, column, "text_column")
                return True
            return False
    return False
