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
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, TypeVar

from bydore_pyro import files, terminal
from bydore_pyro.command_line.options import TokenCount, number_of_tokens, of_type
from bydore_pyro.errors import (
    DataError,
    NonFiniteError,
    RunFolderError,
    expecting,
    is_out_of_memory,
    one_line,
)

T = TypeVar("T")


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Returns whether arguments hold `-h`, `--help` or `--help-all`."""
    return not {"-h", "--help", "--help-all"}.isdisjoint(arguments)


def parse_options(
    arguments: Sequence[str],
    name: str,
    about: str,
    kind: type[T],
    defaults: Mapping[str, Any] | None = None,
    smoke: Mapping[str, Any] | None = None,
    common: Sequence[str] | None = None,
) -> T:
    """Turns arguments into options.

    The value of an option comes from the first of these that has one: the command line, the file
    that `--config` names, the `smoke` defaults, the command's defaults, the option's own default.

    Args:
        arguments: Of the command line.
        name: The command.
        about: The text of `--help`.
        kind: A dataclass whose fields are dataclasses of options.
        defaults: The command's own.
        smoke: Defaults where `--smoke` is given, as far as the command has such options.
        common: Options that `--help` lists, in this order; all when None. `--help-all` adds the
            rest.

    Raises:
        SystemExit: After `--help`, and with exit code 2 where an option is wrong or unknown.
    """
    parts, fields, hints = _fields_of(kind)
    values = {key: value for key, one in fields.items() if (value := _default(one)) is not MISSING}
    values |= defaults or {}
    listed = fields if common is None or "--help-all" in arguments else common
    parser = _parser(name, about, parts.values(), hints, values, common or (), listed)
    given = vars(parser.parse_args(arguments))
    if (config := given.pop("config", None)) is not None:
        given = _from_file(config, hints) | given
    if missing := [f"--{key}" for key in fields if key not in values | given]:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    return options_from(given, kind, defaults, smoke)


def options_from(
    given: Mapping[str, Any],
    kind: type[T],
    defaults: Mapping[str, Any] | None = None,
    smoke: Mapping[str, Any] | None = None,
) -> T:
    """Builds options from values by name, as a command line does from arguments.

    Args:
        given: Values. Where an option takes several, an object by name stands for NAME=VALUE, and
            one text for a list of it; a path stands for its text, text for a number of tokens.
        kind: A dataclass whose fields are dataclasses of options.
        defaults: See `parse_options`.
        smoke: Likewise.

    Raises:
        ValueError: When an option is unknown, wrong or missing.
    """
    parts, fields, hints = _fields_of(kind)
    if unknown := [key for key in given if key not in fields]:
        raise ValueError(f"Expected an option of a command, found '{unknown[0]}'")
    values = {key: value for key, one in fields.items() if (value := _default(one)) is not MISSING}
    values |= defaults or {}
    if given.get("smoke"):
        values |= {key: value for key, value in (smoke or {}).items() if key in fields}
    values |= {key: _plain(value, hints[key]) for key, value in given.items()}
    if missing := [key for key in fields if key not in values]:
        raise ValueError(f"Expected a value for {', '.join(missing)}, found none")
    made = {
        name: part(**{each.name: values[each.name] for each in dataclasses.fields(part)})
        for name, part in parts.items()
    }
    return kind(**made)


def _fields_of(
    kind: type[Any],
) -> tuple[dict[str, Any], dict[str, dataclasses.Field[Any]], dict[str, Any]]:
    """Returns the parts of a dataclass of options, and the fields and types of all by name."""
    parts, hints = typing.get_type_hints(kind), dict[str, Any]()
    fields = {each.name: each for part in parts.values() for each in dataclasses.fields(part)}
    for part in parts.values():
        hints |= typing.get_type_hints(part)
    return parts, fields, hints


def _plain(value: Any, hint: Any) -> Any:
    """Returns a value of Python as an option has it; the option's own check sees what is wrong."""
    kinds = (hint, *typing.get_args(hint))
    if any(typing.get_origin(one) is list for one in kinds):
        if isinstance(value, Mapping):
            return [f"{name}={share!r}" for name, share in value.items()]
        if isinstance(value, str | os.PathLike):
            value = [value]
        return [_plain(one, str) for one in value] if isinstance(value, list | tuple) else value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, str) and TokenCount in kinds:
        return number_of_tokens(value)
    return value


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(self.prog, message)


