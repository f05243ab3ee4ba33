"""Tasks of lm-eval, by name or from a folder of task files, with their data, all of it checked."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.evaluation.data import (
    BY_TASK,
    PILE13,
    SPLIT_KEYS,
    local_data,
    missing_data,
    needed_splits,
    wanted_files,
)
from bydore_pyro.evaluation.schema import check_rows
from bydore_pyro.evaluation.task_files import READERS, refuse_code, replaced
from bydore_pyro.utils import DataError

__all__ = ["FAILURES", "EvaluationTask", "load_tasks", "network"]

# What lm-eval raises on data that a task cannot ask, such as an answer longer than the context;
# the last one where a template of choices is no list.
FAILURES = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, SyntaxError)
PATIENCE = 3.0  # seconds until a hub that does not answer counts as not there


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


def load_tasks(
    names: Sequence[str],
    num_fewshot: Sequence[int] | None,
    include_path: Path | None,
    data_dir: Path | None,
    *,
    allow_code: bool = False,
    hub: bool = False,
) -> list[EvaluationTask]:
    """Loads tasks and their data, and checks that all of it can be asked.

    Args:
        names: Of lm-eval's tasks, groups and tags; `pile13` stands for the paper's 13.
        num_fewshot: Numbers of examples before the question; None: the benchmark's, or the task's.
        include_path: Folder of further task files.
        data_dir: Folder with a sub-folder of data for every task that has local data.
        allow_code: Whether the files of `include_path` may make lm-eval run code.
        hub: Whether the files of `include_path` may name data sets of a hub. Whether any is asked
            is up to `network`.

    Raises:
        DataError: When a task is unknown or cannot be loaded, a task file may run code, or data is
            missing or not what the task needs. All missing files are named at once.
    """
    if include_path is not None and not allow_code:
        refuse_code(include_path, hub=hub)
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"Expected a folder of data, found {data_dir}")
    wanted = _expanded(names)
    manager = _task_manager(wanted, include_path)
    loaded: list[EvaluationTask] = []
    missing: list[str] = []
    reasons: list[str] = []
    for name in wanted:
        config = manager.task_index[name].cfg or {}
        numbers = _numbers(name, config.get("num_fewshot"), num_fewshot)
        needed = needed_splits(config, numbers)
        folder = None if data_dir is None else data_dir / name
        folder = folder if folder is not None and folder.is_dir() else None
        overrides = local_data(name, config, needed, folder) if folder else {}
        if overrides is None:
            missing.append(wanted_files(name, config, needed, data_dir))
            reasons.append(f"{folder} lacks some")
            continue
        try:
            tasks = _load(manager, name, overrides)
        except Exception as error:
            missing.append(wanted_files(name, config, needed, data_dir))
            reasons.append(_reason_of_absence(error, name, config, folder))
            continue
        for task in tasks:  # a group's may stand beside it
            if task.task_name not in [other.task.task_name for other in loaded]:
                loaded.append(_ready(task, manager, num_fewshot, folder))
    if missing:
        raise DataError(missing_data(missing, reasons[0], data_dir))
    return loaded


@contextmanager
def network(allowed: bool) -> Iterator[None]:
    """Keeps the hub's clients from the network while the block runs, unless it is allowed.

    They still read their cache, and never count a use. Where the hub does not answer they are
    kept from it too: they would try for half a minute, task after task.
    """
    import datasets
    import huggingface_hub.constants
    from huggingface_hub.utils import get_session

    offline = not allowed or huggingface_hub.constants.HF_HUB_OFFLINE
    if not offline:
        try:
            get_session().head(huggingface_hub.constants.ENDPOINT, timeout=PATIENCE)
        except Exception:  # of whichever client it uses
            offline = True
    with ExitStack() as stack:
        for module in (datasets.config, huggingface_hub.constants):
            stack.enter_context(replaced(module, "HF_HUB_OFFLINE", offline))
        stack.enter_context(replaced(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", False))
        yield


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
    # What datasets says of a file that it cannot read stands in the cause.
    told = f"{type(error).__name__}: {error} {error.__cause__ or ''}"
    reason = " ".join(told.split())[:300]
    texts = ("find cache", "Dataset scripts are no longer supported")
    absent = isinstance(error, OSError) or any(text in str(error) for text in texts)
    of_files = config.get("dataset_path") in READERS
    if folder is not None or of_files or not absent:
        files = (config.get("dataset_kwargs") or {}).get("data_files")
        place = f" (its data: {folder or files})" if folder or files else ""
        raise DataError(
            f"Expected a task that lm-eval can load, found {name}: {reason}{place}"
        ) from error
    return reason


def _ready(
    task: Any, manager: Any, num_fewshot: Sequence[int] | None, local: Path | None
) -> EvaluationTask:
    """Checks a loaded task's data, and says what is to be known of it."""
    import lm_eval.tasks

    name = task.task_name
    entry = manager.task_index.get(name)
    path = None if entry is None or entry.yaml_path is None else Path(entry.yaml_path).resolve()
    root = Path(lm_eval.tasks.__file__).resolve().parent
    own = path is None or path.is_relative_to(root)
    hub = [task.get_config("dataset_path"), task.get_config("dataset_name")]
    data = str(local) if local is not None else " ".join(filter(None, hub))
    numbers = _numbers(name, task.get_config("num_fewshot"), num_fewshot)
    needed = needed_splits({key: task.get_config(key) for key in SPLIT_KEYS}, numbers)
    if own and local is None and name in BY_TASK:  # a folder's were checked by file and line
        for split in needed:
            rows = ((f"{data}, {split}, row {i}", r) for i, r in enumerate(task.dataset[split], 1))
            check_rows(PILE13[BY_TASK[name]].columns, rows)
    _check_questions(task, data, needed, numbers, examples_too=not (own and name in BY_TASK))
    return EvaluationTask(
        label=BY_TASK.get(name, name),
        task=task,
        metric=PILE13[BY_TASK[name]].metric if name in BY_TASK else None,
        num_fewshot=numbers,
        source=None if own else str(path),
        data=data,
        data_sha256=_sha256(getattr(task, "dataset", None) or {}, needed),
    )


