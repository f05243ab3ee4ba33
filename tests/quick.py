"""Seconds instead of many: fewer draws of a posterior, less text of the environment, a smaller
proxy, pages without pictures.

`python tests/quick.py SCRIPT ...`, or `-m MODULE ...`, runs it so, in a process of its own.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import bydore_pyro.answer.answer
import bydore_pyro.answer.best
import bydore_pyro.answer.forecast
import bydore_pyro.core.importance
import bydore_pyro.core.inference
import bydore_pyro.core.metropolis
import bydore_pyro.core.posterior
import bydore_pyro.data.environment
import bydore_pyro.data.sources
import bydore_pyro.proxy
import bydore_pyro.report.page
from bydore_pyro.data.documents import File
from bydore_pyro.data.environment import KINDS, environment_files
from bydore_pyro.proxy import model_source

PROXY = Path(__file__).parent / "inputs" / "proxy"


@cache
def some_sources() -> tuple[list[File], list[str]]:
    """About 200 files of every kind, listed once."""
    sources, missing = environment_files()
    kept = []
    for kind in KINDS:
        own = [source for source in sources if source.domain == kind]
        kept += own[:: max(1, len(own) // 200)]
    return kept, missing


def smaller(named: str) -> str:
    """A proxy of one narrow layer for the default one, whose steps take three times as long."""
    return str(PROXY) if named == "models/proxy-tiny" else model_source(named)


QUICK = (
    (bydore_pyro.answer.answer, "MOST_DRAWS", 200),
    (bydore_pyro.answer.best, "MOST_DRAWS", 40),
    (bydore_pyro.answer.forecast, "MOST_DRAWS", 300),
    (bydore_pyro.core.importance, "MOST_WEIGHED", 400),
    (bydore_pyro.core.importance, "MOST_FOR_THE_FIT", 200),
    (bydore_pyro.core.inference, "DIRICHLET_STEPS", 40),
    (bydore_pyro.core.inference, "FIT_STEPS", 5),
    (bydore_pyro.core.inference, "START_DRAWS", 16),
    (bydore_pyro.core.metropolis, "MOST_WINDOWS", 2),
    (bydore_pyro.core.metropolis, "THIN", 1),
    (bydore_pyro.core.posterior, "CHAINS", 40),
    (bydore_pyro.core.posterior, "DRAWS", 2000),
    (bydore_pyro.core.posterior, "WEIGHED", 100),
    (bydore_pyro.data.environment, "environment_files", some_sources),
    (bydore_pyro.data.sources, "environment_files", some_sources),
    (bydore_pyro.report.page, "as_svg", lambda figure, salt: ""),
    (bydore_pyro.proxy, "model_source", smaller),
)


@contextmanager
def quickly() -> Iterator[None]:
    """For fixtures that outlive a test, each of which is quick by itself."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        for change in QUICK:
            patch.setattr(*change)
        yield


def be_quick() -> None:
    """Changes this process for good."""
    for module, name, value in QUICK:
        setattr(module, name, value)


if __name__ == "__main__":
    be_quick()
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        sys.exit()
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
