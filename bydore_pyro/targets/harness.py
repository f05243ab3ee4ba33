"""Tasks of lm-eval by name, on one split of their data."""

from __future__ import annotations

import importlib
import io
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any

from bydore_pyro.errors import DataError, expecting, listed, require
from bydore_pyro.targets.hub_data import read_split, splits_in

EXAMPLES_SEED = 1234  # chooses the examples: lm-eval's own


@dataclass(frozen=True, eq=False)
class HarnessTask:
    """A task of lm-eval with the documents of one split.

    Attributes:
        task: lm-eval's, a `ConfigurableTask`: its `eval_docs` are those of the split.
        name: lm-eval's.
        split: Of the documents.
        place: Where the data lies, for messages.
        config: The task's settings in lm-eval, functions by name.
        examples: The most examples before a question that will be asked for.
    """

    task: Any
    name: str
    split: str
    place: str
    config: Mapping[str, Any]
    examples: int


def members_of(name: str) -> dict[str, Mapping[str, Any]]:
    """Returns the tasks of lm-eval that a name stands for: a task's, a group's or a tag's; in their
    order, each with what its group changes of it.

    Raises:
        DataError: When lm-eval is not installed, does not know the name, or its group defines tasks
            of its own.
    """
    known, found = _index(), dict[str, Mapping[str, Any]]()
    group = require("lm_eval.config.group", "evaluation").GroupConfig
    of_groups = {field.name for field in fields(group)} | {"tag"}
    if name not in known:
        near = [repr(one) for one in get_close_matches(name, known, 3)]
        raise DataError(
            "Expected a task or group of lm-eval (`lm_eval ls tasks` lists them)"
            f"{', such as ' * bool(near)}{' or '.join(near)}, found {name!r}"
        )

    def add(one: Any, changes: Mapping[str, Any]) -> None:
        if isinstance(one, Mapping):
            own = {key: value for key, value in one.items() if key not in ("task", "group")}
            inner = one.get("task")
            if isinstance(inner, list):  # a group that is defined in place
                for each in inner:
                    add(each, changes)
                return
            one, changes = one.get("group", inner), {**changes, **own}
        if one not in known:
            raise DataError(
                f"Expected a group of tasks with names of their own, found '{name}' of lm-eval, "
                f"which defines {one or 'a task'} itself: name single tasks instead"
            )
        entry = known[one]
        if entry.kind.name == "TAG":
            for each in sorted(entry.tags):
                add(each, changes)
        elif entry.kind.name == "GROUP":
            inner = entry.cfg.get("task") or []
            own = {key: value for key, value in entry.cfg.items() if key not in of_groups}
            for each in inner if isinstance(inner, list) else [inner]:
                add(each, {**own, **changes})
        else:
            found.setdefault(one, changes)

    add(name, {})
    return found


def open_task(
    name: str,
    changes: Mapping[str, Any],
    *,
    shots: int,
    data_dir: str | None,
    hub: bool,
    judged: bool,
) -> HarnessTask:
    """Opens a task of lm-eval on one split of its data.

    Nothing that rates answers is loaded: neither metrics nor unit tests.

    Args:
        name: lm-eval's, of a single task.
        changes: What a group changes of its settings.
        shots: Examples before each question.
        data_dir: Folder with TASK/SPLIT.jsonl or .parquet, with the hub's columns.
        hub: Fetch from the hub what `data_dir` does not hold.
        judged: Take the split on which lm-eval scores models; else one that it does not.

    Raises:
        DataError: When the data is not there or not what the task needs, or it has no such split.
    """
    own_class = _class_of(name)
    config = _settings_of(name, changes, own_class)
    for key in ("doc_to_image", "doc_to_audio"):
        if config.get(key):
            raise DataError(f"Expected a task of text, found '{name}' of lm-eval, with {key}")
    folder = Path(data_dir or "DATA", name)
    expected = f"Expected data of {name} with the hub's columns and values"
    if data_dir and folder.is_dir():
        place, offered = str(folder), splits_in(folder)
        read: Callable[[str], Any] = partial(_of_folder, folder, expected)
    elif hub:
        place = "/".join(str(config[k]) for k in ("dataset_path", "dataset_name") if config.get(k))
        with expecting(f"{expected} on the hub ({place}), found:"), quiet_lm_eval():
            whole = _fetched(config)
        offered, read = sorted(whole), whole.__getitem__
    else:
        raise DataError(f"Expected a folder {folder} (--data_dir DATA), or --hub, found neither")
    split = _split_of(name, config, offered, place, judged)
    examples = _examples_of(name, config, split, shots, judged)
    rows = read(split)
    if not len(rows):
        raise DataError(f"{expected} in {place}, found no rows in the split {split}")
    changed: dict[str, Any] = {**changes, "task": name}
    if own_class:
        documents = dict.fromkeys(("train", "validation", "test"), rows)
        changed["class"] = _on(own_class, documents)
    else:
        documents = {split: rows}
        if examples and examples != split:  # lm-eval opens this split even where it takes none
            documents[examples] = read(examples) if shots else documents[split]
        changed |= {
            "custom_dataset": lambda **_: documents,
            "test_split": split,
            "validation_split": None,
            "training_split": None,
            "fewshot_split": examples,
            "metric_list": [],
            "filter_list": None,
            "process_results": None,
        }
    with expecting(f"{expected} in {place}, found:"), quiet_lm_eval(), _without_metrics():
        task = _manager().load([{"group": "all", "task": [changed]}])["tasks"][name]
        task.set_config("num_fewshot", shots)
        task.set_fewshot_seed(EXAMPLES_SEED)
    return HarnessTask(task, name, split, place, config, shots)


