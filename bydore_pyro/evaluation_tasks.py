"""Tasks of lm-eval, by name or from a folder of task files, with their data."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.errors import DataError
from bydore_pyro.evaluation_data import (
    BY_TASK,
    PILE13,
    local_data,
    missing_data,
    needed_splits,
    wanted_files,
)
from bydore_pyro.task_files import refuse_code, replaced

__all__ = ["EvaluationTask", "load_tasks"]


@dataclass(frozen=True, kw_only=True)
class EvaluationTask:
    """A task that is ready to be run.

    Args:
        label: Its name in the paper, or in lm-eval.
        task: lm-eval's object.
        metric: What is reported; None: what fits the task.
        num_fewshot: Numbers of examples before the question.
        source: The file that defines it; None where it is lm-eval's own.
        data: Folder or name of its data.
    """

    label: str
    task: Any
    metric: str | None
    num_fewshot: tuple[int, ...]
    source: str | None
    data: str


def load_tasks(
    names: Sequence[str],
    num_fewshot: Sequence[int] | None,
    include_path: Path | None,
    data_dir: Path | None,
    cache: Path,
    *,
    allow_code: bool = False,
) -> list[EvaluationTask]:
    """Loads tasks and their data.

    Args:
        names: Of lm-eval's tasks, groups and tags; `pile13` stands for the paper's 13.
        num_fewshot: Numbers of examples before the question; None: the benchmark's, or the task's.
        include_path: Folder of further task files.
        data_dir: Folder with a sub-folder of data for every task that has local data.
        cache: Folder to keep local data in while the tasks are used.
        allow_code: Whether the files of `include_path` may make lm-eval run code.

    Raises:
        DataError: When a task is unknown or cannot be loaded, a task file may run code, or data is
            missing or has not the task's columns. All missing files are named at once.
    """
    if include_path is not None and not allow_code:
        refuse_code(include_path)
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"Expected a folder of data, found {data_dir}")
    wanted = _expanded(names)
    manager = _task_manager(wanted, include_path)
    loaded: list[EvaluationTask] = []
    missing: list[str] = []
    reasons: list[str] = []
    with ExitStack() as offline:
        for name in wanted:
            config = manager.task_index[name].cfg or {}
            numbers = _numbers(name, config.get("num_fewshot"), num_fewshot)
            needed = needed_splits(config, numbers)
            folder = None if data_dir is None else data_dir / name
            folder = folder if folder is not None and folder.is_dir() else None
            overrides = local_data(name, config, needed, folder, cache) if folder else {}
            if overrides is None:
                missing.append(wanted_files(name, config, needed))
                reasons.append(f"{folder} lacks some")
                continue
            try:
                tasks = _load(manager, name, overrides)
            except Exception as error:
                missing.append(wanted_files(name, config, needed))
                reasons.append(_reason_of_absence(error, name, config, folder))
                if isinstance(error, ConnectionError):
                    _go_offline(offline)
                continue
            for task in tasks:  # a group's may stand beside it
                if task.task_name not in [other.task.task_name for other in loaded]:
                    loaded.append(_ready(task, manager, num_fewshot, folder))
    if missing:
        raise DataError(missing_data(missing, reasons[0], data_dir))
    return loaded


def _expanded(names: Sequence[str]) -> list[str]:
    """Returns lm-eval's names, each once."""
    single = [n for name in names for n in (BY_TASK if name == "pile13" else (name,))]
    return list(dict.fromkeys(PILE13[name].task if name in PILE13 else name for name in single))


def _task_manager(names: Sequence[str], include_path: Path | None) -> Any:
    """Returns lm-eval's index of tasks, which holds the names."""
    import lm_eval.tasks

    root = Path(lm_eval.tasks.__file__).parent
    further = [] if include_path is None else [include_path]
    folders = [root / PILE13[BY_TASK[name]].folder for name in names if name in BY_TASK]
    manager = lm_eval.tasks.TaskManager(include_defaults=False, include_path=[*folders, *further])
    if not set(names) <= set(manager.all_subtasks):
        # All of lm-eval's own: some 15,000 files.
        manager = lm_eval.tasks.TaskManager(include_path=further)
    unknown = []
    for name in names:
        if name not in manager.task_index:
            known = [*BY_TASK, "pile13", *manager.all_tasks]
            close = difflib.get_close_matches(name, known, n=3)
            meant = f" (did you mean {', '.join(close)}?)" if close else ""
            unknown.append(f"'{name}'{meant}")
    if unknown:
        raise DataError(
            f"Expected tasks of lm-eval or of --include_path, found {', '.join(unknown)}"
        )
    return manager


def _numbers(name: str, own: int | None, given: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the numbers of examples before the question."""
    if own == 0:  # a task that says so is never given examples: lm-eval's rule
        return (0,)
    if given is not None:
        return tuple(dict.fromkeys(given))
    return PILE13[BY_TASK[name]].num_fewshot if name in BY_TASK else (own or 0,)


def _load(manager: Any, name: str, overrides: Mapping[str, Any]) -> list[Any]:
    """Loads a task, or the tasks of a group or tag."""
    # A group's way to give a known task other data.
    spec = {"group": "local", "task": [{"task": name, **overrides}]} if overrides else name
    return list(manager.load([spec])["tasks"].values())


def _reason_of_absence(
    error: Exception, name: str, config: Mapping[str, Any], folder: Path | None
) -> str:
    """Returns why a data set is not on this machine, or raises what else went wrong."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    texts = ("find cache", "Dataset scripts are no longer supported")
    absent = isinstance(error, OSError) or any(text in str(error) for text in texts)
    of_files = config.get("dataset_path") in ("json", "csv", "parquet", "text", "arrow")
    if folder is not None or of_files or not absent:
        raise DataError(f"Expected a task that lm-eval can load, found {name}: {reason}") from error
    return reason


def _go_offline(stack: ExitStack) -> None:
    """Keeps the hub's clients from trying again, task after task; they still read their cache."""
    import datasets
    import huggingface_hub.constants

    for module in (datasets.config, huggingface_hub.constants):
        stack.enter_context(replaced(module, "HF_HUB_OFFLINE", True))


def _ready(
    task: Any, manager: Any, num_fewshot: Sequence[int] | None, local: Path | None
) -> EvaluationTask:
    import lm_eval.tasks

    name = task.task_name
    entry = manager.task_index.get(name)
    path = None if entry is None or entry.yaml_path is None else Path(entry.yaml_path).resolve()
    root = Path(lm_eval.tasks.__file__).resolve().parent
    own = path is None or path.is_relative_to(root)
    hub = [task.get_config("dataset_path"), task.get_config("dataset_name")]
    return EvaluationTask(
        label=BY_TASK.get(name, name),
        task=task,
        metric=PILE13[BY_TASK[name]].metric if name in BY_TASK else None,
        num_fewshot=_numbers(name, task.get_config("num_fewshot"), num_fewshot),
        source=None if own else str(path),
        data=str(local) if local is not None else " ".join(filter(None, hub)),
    )
