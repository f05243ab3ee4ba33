"""What surrounds lm-eval while it runs: no network, no code of task files, no noise."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bydore_pyro.utils import DataError

__all__ = ["guarded", "quiet"]

# The readers of the package datasets that read plain files; others unpickle, or ask a server.
READERS = ("json", "csv", "parquet", "text", "arrow")


@contextmanager
def guarded(*, hub: bool) -> Iterator[None]:
    """Keeps lm-eval from the network and from code of others.

    A task file names code in six ways: `!function` and YAML's Python tags, a metric that is loaded
    as a script, `use_prompt`, `custom_generate`, a `dataset_path` whose reader may run code, and a
    Jinja template that reaches Python's internals. All are refused, but for the functions of
    lm-eval's own files. Templates are rendered in Jinja's sandbox.

    Args:
        hub: Whether the network may be asked. Without it the hub's clients read their cache alone.

    Raises:
        DataError: In the block, when a task file names code, or data from elsewhere.
    """
    import datasets
    import huggingface_hub.constants
    import lm_eval.api.metrics  # noqa: F401  (registers lm-eval's own)
    import yaml
    from jinja2.sandbox import SandboxedEnvironment
    from lm_eval import utils
    from lm_eval.api import task
    from lm_eval.api.registry import metric_registry
    from lm_eval.tasks import _yaml_loader

    own = Path(_yaml_loader.__file__).resolve().parent
    import_function, make_config = _yaml_loader._import_func_in_yml, task.TaskConfig

    def function(name: str, folder: Path) -> Any:
        if not folder.is_relative_to(own):
            raise DataError(f"Expected task files without code, found !function {name} in {folder}")
        return import_function(name, folder)

    def checked(**config: Any) -> Any:
        """Returns lm-eval's configuration of a task, before anything is done with it."""
        keys = {**config, **(config.get("generation_kwargs") or {})}
        found = [key for key in ("use_prompt", "custom_generate") if key in keys]
        for metric in [] if config.get("process_results") else config.get("metric_list") or []:
            known = callable(metric["metric"]) or metric["metric"] in metric_registry
            if metric.get("hf_evaluate") or not known:  # lm-eval would load a script
                found.append(f"the metric '{metric['metric']}'")
        path = str(config.get("dataset_path"))
        options = f"{config.get('dataset_name')} {config.get('dataset_kwargs')}"
        on_hub = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", path) and not Path(path).exists()
        if (path not in READERS and not on_hub) or re.search("://|::", options):
            found.append(f"the dataset_path '{path}' with {options:.100}")
        if found:
            raise DataError(
                f"Expected task files without code, with local data ({', '.join(READERS)}) or "
                f"a hub's OWNER/NAME, found {found[0]} in {config.get('task')}"
            )
        return make_config(**config)

    sandbox = SandboxedEnvironment(undefined=utils.env.undefined, keep_trailing_newline=True)
    sandbox.filters.update(utils.env.filters)
    once = lru_cache(maxsize=1000)(sandbox.from_string)  # lm-eval would compile it for every row
    sandbox.from_string = once  # type: ignore[method-assign, assignment]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the other is slower
    offline = not hub or datasets.config.HF_HUB_OFFLINE
    with (
        patch.multiple(utils, env=sandbox),
        patch.multiple(_yaml_loader, _Base=loader, _import_func_in_yml=function),
        patch.multiple(task, TaskConfig=checked),
        # Counting downloads would be a request that nobody asked for.
        patch.multiple(datasets.config, HF_HUB_OFFLINE=offline, HF_UPDATE_DOWNLOAD_COUNTS=False),
        patch.multiple(huggingface_hub.constants, HF_HUB_OFFLINE=offline),
    ):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Shows one of lm-eval's warnings, that prompts are cut; progress bars on a terminal alone."""
    cut, first, handler = "exceeds model's maximum length", iter([True]), logging.StreamHandler()
    handler.addFilter(lambda record: cut in record.getMessage() and next(first, False))
    with (
        open(os.devnull, "w") as sink,
        nullcontext() if sys.stderr.isatty() else redirect_stderr(sink),
        patch.multiple(logging.getLogger("lm_eval"), handlers=[handler], propagate=False),
        patch.multiple(logging.getLogger("datasets"), handlers=[handler], propagate=False),
    ):
        yield
