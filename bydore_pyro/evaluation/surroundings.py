"""What surrounds lm-eval while it runs: no network, no code in templates, no noise, no traces."""

from __future__ import annotations

import logging
import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import lru_cache
from typing import Any

import numpy as np
import torch

__all__ = ["TaskLog", "kept_random_state", "network", "quiet", "replaced", "sandboxed_templates"]

PATIENCE = 3.0  # seconds until a hub that does not answer counts as not there


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Gives an attribute that exists another value while the block runs."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


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


class TaskLog(logging.Handler):
    """Counts what lm-eval warns of, instead of printing a line for every question.

    Attributes:
        cut: Requests whose beginning did not fit the model's context; requests that differ in
            their last token alone count once.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.cut = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Counts a warning."""
        self.cut += "exceeds model's maximum length" in record.getMessage()


@contextmanager
def quiet() -> Iterator[TaskLog]:
    """Counts lm-eval's warnings while the block runs; progress bars show on a terminal alone."""
    logger, log = logging.getLogger("lm_eval"), TaskLog()
    with ExitStack() as stack:
        if not sys.stderr.isatty():
            sink = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(redirect_stderr(sink))
        stack.enter_context(replaced(logger, "handlers", [log]))
        stack.enter_context(replaced(logger, "propagate", False))
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.WARNING)
        yield log


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Gives Python, NumPy and torch their random states back when the block ends."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  (lm-eval seeds it)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
