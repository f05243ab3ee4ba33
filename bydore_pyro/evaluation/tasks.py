"""The paper's 13 benchmarks and other tasks of lm-eval, with their data, all of it checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.utils import DataError, one_line, option, require_fields

__all__ = ["BY_TASK", "FOLDERS", "NUM_FEWSHOT", "PILE13", "EvaluationConfig", "load_tasks"]

# Numbers of examples before the question, as in RegMix's script. The paper calls its scores
# zero-shot, but they are means over six runs: of COPA's 100 questions all are whole sixths.
NUM_FEWSHOT = (0, 1, 2, 3, 4, 5)
# lm-eval's tasks by the paper's names, in the order of its appendix. lm-eval 0.4.13 takes
# MultiRC's "no" for right where an answer is labelled correct, and the reverse.
PILE13 = {
    "Social IQA": "social_iqa",
    "HellaSwag": "hellaswag",
    "PIQA": "piqa",
    "OpenBookQA": "openbookqa",
    "LAMBADA": "lambada_standard",
    "SciQ": "sciq",
    "ARC-Easy": "arc_easy",
    "COPA": "copa",
    "RACE": "race",
    "LogiQA": "logiqa",
    "QQP": "qqp",
    "WinoGrande": "winogrande",
    "MultiRC": "multirc",
}
BY_TASK = {task: name for name, task in PILE13.items()}
# Their folders among lm-eval's task files, where they are not called as the tasks are.
FOLDERS = {
    **{"social_iqa": "siqa", "lambada_standard": "lambada", "arc_easy": "arc", "qqp": "glue/qqp"},
    **{"copa": "super_glue/copa", "multirc": "super_glue/multirc"},
}


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """What a model is scored on, and how."""

    tasks: list[str] = option(
        ["pile13"], "'pile13' (the paper's 13 benchmarks), or the names of lm-eval tasks."
    )
    include_path: str | None = option(
        None, "Folder of additional task files in lm-eval's format. Their code is not run."
    )
    data_dir: str | None = option(
        None,
        "Folder with local data to use instead of the hub's: TASK/SPLIT.jsonl or .parquet, with "
        "lm-eval's task names and the columns of the hub's data set.",
    )
    hub: bool = option(
        False,
        "Download from the Hugging Face hub what is neither in --data_dir nor in this machine's"
        " cache. Without it the network is not used.",
    )
    num_fewshot: list[int] | None = option(
        None,
        "Numbers of few-shot examples; a score is the mean over them. Default: 0 1 2 3 4 5 for "
        "pile13, as in RegMix, otherwise the task's own.",
        least=0,
        most=1000,
    )
    limit: int | None = option(
        None, "Score only this many first questions of each task. Default: all.", least=1
    )
    batch_size: int = option(16, "Sequences in a batch.", least=1)
    device: str = option("auto", "'cpu', 'cuda', or 'auto': a GPU if there is one.")
    cases: list[int] = option(
        [], "Cases of the paper (1, 2) whose scores are also shown.", choices=(1, 2)
    )

    def __post_init__(self) -> None:
        require_fields(self)


def load_tasks(config: EvaluationConfig) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Loads tasks and their data, and checks that all of it can be asked.

    Returns:
        By the paper's name, or lm-eval's: lm-eval's object, and what is to be told of it:
        `num_fewshot` (numbers of examples before the question), `data` (files, or a name on the
        hub) and `data_sha256` (of the rows that are read).

    Raises:
        DataError: When a task is unknown, a task or its data cannot be loaded, or data is not what
            the task needs.
    """
    from lm_eval import tasks

    given = filter(None, (config.data_dir, config.include_path))
    if odd := [folder for folder in given if not Path(folder).is_dir()]:
        raise DataError(f"Expected a folder, found {odd[0]}")
    named = [n for name in config.tasks for n in (PILE13 if name == "pile13" else (name,))]
    names = list(dict.fromkeys(PILE13.get(name, name) for name in named))
    root = Path(tasks.__file__).parent
    paths = [Path(config.include_path)] if config.include_path else []
    paths += [root / FOLDERS.get(name, name) for name in names if name in BY_TASK]  # these win
    manager = tasks.TaskManager(include_defaults=False, include_path=paths)
    if not set(names) <= set(manager.all_subtasks):
        manager = tasks.TaskManager(include_path=paths)  # all of lm-eval's own: some 15,000 files
    ready: dict[str, tuple[Any, dict[str, Any]]] = {}
    for name in names:
        try:
            loaded = manager.load([_spec(name, manager.task_index, config)])["tasks"]
            for each, task in loaded.items():
                ready[BY_TASK.get(each, each)] = task, _checked(task, config)
        except DataError:
            raise
        except IndexError as error:  # lm-eval looks the first answer up when it loads a task
            raise DataError(
                f"Expected questions of {name} that lm-eval can ask, found none, or an answer to "
                f"the first that is none of its choices ({one_line(error)})"
            ) from error
        except Exception as error:  # of lm-eval, of datasets, of lm-eval's own functions
            # What datasets says of a file that it cannot read stands in the cause.
            what = "missing" if isinstance(error, KeyError) else type(error).__name__
            reason = one_line(f"{what}: {error} {error.__cause__ or ''}")
            raise DataError(
                f"Expected tasks and data that lm-eval can load, found {name} ({reason}): put "
                "TASK/SPLIT.jsonl or .parquet, with the hub's columns, into a folder and name it "
                "by --data_dir, or fetch the data by --hub"
            ) from error
    return ready


