"""Command lines out of dataclasses of options; a user's mistake ends as one line, exit code 2.

The parser is argparse's. Neither tyro nor jsonargparse makes this file shorter: both answer a
mistake with many lines and list every option in the help.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import re
import sys
import typing
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, TypeVar

from bydore_pyro.command_line.options import Tokens, number_of_tokens, of_type
from bydore_pyro.errors import (
    DataError,
    NonFiniteError,
    RunFolderError,
    expecting,
    one_line,
)
from bydore_pyro.files import release_folders, unique_keys, yaml_or_json
from bydore_pyro.terminal import ending_when_asked, quiet_unless_main, visible, visible_streams

T = TypeVar("T")


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Returns whether arguments hold `-h`, `--help` or `--help-all`."""
    return not {"-h", "--help", "--help-all"}.isdisjoint(arguments)


def with_subject(arguments: Sequence[str], expected: str) -> tuple[str, list[str]]:
    """Splits arguments into the subject, such as a run, which stands first, and the rest.

    Raises:
        ValueError: When an option stands first, and no help is asked for.
    """
    if asks_for_help(arguments):
        return "", [argument for argument in arguments if asks_for_help([argument])]
    if not arguments or not arguments[0] or arguments[0].startswith("-"):
        raise ValueError(f"Expected {expected}, found {' '.join(arguments) or 'nothing'}")
    return arguments[0], list(arguments[1:])


def parse_options(
    arguments: Sequence[str],
    name: str,
    about: str,
    kind: type[T],
    defaults: Mapping[str, Any] | None = None,
    smoke: Mapping[str, Any] | None = None,
    common: Sequence[str] | None = None,
    called: str | None = None,
) -> T:
    """Turns arguments into options.

    The command line wins over the file that `--config` names, this over the `smoke` defaults, over
    the command's, over the options' own.

    Args:
        arguments: Of the command line.
        name: The command.
        about: The text of `--help`.
        kind: A dataclass whose fields are dataclasses of options.
        defaults: The command's own.
        smoke: Defaults where `--smoke` is given, as far as the command has such options.
        common: Options that `--help` lists, in this order; all when None. `--help-all` adds the
            rest.
        called: How the command line begins; `name` when None.

    Raises:
        SystemExit: After `--help`, and with exit code 2 where an option is wrong or unknown.
    """
    parts = typing.get_type_hints(kind)
    fields = {each.name: each for part in parts.values() for each in dataclasses.fields(part)}
    own = {key: value for key, one in fields.items() if (value := _default(one)) is not MISSING}
    own |= defaults or {}
    listed = {*(fields if common is None or "--help-all" in arguments else common)}
    parser = _parser(name, about, parts.values(), own, common or (), listed)
    required = [f"--{key} {key.upper()}" for key in fields if key not in own]
    parser.usage = " ".join([called or name, *required, "[options]"])
    given = vars(parser.parse_args(arguments))
    if (config := given.pop("config", None)) is not None:
        given = _from_file(config, _hints(parts.values())) | given
    require_utf8(name, [text for text in given.values() if isinstance(text, str)])
    if given.get("smoke"):
        own |= {key: value for key, value in (smoke or {}).items() if key in fields}
    own |= given
    if missing := [f"--{key}" for key in fields if key not in own]:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    made = {
        name: part(**{each.name: own[each.name] for each in dataclasses.fields(part)})
        for name, part in parts.items()
    }
    return kind(**made)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(self.prog, message)


def _hints(parts: Iterable[type]) -> dict[str, Any]:
    """Returns the type of each option of some parts, by name."""
    return {name: hint for part in parts for name, hint in typing.get_type_hints(part).items()}