def _default(each: dataclasses.Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _parser(
    name: str,
    about: str,
    parts: Collection[type],
    hints: Mapping[str, Any],
    values: Mapping[str, Any],
    common: Sequence[str],
    listed: Container[str],
) -> argparse.ArgumentParser:
    """Returns a parser whose result holds only the options that were given.

    Args:
        name: The command.
        about: What it does.
        parts: Dataclasses of options, each a section of the help.
        hints: Types of the options.
        values: Defaults; options without one are required.
        common: Options of the first section.
        listed: Options that the help shows.
    """
    parser = _Parser(
        name,
        description=about,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        add_help=False,
    )
    fields = {each.name: each for part in parts for each in dataclasses.fields(part)}
    positional = [key for key, each in fields.items() if "positional" in each.metadata]
    first = parser.add_argument_group("options")
    places = dict.fromkeys([*positional, *common], first)
    for part in parts:
        section = parser.add_argument_group(re.split(r"\.\s|\.$", inspect.getdoc(part) or "")[0])
        for each in dataclasses.fields(part):
            places.setdefault(each.name, section)
    usage = [name]
    for key, group in places.items():
        metadata = fields[key].metadata
        place = metadata.get("positional")
        if key not in values:
            usage.append(place or f"--{key} {key.upper()}")
        shown = metadata.get("help", "") if place or key in listed else argparse.SUPPRESS
        _add(group, key, hints[key], values.get(key), shown, place)
    parser.usage = " ".join([*usage, "[options]"])
    text = "JSON or YAML file of options by name, such as a run's config.json. Options on "
    text += "the command line override it."
    first.add_argument("--config", metavar="FILE", help=text)
    first.add_argument("-h", "--help", action="help", help="Show this help.")
    text = "Show this help with all other options."
    first.add_argument("--help-all", action="help", help=text)
    return parser


def _add(group: Any, key: str, hint: Any, default: Any, about: str, place: str | None) -> None:
    """Adds an option, or the positional argument called `place`, to a section of the help."""
    hidden = argparse.SUPPRESS
    about = about.replace("%", "%%")
    kinds = typing.get_args(hint)
    if NoneType in kinds:
        (hint,) = (one for one in kinds if one is not NoneType)
    if hint is bool:
        on, off = (hidden, f"Turn off: {about}") if default and about != hidden else (about, hidden)
        group.add_argument(f"--{key}", action="store_true", help=on)
        group.add_argument(f"--no_{key}", dest=key, action="store_false", help=off)
        return
    if about != hidden and default not in (None, []):
        values = default if isinstance(default, list) else [default]
        shown = " ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
        about = re.sub(r" Default.*", "", about)  # it describes the default None or []
        about += f" (default: {shown.replace('%', '%%')})"
    given: dict[str, Any] = {"help": about}
    if typing.get_origin(hint) is list:
        given["nargs"] = "+"
        (hint,) = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        given["choices"] = typing.get_args(hint)
        hint = type(given["choices"][0])
    else:
        given["metavar"] = place or (key.upper() if hint is str else "N")
    group.add_argument(key if place else f"--{key}", type=hint, **given)


def _from_file(named: str, hints: Mapping[str, Any]) -> dict[str, Any]:
    """Reads options of known types from a file; none that is null."""
    with expecting(f"Expected a JSON or YAML file of options, found {named!r}:", Exception):
        content = files.yaml_or_json(Path(named).read_text("utf-8"))
    if not isinstance(content, dict):
        raise DataError(f"Expected options by name in {named}, found {type(content).__name__}")
    if any(isinstance(value, dict) for value in content.values()):
        content.pop("name", None)  # a run's config.json names the command
    pairs: list[tuple[str, Any]] = []  # of a run's config.json by part, else by name
    for key, value in content.items():
        pairs += value.items() if isinstance(value, dict) else [(key, value)]
    with expecting(f"Expected options by name in {named}, found:", DataError):
        flat = files.unique_keys(pairs)
    found = {}
    for key, value in flat.items():
        if key not in hints:
            raise DataError(f"Expected an option, found '{key}' in {named}")
        kinds = (hints[key], *typing.get_args(hints[key]))
        if value is None and NoneType in kinds:
            continue
        if isinstance(value, str) and TokenCount in kinds:
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

    terminal.quiet_unless_main()
    with terminal.ending_when_asked():
        try:
            with terminal.visible_streams(), warnings.catch_warnings():
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
            if not is_out_of_memory(error):
                raise
            fail(name, f"Expected enough memory, found too little: {one_line(error)}")
        except KeyboardInterrupt as error:
            fail(name, str(error) or "interrupted", code=getattr(error, "exit_code", 130))
        finally:
            files.release_folders()


def fail(name: str, message: str, code: int = 2, *, everywhere: bool = False) -> NoReturn:
    """Prints one line, `everywhere` also where other processes are quiet, and exits.

    Raises:
        SystemExit: Always.
    """
    quiet = everywhere and os.environ.get("RANK", "0") != "0"
    stream = sys.__stderr__ if quiet else sys.stderr
    print(f"{name}: error: {terminal.visible(one_line(message, None))}", file=stream)
    raise SystemExit(code)
