"""Tasks of lm-eval, by name or from a folder of task files, with their data, all of it checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.evaluation.benchmarks import BY_TASK, NUM_FEWSHOT, PILE13, check_rows
from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.utils import DataError, one_line

__all__ = ["EvaluationTask", "load_tasks", "needed_splits", "read_file"]

# Where lm-eval takes examples from: the first of these that a task has.
SPLIT_KEYS = ("fewshot_split", "training_split", "validation_split", "test_split")


@dataclass(frozen=True, kw_only=True)
class EvaluationTask:
    """A task that is ready to be run.

    Args:
        label: Its name in the paper, or in lm-eval.
        task: lm-eval's object.
        num_fewshot: Numbers of examples before the question.
        data: Folder or name of its data.
        data_sha256: Hash of the rows of the splits that are read, whatever files they came from.
    """

    label: str
    task: Any
    num_fewshot: tuple[int, ...]
    data: str
    data_sha256: str


def load_tasks(config: EvaluationConfig) -> list[EvaluationTask]:
    """Loads tasks and their data, and checks that all of it can be asked.

    Whether a hub is asked, and code is run, is up to `surroundings.guarded`.

    Raises:
        DataError: When a task is unknown, a task or its data cannot be loaded, or data is not what
            the task needs. All that cannot be loaded is named at once.
    """
    for given in filter(None, (config.data_dir, config.include_path)):
        if not Path(given).is_dir():
            raise DataError(f"Expected a folder, found {given}")
    named = [n for name in config.tasks for n in (PILE13 if name == "pile13" else (name,))]
    names = list(dict.fromkeys(PILE13[n].task if n in PILE13 else n for n in named))
    manager = _task_manager(names, config.include_path)
    ready: dict[str, EvaluationTask] = {}
    failed = []
    for name in names:
        definition = manager.task_index[name].cfg or {}
        needed = needed_splits(definition, _numbers(name, definition.get("num_fewshot"), config))
        folder = Path(config.data_dir or "DATA_DIR") / name
        local = folder if needed and folder.is_dir() else None
        try:
            task = _with_files(name, definition, needed, local) if local else name
            loaded = manager.load([task])["tasks"]
        except DataError:
            raise
        except Exception as error:  # of lm-eval, of datasets, of a task's own code
            # What datasets says of a file that it cannot read stands in the cause.
            reason = one_line(f"{type(error).__name__}: {error} {error.__cause__ or ''}")
            files = " and ".join(f"{name}/{split}.jsonl" for split in needed)
            failed.append(f"{name} ({reason}; {files} of {definition.get('dataset_path')})")
            continue
        for each in loaded.values():  # a group's may stand beside it
            ready.setdefault(each.task_name, _ready(each, config, local))
    if failed:
        raise DataError(
            f"Expected tasks and data that lm-eval can load, found {'; '.join(failed)}: put the "
            "files, with the hub's columns, as JSON lines or .parquet into a folder and name it by "
            "--data_dir, or fetch them by --hub"
        )
    return list(ready.values())


def _task_manager(names: Sequence[str], include_path: str | None) -> Any:
    """Returns lm-eval's index of tasks, which holds the names; the paper's are always its own."""
    from lm_eval import tasks

    root = Path(tasks.__file__).parent
    further = [] if include_path is None else [include_path]
    folders = [root / PILE13[BY_TASK[name]].folder for name in names if name in BY_TASK]
    manager = tasks.TaskManager(include_defaults=False, include_path=[*further, *folders])
    if not set(names) <= set(manager.all_subtasks):
        # All of lm-eval's own: some 15,000 files.
        manager = tasks.TaskManager(include_path=[*further, *folders])
    # A path is no name: it would go round the check of the folder.
    unknown = [name for name in names if name not in manager.task_index]
    if unknown:
        raise DataError(
            f"Expected tasks of lm-eval or of --include_path, found {', '.join(unknown)}"
        )
    return manager


def _numbers(name: str, own: int | None, config: EvaluationConfig) -> tuple[int, ...]:
    """Returns the numbers of examples before the question."""
    if own == 0:  # a task that says so is never given examples: lm-eval's rule
        return (0,)
    if config.num_fewshot is not None:
        return tuple(dict.fromkeys(config.num_fewshot))
    return NUM_FEWSHOT if name in BY_TASK else (own or 0,)


def needed_splits(config: Mapping[str, Any], num_fewshot: Sequence[int]) -> list[str]:
    """Returns the splits that are read: the one of the questions, and that of the examples.

    Args:
        config: lm-eval's definition of a task; that of a group has no splits.
        num_fewshot: Numbers of examples before the question; without any no examples are read.
    """
    questions = config.get("test_split") or config.get("validation_split")
    examples = next((config[key] for key in SPLIT_KEYS if config.get(key)), None)
    needed = [questions, examples if any(num_fewshot) else None]
    return list(dict.fromkeys(split for split in needed if split))


def _with_files(
    name: str, definition: Mapping[str, Any], needed: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Returns a known task with its data from a folder, as lm-eval is told of one."""
    splits = {split: read_file(_file_of(folder, split)) for split in needed}
    for split in needed:
        check_rows(name, str(_file_of(folder, split)), splits[split])
    # lm-eval opens the examples' split whether or not there are examples.
    opened = [definition[key] for key in SPLIT_KEYS if definition.get(key)]
    splits = dict.fromkeys(opened, splits[needed[0]]) | splits
    changed = {"task": name, "custom_dataset": lambda **_: splits, "dataset_kwargs": None}
    return {"group": "local", "task": [changed]}