def _default(each: dataclasses.Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _parser(
    name: str,
    about: str,
    parts: Collection[type],
    own: Mapping[str, Any],
    common: Sequence[str],
    listed: Collection[str],
) -> argparse.ArgumentParser:
    """Returns a parser that keeps only the options given; its help shows the `listed` options,
    first the common ones, then the others by their parts."""
    parser = _Parser(name, description=about, argument_default=argparse.SUPPRESS,
                     allow_abbrev=False, add_help=False)  # fmt: skip
    fields: dict[str, dataclasses.Field[Any]] = {}
    hints = _hints(parts)
    sections = {"options": list(common)}
    for part in parts:
        of_part = {each.name: each for each in dataclasses.fields(part)}
        title = re.split(r"\.\s|\.$", inspect.getdoc(part) or "")[0]
        sections[title] = [key for key in of_part if key not in common]
        fields |= of_part
    for title, keys in sections.items():
        group = parser.add_argument_group(title)
        for key in keys:
            about = fields[key].metadata.get("help", "") if key in listed else argparse.SUPPRESS
            _add(group, key, hints[key], own.get(key), about)
        if title == "options":
            text = "JSON or YAML file of options by name, such as a run's config.json. Options on "
            text += "the command line override it."
            group.add_argument("--config", metavar="FILE", help=text)
            group.add_argument("-h", "--help", action="help", help="Show this help.")
            text = "Show this help with all other options."
            group.add_argument("--help-all", action="help", help=text)
    return parser


def _add(group: Any, key: str, hint: Any, default: Any, about: str) -> None:
    """Adds an option; its help names the default that a user gets."""
    about = about.replace("%", "%%")
    kinds = typing.get_args(hint)
    if NoneType in kinds:
        (hint,) = (one for one in kinds if one is not NoneType)
    if hint is bool:
        hidden = argparse.SUPPRESS
        on, off = (hidden, f"Turn off: {about}") if default and about != hidden else (about, hidden)
        group.add_argument(f"--{key}", action="store_true", help=on)
        group.add_argument(f"--no_{key}", dest=key, action="store_false", help=off)
        return
    if about != argparse.SUPPRESS and default not in (None, []):
        values = default if isinstance(default, list) else [default]
        shown = " ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
        about = re.sub(r" Default.*", "", about)  # it describes the default None or []
        about += f" (default: {shown.replace('%', '%%')})"
    if typing.get_origin(hint) is typing.Literal:
        group.add_argument(f"--{key}", choices=typing.get_args(hint), help=about)
        return
    many = typing.get_origin(hint) is list
    (hint,) = typing.get_args(hint) if many else (hint,)
    metavar = key.upper() if hint is str else "N"
    group.add_argument(
        f"--{key}", type=hint, nargs="+" if many else None, metavar=metavar, help=about
    )


def require_utf8(name: str, arguments: Sequence[str]) -> None:
    """Ends the program if an argument is not UTF-8: JSON or a tokenizer would fail after hours.

    Raises:
        SystemExit: With exit code 2, after one line.
    """
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            fail(name, f"Expected arguments in UTF-8, found {argument!r}")


def _from_file(named: str, hints: Mapping[str, Any]) -> dict[str, Any]:
    """Reads options of known types from a file; none that is null."""
    with expecting(f"Expected a JSON or YAML file of options, found {named!r}:", Exception):
        content = yaml_or_json(Path(named).read_text("utf-8"))
    if not isinstance(content, dict):
        raise DataError(f"Expected options by name in {named}, found {type(content).__name__}")
    if any(isinstance(value, dict) for value in content.values()):
        content.pop("name", None)  # a run's config.json names the command
    pairs: list[tuple[str, Any]] = []  # of a run's config.json by part, else by name
    for key, value in content.items():
        pairs += value.items() if isinstance(value, dict) else [(key, value)]
    with expecting(f"Expected options by name in {named}, found:", DataError):
        flat = unique_keys(pairs)
    found = {}
    for key, value in flat.items():
        if key not in hints:
            raise DataError(f"Expected an option, found '{key}' in {named}")
        kinds = (hints[key], *typing.get_args(hints[key]))
        if value is None and NoneType in kinds:
            continue
        if isinstance(value, str) and Tokens in kinds:
            value = number_of_tokens(value)
        found[key] = of_type(value, hints[key], key, f" in {named}")
    return found


@contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Ends the program with one line and exit code 2 if the block raises a user's mistake.

    Also as the decorator of a command. Of several processes the first one prints. Warnings and
    requests to stop (`bydore_pyro.terminal.signals`) are one line each.

    Raises:
        SystemExit: With 2, the signal's exit code, or 141 when nobody reads the output.
    """

    told = set()  # what is read twice is told once

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if (line := one_line(message, None)) not in told:
            told.add(line)
            print(f"{name}: warning: {line}", file=sys.stderr)

    quiet_unless_main()
    with ending_when_asked():
        try:
            with visible_streams(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
                warnings.showwarning = show
                yield
        except NonFiniteError as error:  # of several processes perhaps in this one alone
            fail(name, str(error), everywhere=True)
        except (DataError, RunFolderError, ValueError) as error:
            fail(name, str(error))
        except BrokenPipeError:  # the reader of the output has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(141) from None
        except OSError as error:
            place = f": {error.filename}" if error.filename else ""
            fail(name, f"{error.strerror or error}{place}")
        except (MemoryError, RuntimeError) as error:
            # torch.OutOfMemoryError, by its name: most commands do without torch.
            if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryError":
                raise
            fail(name, f"Expected enough memory, found too little: {one_line(error)}")
        except KeyboardInterrupt as error:
            fail(name, str(error) or "interrupted", code=getattr(error, "exit_code", 130))
        finally:
            release_folders()


def fail(name: str, message: str, code: int = 2, *, everywhere: bool = False) -> NoReturn:
    """Prints one line, `everywhere` also where other processes are quiet, and exits.

    Raises:
        SystemExit: Always.
    """
    quiet = everywhere and os.environ.get("RANK", "0") != "0"
    stream = sys.__stderr__ if quiet else sys.stderr
    print(f"{name}: error: {visible(one_line(message, None))}", file=stream)
    raise SystemExit(code)
