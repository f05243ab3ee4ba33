"""Command lines out of dataclasses of options; a user's mistake ends as one line, exit code 2.

The parser is transformers' own. Neither tyro nor jsonargparse makes this file shorter: both answer
a mistake with many lines, list every option in the help, and know no options of files alone.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from bydore_pyro.utils.errors import (
    DataError,
    NonFiniteError,
    RunFolderError,
    familiar_errors,
    one_line,
)
from bydore_pyro.utils.files import yaml_or_json
from bydore_pyro.utils.folder_lock import folders_released
from bydore_pyro.utils.options import Tokens
from bydore_pyro.utils.terminal import (
    ending_on_signals,
    quiet_unless_main,
    visible,
    visible_streams,
)

if TYPE_CHECKING:
    from transformers import HfArgumentParser

__all__ = [
    "asks_for_help",
    "fail",
    "one_line_errors",
    "parse_options",
    "require_utf8",
    "with_subject",
]

T = TypeVar("T")


class _Help(argparse.HelpFormatter):
    """Shows an option in one spelling, a number as N, and the default behind the help."""

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return "N" if action.type in (int, float, Tokens) else action.dest.upper()

    def _format_action_invocation(self, action: argparse.Action) -> str:
        names = action.option_strings
        shown = ", ".join(names if names[0] == "-h" else names[:1])
        if action.nargs in (0, "?"):
            return shown
        default = self._get_default_metavar_for_optional(action)
        (value,) = self._metavar_formatter(action, default)(1)
        return f"{shown} {value}{' ...' if action.nargs == '+' else ''}"

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if default is None or default is False or default in ([], argparse.SUPPRESS):
            return action.help
        values = default if isinstance(default, list) else [default]
        shown = " ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
        about = re.sub(r" Default.*", "", action.help or "")  # tells of the default None or []
        return f"{about} (default: {shown.replace('%', '%%')})"


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Returns whether arguments hold `-h`, `--help` or `--help-all`."""
    return not {"-h", "--help", "--help-all"}.isdisjoint(arguments)


