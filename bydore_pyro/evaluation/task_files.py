"""Task files of lm-eval that a user brings: what they may hold.

A task file can have code run in five ways: `!function` names Python to import, a metric that
lm-eval does not know is looked up as a script, some fields name code or prompts of others, a
`dataset_path` may be a reader that unpickles, and a Jinja template can reach Python's internals.
The first four are refused before lm-eval sees a file; templates are rendered in Jinja's sandbox.
lm-eval's own task files are trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bydore_pyro.utils import DataError

__all__ = ["READERS", "refuse_code"]

REMEDY = "--allow_task_code runs the code of task files that you trust"
# The readers of the package datasets that read plain files; others unpickle, or ask a server.
READERS = ("json", "csv", "parquet", "text", "arrow")
# Fields that name code, or a file of prompts that is not read here.
CODE_FIELDS = ("class", "custom_dataset", "custom_generate", "unsafe_code", "use_prompt")


def refuse_code(folder: Path, *, hub: bool = False) -> None:
    """Reads all task files of a folder, and what they include, without running anything.

    Args:
        folder: Holds the files.
        hub: Whether they may name data sets of a hub.

    Raises:
        DataError: When the folder is none or holds no task files; when a file is no YAML, would
            make lm-eval run code that is not its own, or names data that are not in local files.
    """
    import lm_eval.tasks

    waiting = sorted(folder.glob("**/*.yaml"))  # the files that lm-eval finds
    if not waiting:
        raise DataError(f"Expected a folder of task files (*.yaml), found none in {folder}")
    trusted, seen = Path(lm_eval.tasks.__file__).resolve().parent, set()
    while waiting:
        path = waiting.pop().resolve()
        if path in seen or path.is_relative_to(trusted):
            continue
        seen.add(path)
        content = _plain_content(path)
        for part in _mappings(content):
            _refuse_scripts(part, path)
            _refuse_data(part, path, hub=hub)
        included = content.get("include", []) if isinstance(content, dict) else []
        for name in included if isinstance(included, list) else [included]:
            waiting.append(path.parent / str(name))


def _plain_content(path: Path) -> Any:
    """Reads a YAML file that has nothing but plain values."""
    import yaml

    try:
        with path.open(encoding="utf-8") as file:
            return yaml.safe_load(file)
    except yaml.constructor.ConstructorError as error:
        tag = str(error.problem).removeprefix("could not determine a constructor for ")
        raise DataError(
            f"Expected task files without code, found {tag} in {path}: {REMEDY}"
        ) from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"Expected a YAML file, found {path}: {reason}") from None


def _mappings(content: Any) -> Iterator[dict[Any, Any]]:
    """Yields every mapping within plain values, each once however often it is referred to."""
    waiting, seen = [content], set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict | list) or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            yield part
        waiting += part.values() if isinstance(part, dict) else part


def _refuse_scripts(part: dict[Any, Any], path: Path) -> None:
    """Refuses fields that name code, and metrics that the package `evaluate` would load."""
    import lm_eval.api.metrics  # noqa: F401  (registers lm-eval's own)
    from lm_eval.api.registry import metric_registry

    for name in CODE_FIELDS:
        if part.get(name):
            raise DataError(f"Expected task files without code, found {name} in {path}: {REMEDY}")
    entries = part.get("metric_list")
    for entry in entries if isinstance(entries, list) else []:
        options = entry if isinstance(entry, dict) else {"metric": entry}
        metric = str(options.get("metric"))
        if metric not in metric_registry or options.get("hf_evaluate"):
            raise DataError(
                f"Expected one of lm-eval's own metrics, found '{metric}' in {path}, which "
                f"would be loaded as a script: {REMEDY}"
            )


def _refuse_data(part: dict[Any, Any], path: Path, *, hub: bool) -> None:
    """Refuses readers that are not known to be safe, and data from elsewhere."""
    named, options = part.get("dataset_path", READERS[0]), str(part.get("dataset_kwargs"))
    if named is not None and named not in READERS:
        if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", str(named)) or Path(named).exists():
            raise DataError(
                f"Expected dataset_path to be one of {', '.join(READERS)}, with local data_files, "
                f"or a hub's OWNER/NAME, found '{named}' in {path}"
            )
        if not hub:
            raise DataError(
                f"Expected local data, found the hub's '{named}' in {path}: --hub fetches them"
            )
    if "://" in options or "::" in options:
        raise DataError(f"Expected local files in dataset_kwargs, found {options[:100]} in {path}")
