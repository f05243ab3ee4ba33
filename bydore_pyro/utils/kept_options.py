"""The options of an earlier run: `--resume`, and what a run's files keep of its options."""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bydore_pyro.utils.errors import RunFolderError

__all__ = ["options_of", "resumed_options", "resumed_run"]

T = TypeVar("T")


def resumed_run(arguments: Sequence[str]) -> Path | None:
    """Returns the folder that `--resume` names, None without it.

    Raises:
        ValueError: When other options stand beside it, or it names nothing.
    """
    given = list(arguments)
    for place, argument in enumerate(arguments):
        if argument.startswith("--resume="):
            given[place : place + 1] = ["--resume", argument.removeprefix("--resume=")]
    if "--resume" not in given:
        return None
    if len(given) != 2 or given[0] != "--resume" or not given[1]:
        raise ValueError(
            f"Expected --resume RUN and no other option, found {' '.join(arguments)}: a run "
            "continues with the options that it was started with"
        )
    return Path(given[1])


def resumed_options(folder: Path, name: str, kind: type[T]) -> T:
    """Returns the options that a run of a command was begun with, out of its config.json.

    Args:
        folder: The run's.
        name: The command.
        kind: The class of the options, as for `parse_options`.

    Raises:
        RunFolderError: When the folder holds no run, or another command's.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = config.pop("name")
        if found != name:
            raise ValueError(f"a run of {found}")
        return options_of(config, kind)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise RunFolderError(f"Expected a run of {name} in {folder}, found none: {error}") from None


def options_of(config: Mapping[str, Any], kind: type[T]) -> T:
    """Returns options out of their values by part, as a run's config.json and results.json hold.

    Options that are missing get their defaults.

    Args:
        config: The values.
        kind: The class of the options, as for `parse_options`.

    Raises:
        TypeError, ValueError: When a part is missing, or an option or its value is none of `kind`.
    """
    kinds = typing.get_type_hints(kind)
    if odd := config.keys() ^ kinds.keys():
        raise ValueError(f"unknown or missing parts {sorted(odd)}")
    return kind(**{part: of_part(**config[part]) for part, of_part in kinds.items()})
