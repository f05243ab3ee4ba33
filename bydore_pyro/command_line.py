"""Command lines out of dataclasses of options; a user's mistake ends as one line, exit code 2."""

from __future__ import annotations

import argparse
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from bydore_pyro.errors import DataError, NonFiniteError, RunFolderError

__all__ = ["fail", "one_line_errors", "parse_options", "progress_bar"]

T = TypeVar("T")


def parse_options(
    arguments: Sequence[str],
    name: str,
    about: str,
    kind: type[T],
    defaults: Mapping[str, Any] | None = None,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
) -> T:
    """Turns arguments into options.

    Args:
        arguments: Of the command line.
        name: The command.
        about: The text of `--help`.
        kind: The class of the options: a dataclass whose fields are dataclasses of options.
        defaults: The command's own defaults.
        presets: Defaults on top of those where an argument is given, by that argument. They apply
            as far as the command has such options; an option that is given wins.

    Raises:
        SystemExit: After `--help`, and with exit code 2 where an option is wrong or unknown.
    """
    from transformers import HfArgumentParser

    class Parser(HfArgumentParser):
        def error(self, message: str) -> NoReturn:
            fail(name, message)

    configurations = typing.get_type_hints(kind)
    parser = Parser(
        tuple(configurations.values()),
        prog=name,
        description=about,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    known = {option.dest for option in parser._actions}
    own = dict(defaults or {})
    for argument, preset in (presets or {}).items():
        if argument in arguments:
            own |= {key: value for key, value in preset.items() if key in known}
    parser.set_defaults(**own)
    *parsed, rest = parser.parse_args_into_dataclasses(
        list(arguments), return_remaining_strings=True, look_for_args_file=False
    )
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return kind(**dict(zip(configurations, parsed, strict=True)))


@contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Ends the program where the block raises what a user can cause: one line, exit code 2.

    A warning of the block is one line too.
    """

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"{name}: warning: {' '.join(str(message).split())}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    except (DataError, RunFolderError, NonFiniteError, ValueError) as error:
        fail(name, str(error))
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        fail(name, f"{error.strerror or error}{place}")
    except KeyboardInterrupt:
        fail(name, "interrupted", code=130)


def fail(name: str, message: str, code: int = 2) -> NoReturn:
    """Prints one line and exits."""
    print(f"{name}: error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


@contextmanager
def progress_bar() -> Iterator[Callable[[float, float, str], None]]:
    """Gives the block a function that shows how much of the sources has been read."""
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, desc="prepare", mininterval=0.5, disable=None) as bar:

        def show(done: float, total: float, taken: str) -> None:
            bar.total = total
            bar.set_postfix_str(taken, refresh=False)
            bar.update(int(done) - bar.n)

        yield show
