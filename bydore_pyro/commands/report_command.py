"""``bydore report``: what runs found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bydore_pyro.command_line import fail, one_line_errors

__all__ = ["report_command"]


def report_command(arguments: Sequence[str]) -> None:
    """Prints what runs found: bydore report RUN ..."""
    from bydore_pyro.report import report_text

    name = "bydore report"
    if not arguments or any(argument.startswith("-") for argument in arguments):
        if set(arguments) & {"-h", "--help"}:
            print(f"usage: {name} RUN ...\n\n{report_command.__doc__}")
            return
        fail(name, f"Expected the folders of runs, found {' '.join(arguments) or 'none'}")
    with one_line_errors(name):
        for argument in arguments:
            if len(arguments) > 1:
                print(f"\n== {argument}")
            print(report_text(Path(argument)))
