"""What surrounds lm-eval while it runs: no network, no code of task files, no noise.

A task file can have code run in five ways. `!function` names Python to import. A metric that is not
lm-eval's own is loaded as a script. `use_prompt` reads prompts of others. A `dataset_path` may be a
reader that unpickles. A Jinja template can reach Python's internals. The first four are refused
where lm-eval would act on them; templates are rendered in Jinja's sandbox.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import lru_cache
from pathlib import Path
from typing import Any

from bydore_pyro.utils import DataError

__all__ = ["guarded", "quiet", "replaced"]

PATIENCE = 3.0  # seconds until a hub that does not answer counts as not there
# The readers of the package datasets that read plain files; others unpickle, or ask a server.
READERS = ("json", "csv", "parquet", "text", "arrow")


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Gives attributes that exist other values while the block runs."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def guarded(*, hub: bool, code: bool) -> Iterator[None]:
    """Keeps lm-eval from the network and from code of others; templates stay in Jinja's sandbox.

    Args:
        hub: Whether the network may be asked. Without it, or where the hub does not answer, its
            clients read their cache alone: they would try for half a minute, task after task.
        code: Whether code that task files name may run. lm-eval's own always may.

    Raises:
        DataError: In the block, when a task file names code, or a reader of data that may run some.
    """
    import datasets
    import huggingface_hub.constants
    from huggingface_hub.utils import get_session
    from jinja2.sandbox import SandboxedEnvironment
    from lm_eval import utils

    if hub:
        try:
            get_session().head(huggingface_hub.constants.ENDPOINT, timeout=PATIENCE)
        except Exception:  # of whichever client it uses
            hub = False
    sandbox = SandboxedEnvironment(undefined=utils.env.undefined, keep_trailing_newline=True)
    sandbox.filters.update(utils.env.filters)
    once = lru_cache(maxsize=1000)(sandbox.from_string)  # lm-eval would compile it for every row
    sandbox.from_string = once  # type: ignore[method-assign, assignment]
    with ExitStack() as stack:
        stack.enter_context(replaced(utils, env=sandbox))
        stack.enter_context(replaced(datasets.config, HF_UPDATE_DOWNLOAD_COUNTS=False))
        if not hub:
            stack.enter_context(replaced(datasets.config, HF_HUB_OFFLINE=True))
            stack.enter_context(replaced(huggingface_hub.constants, HF_HUB_OFFLINE=True))
        if not code:
            stack.enter_context(_without_code())
        yield


@contextmanager
def _without_code() -> Iterator[None]:
    import datasets
    import lm_eval.api.metrics  # noqa: F401  (registers lm-eval's own)
    import yaml
    from lm_eval.api import task
    from lm_eval.api.registry import metric_registry
    from lm_eval.tasks import _yaml_loader

    own = Path(_yaml_loader.__file__).resolve().parent
    import_function, get_metric = _yaml_loader._import_func_in_yml, task.get_metric
    load_dataset = datasets.load_dataset

    def refused(found: str) -> DataError:
        return DataError(
            f"Expected task files without code, found {found}: --allow_task_code runs the code of "
            "task files that you trust"
        )

    def function(name: str, folder: Path) -> Any:
        if not folder.is_relative_to(own):
            raise refused(f"!function {name} in {folder}")
        return import_function(name, folder)

    def metric(name: Any, script: bool = False) -> Any:
        if script or name not in metric_registry:
            raise refused(f"the metric '{name}', which would be loaded as a script")
        return get_metric(name)

    def prompt(name: str, *_: Any) -> Any:
        raise refused(f"use_prompt {name}")

    def dataset(path: Any, **options: Any) -> Any:
        on_hub = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", str(path)) and not Path(path).exists()
        if (path not in READERS and not on_hub) or re.search("://|::", str(options)):
            raise DataError(
                f"Expected dataset_path to be one of {', '.join(READERS)}, with local data_files, "
                f"or a hub's OWNER/NAME, found '{path}' with {options!s:.100}"
            )
        return load_dataset(path, **options)

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the other is slower
    with (
        replaced(_yaml_loader, _Base=loader, _import_func_in_yml=function),
        replaced(task, get_metric=metric, get_prompt=prompt),
        replaced(datasets, load_dataset=dataset),
    ):
        yield


class _FirstCut(logging.Filter):
    """Lets the first warning pass that a prompt did not fit the model's context, and no other."""

    told = False

    def filter(self, record: logging.LogRecord) -> bool:
        first = not self.told and "exceeds model's maximum length" in record.getMessage()
        self.told |= first
        return first


@contextmanager
def quiet() -> Iterator[None]:
    """Shows one of lm-eval's warnings, that prompts are cut; progress bars on a terminal alone."""
    logger, handler = logging.getLogger("lm_eval"), logging.StreamHandler()
    handler.addFilter(_FirstCut())
    with ExitStack() as stack:
        if not sys.stderr.isatty():
            sink = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(redirect_stderr(sink))
        stack.enter_context(replaced(logger, handlers=[handler], propagate=False))
        yield
