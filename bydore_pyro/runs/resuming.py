"""Where a run begins, and how one that was stopped goes on with its own options."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bydore_pyro.runs.inputs import processes
from bydore_pyro.runs.options import SMOKE, Options
from bydore_pyro.utils import RunFolder, parse_options, resumed_options, resumed_run

__all__ = ["begin_run", "options_or_resumed"]

T = TypeVar("T", bound=Options)


def begin_run(options: Options, name: str, resume: Path | None) -> RunFolder:
    """Returns the run's folder, checked but not made; with `resume` the one that is continued.

    It is the same one in every process, whatever the clock says to each.

    Raises:
        RunFolderError: When the folder holds a run already, or cannot be written to.
    """
    parallel = processes(options)
    if resume is not None:
        return RunFolder(resume, resume=True, writes=parallel.is_main)
    now = time.strftime("%Y%m%d-%H%M%S")
    path = parallel.agree(options.run.out or f"runs/{name}-{now}")
    return RunFolder(Path(path), writes=parallel.is_main)


def options_or_resumed(
    arguments: Sequence[str],
    name: str,
    about: str,
    kind: type[T],
    smoke: Mapping[str, Any] = SMOKE,
    common: Sequence[str] | None = None,
    more: Collection[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> tuple[T, Path | None]:
    """Returns the options of a command line, and the folder of the run that `--resume` names.

    Args:
        arguments: Of the command line.
        name: The command, "bydore" before it or not.
        about: The text of `--help`.
        kind: The class of the options.
        smoke: What `--smoke` presets.
        common: Options that `--help` lists, see `parse_options`.
        more: Options that `--help-all` lists too, see `parse_options`.
        defaults: The command's own.

    Raises:
        RunFolderError: When `--resume` names no run.
        ValueError: When other options stand beside `--resume`.
    """
    resume = resumed_run(arguments)
    if resume is not None:
        return resumed_options(resume, name.removeprefix("bydore "), kind), resume
    options = parse_options(
        arguments, name, about, kind, defaults, {"--smoke": smoke}, common, more
    )
    return options.resolved(), None
