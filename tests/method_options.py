"""Options of every method, for a folder of small text."""

from __future__ import annotations

from pathlib import Path

from bydore_pyro.cli.fit import SMALL
from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.fit import MethodOptions
from bydore_pyro.setup.options import SMOKE

# The target is `a`: no mixture of the others is like it.
WITHHELD = ("--domains", "b", "c")


def options_for(text: Path, *more: str) -> MethodOptions:
    given = ["--smoke", "--data", str(text), "--validation", "a", "--cache", str(text.parent / "c")]
    return parse_options([*given, *more], "x", "", MethodOptions, smoke={**SMOKE, **SMALL})
