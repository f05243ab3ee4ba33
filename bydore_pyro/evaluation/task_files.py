"""Task files of lm-eval that a user brings: what they may hold, and templates that run no code.

A task file can have code run in five ways: `!function` names Python to import, a metric that
lm-eval does not know is looked up as a script, some fields name code or prompts of others, a
`dataset_path` may be a reader that unpickles, and a Jinja template can reach Python's internals.
The first four are refused before lm-eval sees a file; templates are rendered in Jinja's sandbox.
lm-eval's own task files are trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from bydore_pyro.utils import DataError

__all__ = ["READERS", "refuse_code", "replaced", "sandboxed_templates"]

STANDARD, PYTHON = "tag:yaml.org,2002:", "tag:yaml.org,2002:python/"
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

    if not folder.is_dir():
        raise DataError(f"Expected a folder of task files, found {folder}")
    # The files that lm-eval finds.
    waiting = sorted(folder.glob("**/*.yaml"))
    if not waiting:
        raise DataError(f"Expected task files (*.yaml) in {folder}, found none")
    trusted, seen = Path(lm_eval.tasks.__file__).resolve().parent, set()
    while waiting:
        path = waiting.pop().resolve()
        if path in seen or path.is_relative_to(trusted):
            continue
        seen.add(path)
        content = _plain_content(path)
        for mapping in _mappings(content):
            _refuse_scripts(mapping, path)
            _refuse_data(mapping, path, hub=hub)
        included = content.get("include", []) if isinstance(content, dict) else []
        for name in included if isinstance(included, list) else [included]:
            waiting.append(path.parent / str(name))


def _plain_content(path: Path) -> Any:
    """Reads a YAML file that has nothing but plain values."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        for node in _nodes(yaml.compose(text, yaml.SafeLoader)):
            if not node.tag.startswith(STANDARD) or node.tag.startswith(PYTHON):
                named = f"{node.tag} {node.value}" if isinstance(node.value, str) else node.tag
                raise DataError(
                    f"Expected task files without code, found {named} in {path}: {REMEDY}"
                )
        return yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"Expected a YAML file, found {path}: {reason}") from None


def _nodes(root: Any) -> Iterator[Any]:
    """Yields a YAML document's nodes, each once however often it is referred to."""
    import yaml

    waiting, seen = [root] if root is not None else [], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


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


def _refuse_scripts(mapping: dict[Any, Any], path: Path) -> None:
    """Refuses fields that name code, and metrics that the package `evaluate` would load."""
    import lm_eval.api.metrics  # noqa: F401  (registers lm-eval's own)
    from lm_eval.api.registry import metric_registry

    for name in CODE_FIELDS:
        if mapping.get(name):
            raise DataError(f"Expected task files without code, found {name} in {path}: {REMEDY}")
    entries = mapping.get("metric_list")
    for entry in entries if isinstance(entries, list) else []:
        metric = entry.get("metric") if isinstance(entry, dict) else entry
        known = isinstance(metric, str) and metric in metric_registry
        if not known or (isinstance(entry, dict) and entry.get("hf_evaluate")):
            raise DataError(
                f"Expected one of lm-eval's own metrics, found '{metric}' in {path}, which "
                f"would be loaded as a script: {REMEDY}"
            )


def _refuse_data(mapping: dict[Any, Any], path: Path, *, hub: bool) -> None:
    """Refuses readers that are not known to be safe, and data from elsewhere."""
    named = mapping.get("dataset_path")
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
    options = mapping.get("dataset_kwargs")
    for key in ("data_files", "data_dir"):
        given = str(options.get(key) if isinstance(options, dict) else None)
        if "://" in given or "::" in given:
            raise DataError(f"Expected local files as {key}, found {given[:100]} in {path}")


@contextmanager
def sandboxed_templates() -> Iterator[None]:
    """Renders the prompts of task files in Jinja's sandbox while the block runs.

    A template is compiled once; lm-eval would for every question.
    """
    from jinja2.sandbox import SandboxedEnvironment
    from lm_eval import utils

    sandbox = SandboxedEnvironment(
        loader=utils.env.loader,
        undefined=utils.env.undefined,
        keep_trailing_newline=utils.env.keep_trailing_newline,
    )
    sandbox.filters.update(utils.env.filters)
    once = lru_cache(maxsize=1000)(sandbox.from_string)
    sandbox.from_string = once  # type: ignore[method-assign, assignment]
    with replaced(utils, "env", sandbox):
        yield


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Gives an attribute that exists another value while the block runs."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
