"""Tasks of lm-eval, by name or from a folder of task files, with their data, all of it checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.evaluation.benchmarks import BY_TASK, PILE13, check_rows
from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.local_data import SPLIT_KEYS, local_data, missing_data, needed_splits
from bydore_pyro.evaluation.task_files import refuse_code
from bydore_pyro.utils import DataError

__all__ = ["FAILURES", "EvaluationTask", "load_tasks"]

# What lm-eval raises on data that a task cannot ask, such as an answer longer than the context;
# the last one where a template of choices is no list.
FAILURES = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, SyntaxError)


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
        data_sha256: Hash of the rows of the splits that are read.
    """

    label: str
    task: Any
    metric: str | None
    num_fewshot: tuple[int, ...]
    source: str | None
    data: str
    data_sha256: str


def load_tasks(config: EvaluationConfig) -> list[EvaluationTask]:
    """Loads tasks and their data, and checks that all of it can be asked.

    Whether a hub is asked is up to `surroundings.network`.

    Raises:
        DataError: When a task is unknown or cannot be loaded, a task file may run code, or data is
            missing or not what the task needs. All missing files are named at once.
    """
    include_path = None if config.include_path is None else Path(config.include_path)
    if include_path is not None and not config.allow_task_code:
        refuse_code(include_path, hub=config.hub)
    data_dir = Path(config.data_dir or "DATA_DIR")
    if config.data_dir is not None and not data_dir.is_dir():
        raise DataError(f"Expected a folder of data, found {data_dir}")
    named = [n for name in config.tasks for n in (PILE13 if name == "pile13" else (name,))]
    names = list(dict.fromkeys(PILE13[n].task if n in PILE13 else n for n in named))
    manager = _task_manager(names, include_path)
    ready: dict[str, EvaluationTask] = {}
    missing: dict[str, str] = {}  # files, and why there are none
    for name in names:
        definition = manager.task_index[name].cfg or {}
        needed = needed_splits(definition, _numbers(name, definition.get("num_fewshot"), config))
        folder = data_dir / name if (data_dir / name).is_dir() else None
        spec: Any = name
        try:
            if folder is not None:
                changes = local_data(name, definition, needed, folder)
                # A group's way to give a known task other data.
                spec = {"group": "local", "task": [{"task": name, **changes}]}
            loaded = manager.load([spec])["tasks"]
        except DataError:
            raise
        except Exception as error:  # of lm-eval, of datasets, of a task's own code
            # What datasets says of a file that it cannot read stands in the cause.
            reason = " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())
            on_hub = "/" in str(definition.get("dataset_path"))
            if not (on_hub if folder is None else isinstance(error, FileNotFoundError)):
                place = folder or (definition.get("dataset_kwargs") or {}).get("data_files")
                raise DataError(
                    f"Expected a task that lm-eval can load, found {name}: {reason[:300]}"
                    + (f" (its data: {place})" if place else "")
                ) from error
            missing[missing_data(name, definition, needed, data_dir)] = reason[:300]
            continue
        for task in loaded.values():  # a group's may stand beside it
            if task.task_name not in ready:
                ready[task.task_name] = _ready(task, manager, config, folder)
    if missing:
        raise DataError(
            f"Expected the data of all tasks, found none for {len(missing)} "
            f"({next(iter(missing.values()))}). Put these files, as JSON lines or .parquet, into "
            f"{data_dir} and name it by --data_dir, or fetch them with --hub, here or into the "
            "Hugging Face cache of a machine with network access; of two files, --num_fewshot 0 "
            f"needs only the first: {'; '.join(missing)}"
        )
    return list(ready.values())


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
    return PILE13[BY_TASK[name]].num_fewshot if name in BY_TASK else (own or 0,)


def _ready(task: Any, manager: Any, config: EvaluationConfig, local: Path | None) -> EvaluationTask:
    """Checks a loaded task's data, and says what is to be known of it."""
    import lm_eval.tasks

    name = task.task_name
    entry = manager.task_index.get(name)
    path = None if entry is None or entry.yaml_path is None else Path(entry.yaml_path).resolve()
    root = Path(lm_eval.tasks.__file__).resolve().parent
    own = path is None or path.is_relative_to(root)
    hub = [task.get_config("dataset_path"), task.get_config("dataset_name")]
    data = str(local) if local is not None else " ".join(filter(None, hub))
    benchmark = PILE13[BY_TASK[name]] if name in BY_TASK else None
    numbers = _numbers(name, task.get_config("num_fewshot"), config)
    needed = needed_splits({key: task.get_config(key) for key in SPLIT_KEYS}, numbers)
    found, dataset = hashlib.sha256(), getattr(task, "dataset", None) or {}
    for split in (split for split in needed if split in dataset):
        # As JSON, whatever files they came from.
        for i, row in enumerate(dataset[split], 1):
            found.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
            if own and benchmark is not None and local is None:  # a folder's are checked by line
                check_rows(benchmark.columns, [(f"{data}, {split}, row {i}", row)])
    _check_questions(task, data, needed, max(numbers))
    return EvaluationTask(
        label=BY_TASK.get(name, name),
        task=task,
        metric=None if benchmark is None else benchmark.metric,
        num_fewshot=numbers,
        source=None if own else str(path),
        data=data,
        data_sha256=found.hexdigest(),
    )


def _check_questions(task: Any, data: str, needed: Sequence[str], most: int) -> None:
    """Checks that a task has its examples, and an answer to each question among the choices.

    Raises:
        DataError: When it has not, or lm-eval cannot ask a question.
    """
    from lm_eval.api.task import ConfigurableTask

    if type(task) is not ConfigurableTask:  # a class of its own, with a logic of its own
        return
    files = (task.get_config("dataset_kwargs") or {}).get("data_files")
    files = files if isinstance(files, dict) else dict.fromkeys(needed, files)
    places = [str(files.get(split) or f"{data}, {split}") for split in needed] or [data]
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
    from jinja2 import TemplateError

    try:
        text = task.doc_to_text(row, config.doc_to_text)
        target = task.doc_to_target(row, config.doc_to_target)
        if task.OUTPUT_TYPE != "multiple_choice" or callable(task.config.process_results):
            return None
        choices = task.doc_to_choice(row, config.doc_to_choice)
    except (*FAILURES, TemplateError) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    right = text if task.multiple_input else target
    for answer in right if isinstance(right, list) else [right]:
        among = 0 <= answer < len(choices) if isinstance(answer, int) else answer in choices
        if not among:
            found = " ".join(repr(answer).split())[:100]
            return f"the answer {found} is none of the {len(choices)} choices"
    return None