def _of_folder(folder: Path, expected: str, split: str) -> Any:
    return read_split(folder / split, expected)


def _class_of(name: str) -> type | None:
    """Returns the class of lm-eval that a task is, None of one that is made of settings alone."""
    entry = _index()[name]
    if entry.kind.name != "PY_TASK":
        return None
    module, _, own = str(entry.cfg["class"]).rpartition(".")
    root = Path(require("lm_eval.tasks", "evaluation").__file__ or "").parent
    parts = Path(module).resolve().relative_to(root.resolve()).parts
    with expecting(f"Expected the class of the task {name} of lm-eval, found:"), quiet_lm_eval():
        return getattr(importlib.import_module(".".join(("lm_eval.tasks", *parts))), own)


def _settings_of(name: str, changes: Mapping[str, Any], own_class: Any) -> Mapping[str, Any]:
    """Returns a task's settings; of a class those that it tells."""
    if own_class is None:
        return {**_index()[name].cfg, **changes}
    blank = object.__new__(own_class)
    names = {"training_split": "train", "validation_split": "validation", "test_split": "test"}
    held = (blank.has_training_docs(), blank.has_validation_docs(), blank.has_test_docs())
    return {
        "dataset_path": own_class.DATASET_PATH,
        "dataset_name": own_class.DATASET_NAME,
        **{key: split for (key, split), has in zip(names.items(), held, strict=True) if has},
    }


def _on(own_class: Any, documents: Mapping[str, Any]) -> type:
    """Returns the class of a task on other data."""

    def download(self: Any, *_: object, **__: object) -> None:
        self.dataset = documents

    return type(own_class.__name__, (own_class,), {"download": download})


def _split_of(
    name: str, config: Mapping[str, Any], offered: list[str], place: str, judged: bool
) -> str:
    """Chooses the split: what lm-eval scores; else validation, else training, never what it
    scores."""
    own, train = config.get("validation_split"), config.get("training_split")
    scored = config.get("test_split") or own
    usable = [one for one in (own, "validation", train, "train") if one and one != scored]
    wanted = [scored] if judged else [*dict.fromkeys(usable)]
    for split in wanted:
        if split in offered:
            return str(split)
    held = f"found {listed(offered) or 'none'} in {place}"
    if judged:
        raise DataError(f"Expected the split '{scored}' of {name}, which is scored, {held}")
    named = " or ".join(map(str, wanted))
    raise DataError(
        f"Expected of {name} the split {named}, as models are scored on '{scored}', {held}: put "
        "other questions with the same columns into one of these"
    )


def _examples_of(
    name: str, config: Mapping[str, Any], split: str, shots: int, judged: bool
) -> str | None:
    """Returns the split of the examples before a question; None where the task brings its own."""
    own: Mapping[str, Any] = config.get("fewshot_config") or {}
    named = own.get("split") or config.get("fewshot_split")
    if not named and own.get("samples"):
        return None
    validation = config.get("validation_split")
    scored = config.get("test_split") or validation
    chosen = named or config.get("training_split") or validation or scored
    if judged or chosen != scored:
        return chosen
    if not own.get("split"):
        return split  # what is scored does not stand before a question of a target
    if shots:
        raise DataError(
            f"Expected examples of {name} that are not scored, found the split '{chosen}', which is"
            ": take 0 shots"
        )
    return chosen


def _fetched(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fetches all splits of a task's data from the hub. `datasets` runs no code since version 4."""
    datasets = require("datasets", "evaluation")
    settings = {**(config.get("dataset_kwargs") or {})}
    settings.pop("trust_remote_code", None)
    return datasets.load_dataset(config["dataset_path"], config.get("dataset_name"), **settings)


@cache
def _manager() -> Any:
    tasks = require("lm_eval.tasks", "evaluation")
    with quiet_lm_eval():
        return tasks.TaskManager()  # it reads 14,000 files: 7 seconds


def _index() -> Mapping[str, Any]:
    return _manager().task_index


class _Nothing:
    """Stands for a metric where none is computed."""

    def __getattr__(self, name: str) -> _Nothing:
        return self

    def __call__(self, *_: object, **__: object) -> _Nothing:
        return self

    def __getitem__(self, key: object) -> _Nothing:
        return self


@contextmanager
def _without_metrics() -> Iterator[None]:
    """Lets files of lm-eval be imported that fetch the code of a metric from the hub and try it as
    they are imported. They get one that does nothing, and are forgotten afterwards."""
    evaluate = vars(require("evaluate", "evaluation"))
    original, before, asked = evaluate["load"], {*sys.modules}, list[Any]()

    def load(*names: Any, **_: object) -> _Nothing:
        asked.append(names)
        return _Nothing()

    evaluate["load"] = load
    try:
        yield
    finally:
        evaluate["load"] = original
        for module in {*sys.modules} - before if asked else ():
            if module.startswith("lm_eval.tasks."):
                del sys.modules[module]


@contextmanager
def templates_kept() -> Iterator[None]:
    """Lets lm-eval compile each template once, and not for each question: ARC's rendering takes a
    fifteenth of the time."""
    environment = vars(require("lm_eval.utils", "evaluation").env)
    environment["from_string"] = cache(require("lm_eval.utils", "evaluation").env.from_string)
    try:
        yield
    finally:
        del environment["from_string"]


@contextmanager
def quiet_lm_eval() -> Iterator[None]:
    """Shows one of lm-eval's warnings, that prompts are cut; progress bars on a terminal alone."""
    cut, first, handler = "exceeds model's maximum length", iter([True]), logging.StreamHandler()
    handler.addFilter(lambda record: cut in record.getMessage() and next(first, False))
    logger = logging.getLogger("lm_eval")
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [handler], False
    try:
        with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.handlers, logger.propagate = before
