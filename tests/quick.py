"""Seconds instead of many: fewer draws of a posterior, and less text of the environment.

`python tests/quick.py SCRIPT ...` runs a script so, in a process of its own.
"""

from __future__ import annotations

import functools
import runpy
import sys
from pathlib import Path

import bydore_pyro.analysis.diagnostics
import bydore_pyro.core.importance
import bydore_pyro.core.inference
import bydore_pyro.data.sources
from bydore_pyro.data.documents import SourceFile
from bydore_pyro.data.environment import KINDS, environment_sources


@functools.cache
def some_sources() -> tuple[list[SourceFile], list[str]]:
    """About 200 files of every kind, listed once."""
    sources, missing = environment_sources()
    kept = []
    for kind in KINDS:
        own = [source for source in sources if source.domain == kind]
        kept += own[:: max(1, len(own) // 200)]
    return kept, missing


QUICK = (
    (bydore_pyro.analysis.diagnostics, "MOVES", 20),
    (bydore_pyro.core.importance, "MOST_WEIGHED", 800),
    (bydore_pyro.core.importance, "MOST_FOR_THE_FIT", 200),
    (bydore_pyro.core.inference, "DIRICHLET_STEPS", 40),
    (bydore_pyro.data.sources, "environment_sources", some_sources),
)


def be_quick() -> None:
    """Changes this process for good."""
    for module, name, value in QUICK:
        setattr(module, name, value)


if __name__ == "__main__":
    be_quick()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