def with_subject(arguments: Sequence[str], expected: str) -> tuple[str, list[str]]:
    """Returns what a command is about, such as a run, which stands first, and the other arguments.

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
    presets: Mapping[str, Mapping[str, Any]] | None = None,
    common: Sequence[str] | None = None,
    more: Collection[str] | None = None,
    called: str | None = None,
) -> T:
    """Turns arguments into options.

    Args:
        arguments: Of the command line.
        name: The command.
        about: The text of `--help`.
        kind: A dataclass whose fields are dataclasses of options.
        defaults: The command's own.
        presets: Defaults where an argument (`--flag` or `--option=value`) is given, by it, as far
            as the command has such options.
        common: Options that `--help` lists, in this order; all when None.
        more: What `--help-all` adds; all others when None. The rest is set by `--config` alone.
        called: How the command line begins; `name` when None.

    Raises:
        SystemExit: After `--help`, and with exit code 2 where an option is wrong or unknown.
    """
    configurations = typing.get_type_hints(kind)
    parser = _parser(name, about, configurations.values(), called or name)
    known = {field.name for part in configurations.values() for field in dataclasses.fields(part)}
    own = dict(defaults or {})
    parser.set_defaults(**own)  # before the help shows them
    offered = known if more is None else {*(common or ()), *more}
    _arrange(parser, "--help-all" in arguments, configurations.values(), common, offered)
    _refuse(parser, arguments, known - offered)
    arguments = _with_config(arguments, known)
    require_utf8(name, arguments)
    asked, _ = parser.parse_known_args(arguments)
    for argument, preset in (presets or {}).items():
        option, _, wanted = argument.removeprefix("--").partition("=")
        if getattr(asked, option, None) == (wanted or True):
            own |= {key: value for key, value in preset.items() if key in known}
    parser.set_defaults(**own)
    *parsed, rest = parser.parse_args_into_dataclasses(
        list(arguments), return_remaining_strings=True, look_for_args_file=False
    )
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return kind(**dict(zip(configurations, parsed, strict=True)))


def _parser(name: str, about: str, parts: Iterable[type], called: str) -> HfArgumentParser:
    """Returns a parser of the options of some dataclasses, of `--config` and of the helps."""
    from transformers import HfArgumentParser

    class Parser(HfArgumentParser):
        def add_argument(self, *names: str, **words: Any) -> argparse.Action:
            words.pop("range", None)  # a field's metadata; argparse knows no ranges
            if words.get("action") == "store_false":
                words["help"] = f"Turn off --{words['dest']}."
            return super().add_argument(*names, **words)

        def error(self, message: str) -> NoReturn:
            fail(name, message)

    parser = Parser(
        tuple(parts),
        prog=name,
        description=about,
        formatter_class=_Help,
        allow_abbrev=False,
        add_help=False,
    )
    required = [f"--{a.dest} {a.dest.upper()}" for a in parser._actions if a.required]
    parser.usage = " ".join([called, *required, "[options]"])
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="JSON or YAML file of options by name, such as a run's config.json. Options on the "
        "command line override it.",
    )
    parser.add_argument("-h", "--help", action="help", help="Show this help.")
    parser.add_argument("--help-all", action="help", help="Show this help with all other options.")
    return parser


def _arrange(
    parser: argparse.ArgumentParser,
    show_all: bool,
    parts: Iterable[type],
    common: Sequence[str] | None,
    offered: Collection[str],
) -> None:
    """Puts the common options first in the help, and on request the others by their parts."""
    sections = [("options", [*(common or ()), "config", "help", "help_all"])]
    if common is None or show_all:
        for part in parts:
            about, names = inspect.getdoc(part) or "", [f.name for f in dataclasses.fields(part)]
            rest = [name for name in names if name in offered and name not in (common or ())]
            sections += [(re.split(r"\.\s|\.$", about)[0], rest)] if rest else []
    parser._action_groups.clear()
    for title, names in sections:
        group = parser.add_argument_group(title)
        for name in names:
            group._group_actions += [each for each in parser._actions if each.dest == name]


def _refuse(
    parser: argparse.ArgumentParser, arguments: Sequence[str], hidden: Collection[str]
) -> None:
    """Refuses options that can be set only in a file, and says so at the end of the help."""
    given = {argument.partition("=")[0] for argument in arguments}
    for option in parser._actions:
        if option.dest in hidden and (found := sorted(given.intersection(option.option_strings))):
            parser.error(f"Expected {found[0]} in a file given by --config, found it here")
    if hidden:
        parser.epilog = (
            "Settings that are seldom changed are set in a file, given by --config. The "
            "config.json of any run lists them all."
        )


def require_utf8(name: str, arguments: Sequence[str]) -> None:
    """Ends the program where an argument is not UTF-8: JSON or a tokenizer would fail after hours.

    Raises:
        SystemExit: With exit code 2, after one line.
    """
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            fail(name, f"Expected arguments in UTF-8, found {argument!r}")


def _with_config(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """Puts the options of the file that `--config` names before the others."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", action="append", nargs="?", const="", default=[])
    given, rest = finder.parse_known_args(arguments)
    if not given.config:
        return rest
    if len(given.config) > 1:
        raise DataError("Expected one --config, found more")
    (named,) = given.config
    try:
        content = yaml_or_json(Path(named).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"Expected a JSON or YAML file of options, found {named!r}: {one_line(error)}"
        ) from None
    if not isinstance(content, dict):
        raise DataError(f"Expected options by name in {named}, found {type(content).__name__}")
    if any(isinstance(value, dict) for value in content.values()):
        content.pop("name", None)  # a run's config.json names the command
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= value if isinstance(value, dict) else {key: value}
    found = []
    for key, value in flat.items():
        if key not in known:
            raise DataError(f"Expected an option, found '{key}' in {named}")
        if value is None or value == []:
            continue
        values = value if isinstance(value, list) else [value]
        found += [f"--{key}", *(str(v).lower() if isinstance(v, bool) else str(v) for v in values)]
    return [*found, *rest]


@contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Ends the program where the block raises what a user can cause: one line, exit code 2.

    Also as the decorator of a command. Of several processes the first one prints. Warnings and
    signals (`bydore_pyro.utils.terminal`) are one line each.

    Raises:
        SystemExit: With 2, the signal's exit code, or 141 when nobody reads the output.
    """

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"{name}: warning: {one_line(message, None)}", file=sys.stderr)

    quiet_unless_main()
    with ending_on_signals() as deaf:
        try:
            with (
                visible_streams(),
                warnings.catch_warnings(),
                folders_released(),
                familiar_errors(),
            ):
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
        except KeyboardInterrupt as error:
            deaf()
            fail(name, str(error) or "interrupted", code=getattr(error, "exit_code", 130))


def fail(name: str, message: str, code: int = 2, *, everywhere: bool = False) -> NoReturn:
    """Prints one line, `everywhere` also where other processes are quiet, and exits.

    Raises:
        SystemExit: Always.
    """
    quiet = everywhere and os.environ.get("RANK", "0") != "0"
    stream = sys.__stderr__ if quiet else sys.stderr
    print(f"{name}: error: {visible(one_line(message, None))}", file=stream)
    raise SystemExit(code)