def _file_of(folder: Path, split: str) -> Path:
    parquet = folder / f"{split}.parquet"
    return parquet if parquet.is_file() else folder / f"{split}.jsonl"


def read_file(path: Path) -> Any:
    """Reads a file of JSON lines or parquet as a data set of the package datasets.

    Raises:
        DataError: When it holds no rows or cannot be read; names the line of JSON.
        FileNotFoundError: When there is none.
    """
    import pyarrow.parquet
    from datasets import Dataset

    place, rows = str(path), []
    try:
        if path.suffix == ".parquet":
            rows = pyarrow.parquet.read_table(path).to_pylist()
        else:
            lines = enumerate(path.read_bytes().splitlines(), 1)
            for i, line in ((i, line) for i, line in lines if line.strip()):
                place = f"{path}, line {i}"
                rows.append(dict(json.loads(line)))
                pyarrow.Table.from_pylist([rows[0], rows[-1]])  # raises where types differ
        place = str(path)
        found = Dataset.from_list(rows)
    except (
        ArithmeticError,
        RecursionError,
        TypeError,
        ValueError,
        pyarrow.ArrowException,
    ) as error:
        raise DataError(
            f"Expected rows of JSON or parquet, of one type a column, in {place}, "
            f"found {type(error).__name__}: {one_line(error)}"
        ) from None
    if not rows:
        raise DataError(f"Expected rows in {path}, found none")
    return found


def _ready(task: Any, config: EvaluationConfig, local: Path | None) -> EvaluationTask:
    """Checks a loaded task's data, and says what is to be known of it."""
    name = task.task_name
    named = [task.get_config("dataset_path"), task.get_config("dataset_name")]
    files = (task.get_config("dataset_kwargs") or {}).get("data_files")
    data = str(local or files or " ".join(filter(None, named)))
    asked = task.get_config("generation_kwargs") or {}
    if "custom_generate" in asked and not config.allow_task_code:
        raise DataError(f"Expected task files without code, found custom_generate in {name}")
    numbers = _numbers(name, task.get_config("num_fewshot"), config)
    needed = needed_splits({key: task.get_config(key) for key in SPLIT_KEYS}, numbers)
    found, dataset = hashlib.sha256(), getattr(task, "dataset", None) or {}
    for split in (split for split in needed if split in dataset):
        if local is None:  # a folder's are checked before lm-eval reads them
            check_rows(name, f"{data}, {split}", dataset[split])
        for row in dataset[split]:
            found.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    places = [str(_file_of(local, split)) if local else f"{data}, {split}" for split in needed]
    _check_questions(task, places or [data], max(numbers))
    return EvaluationTask(
        label=BY_TASK.get(name, name),
        task=task,
        num_fewshot=numbers,
        data=data,
        data_sha256=found.hexdigest(),
    )


def _check_questions(task: Any, places: Sequence[str], most: int) -> None:
    """Checks that a task has its examples, and an answer to each question among the choices.

    Args:
        task: lm-eval's object.
        places: Where its questions stand, and its examples.
        most: The largest number of examples.

    Raises:
        DataError: When it has not, or lm-eval cannot ask a question.
    """
    from lm_eval.api.task import ConfigurableTask

    if type(task) is not ConfigurableTask:  # a class of its own, with a logic of its own
        return
    parts = [("question", places[0], task.config, task.eval_docs)]
    if most:
        examples = task.sampler.df
        # lm-eval draws one more where it may have to leave out the question itself.
        wanted = most + (task.fewshot_cfg.split == task.config.test_split)
        if len(examples) < wanted:
            raise DataError(
                f"Expected at least {wanted} rows in {places[-1]} to choose {most} examples of "
                f"{task.task_name} from, found {len(examples)}: a smaller --num_fewshot needs fewer"
            )
        parts.append(("example", places[-1], task.fewshot_cfg, examples))
    for kind, place, config, rows in parts:
        for i, row in enumerate(rows, 1):
            if problem := _problem(task, config, row):
                raise DataError(
                    f"Expected questions of {task.task_name} that lm-eval can ask in {place}, "
                    f"found {kind} {i}: {problem}"
                )


def _problem(task: Any, config: Any, row: Mapping[str, Any]) -> str | None:
    """Returns why lm-eval cannot ask, or not rate, a question; None where it can."""
    try:
        text = task.doc_to_text(row, config.doc_to_text)
        target = task.doc_to_target(row, config.doc_to_target)
        if task.OUTPUT_TYPE != "multiple_choice" or callable(task.config.process_results):
            return None
        choices = task.doc_to_choice(row, config.doc_to_choice)
    except Exception as error:  # of templates and of functions of a task
        return one_line(f"{type(error).__name__}: {error}")
    right = text if task.multiple_input else target
    for answer in right if isinstance(right, list) else [right]:
        among = 0 <= answer < len(choices) if isinstance(answer, int) else answer in choices
        if not among:
            return f"the answer {one_line(repr(answer), 100)} is none of the {len(choices)} choices"
    return None