def _numbers(name: str, own: int | None, config: EvaluationConfig) -> tuple[int, ...]:
    """Returns the numbers of examples before the question."""
    if own == 0:  # a task that says so is never given examples: lm-eval's rule
        return (0,)
    if config.num_fewshot:
        return tuple(dict.fromkeys(config.num_fewshot))
    return NUM_FEWSHOT if name in BY_TASK else (own or 0,)


def _spec(name: str, index: Mapping[str, Any], config: EvaluationConfig) -> Any:
    """Returns how lm-eval is told of a task: by name, or with its files of the data folder."""
    folder = Path(config.data_dir or "", name)
    if config.data_dir is None or name not in index or not folder.is_dir():
        return name
    kind, end = ("parquet", "parquet") if any(folder.glob("*.parquet")) else ("json", "jsonl")
    files = {path.stem: str(path) for path in sorted(folder.glob(f"*.{end}"))}
    changed: dict[str, Any] = {"task": name, "dataset_path": kind, "dataset_name": None}
    changed["dataset_kwargs"], task = {"data_files": files}, index[name].cfg
    if not any(_numbers(name, task.get("num_fewshot"), config)):
        # lm-eval opens the examples' split even where it takes none.
        changed["fewshot_split"] = task.get("test_split") or task.get("validation_split")
    return {"group": "local", "task": [changed]}


def _checked(task: Any, config: EvaluationConfig) -> dict[str, Any]:
    """Checks that lm-eval can ask all questions of a task; returns what is to be told of it."""
    from lm_eval.api.task import ConfigurableTask

    name, options = task.task_name, task.get_config("dataset_kwargs") or {}
    data = str(options.get("data_files") or task.get_config("dataset_path"))
    numbers = _numbers(name, task.get_config("num_fewshot"), config)
    types = [split.features for split in task.dataset.values()] if name in BY_TASK else []
    if any(kind in str(types) for kind in ("timestamp", "Json")):
        raise ValueError("a column of dates or of several types, which are not read as they are")
    parts = [("question", task.config, task.eval_docs)]
    plain = type(task) is ConfigurableTask  # and no class of its own, with a logic of its own
    if plain and max(numbers):
        parts.append(("example", task.fewshot_cfg, task.sampler.df))
    found = hashlib.sha256()
    for kind, formats, rows in parts:
        for i, row in enumerate(rows, 1):
            try:
                if plain:
                    _require_askable(task, formats, row)
            except Exception as error:  # of templates and of functions of a task
                raise DataError(
                    f"Expected questions of {name} that lm-eval can ask in {data}, found {kind} "
                    f"{i}: {one_line(f'{type(error).__name__}: {error}')}"
                ) from None
            found.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    if len(parts) > 1:
        task.fewshot_context(task.eval_docs[0], max(numbers))  # raises where they are too few
    return {"num_fewshot": list(numbers), "data": data, "data_sha256": found.hexdigest()}


def _require_askable(task: Any, formats: Any, row: Mapping[str, Any]) -> None:
    """Raises where lm-eval cannot ask or rate a question, or would misread it in silence."""
    if task.task_name in BY_TASK and None in row.values():
        raise ValueError("a null, which lm-eval reads as the text None")
    if task.task_name == "copa" and row["label"] not in (0, 1):  # lm-eval's second choice
        raise ValueError(f"the label is {row['label']!r}")
    text = task.doc_to_text(row, formats.doc_to_text)
    target = task.doc_to_target(row, formats.doc_to_target)
    if task.OUTPUT_TYPE != "multiple_choice" or callable(task.config.process_results):
        return
    choices = task.doc_to_choice(row, formats.doc_to_choice)
    right = text if task.multiple_input else target
    for answer in right if isinstance(right, list) else [right]:
        if not (0 <= answer < len(choices) if isinstance(answer, int) else answer in choices):
            raise ValueError(f"the answer {answer!r:.100} is none of the {len(choices)} choices")