def _check_questions(
    task: Any, data: str, needed: Sequence[str], numbers: Sequence[int], *, examples_too: bool
) -> None:
    """Checks that a task has its examples, and an answer to each question among the choices.

    Raises:
        DataError: When it has not, or lm-eval cannot ask a question.
    """
    from lm_eval.api.task import ConfigurableTask

    if type(task) is not ConfigurableTask:  # a class of its own, with a logic of its own
        return
    parts = [("question", _place(task, data, needed[:1]), task.config, task.eval_docs)]
    if most := max(numbers):
        place, examples = _place(task, data, needed[-1:]), task.sampler.df
        # lm-eval draws one more where it may have to leave out the question itself.
        wanted = most + (task.fewshot_cfg.split == task.config.test_split)
        if len(examples) < wanted:
            raise DataError(
                f"Expected at least {wanted} rows in {place} to choose {most} examples of "
                f"{task.task_name} from, found {len(examples)}: a smaller --num_fewshot needs fewer"
            )
        if examples_too:
            parts.append(("example", place, task.fewshot_cfg, examples))
    for kind, place, config, rows in parts:
        for i, row in enumerate(rows, 1):
            if problem := _problem(task, config, row):
                raise DataError(
                    f"Expected questions of {task.task_name} that lm-eval can ask in {place}, "
                    f"found {kind} {i}: {problem}"
                )


def _place(task: Any, data: str, split: Sequence[str]) -> str:
    """Names the file or the data set of a split."""
    files = (task.get_config("dataset_kwargs") or {}).get("data_files")
    if isinstance(files, dict):
        files = next((files[name] for name in split if name in files), None)
    if not files:
        return ", ".join([data, *split])
    return files if isinstance(files, str) else ", ".join(map(str, files))


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
        if isinstance(answer, int):
            among = 0 <= answer < len(choices)
        else:
            among = isinstance(answer, str) and answer in choices
        if not among:
            found = " ".join(repr(answer).split())[:100]
            return f"the answer {found} is none of the {len(choices)} choices"
    return None


def _sha256(dataset: Any, splits: Sequence[str]) -> str:
    """Hashes the rows of splits as JSON, whatever files they came from."""
    found = hashlib.sha256()
    for split in (split for split in splits if split in dataset):
        for row in dataset[split]:
            found.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    return found.hexdigest()
