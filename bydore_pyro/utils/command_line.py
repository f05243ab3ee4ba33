"""Command lines out of dataclasses of options; a user's mistake ends as one line, exit code 2."""

from __future__ import annotations

import argparse
import json
import os
import sys
import typing
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from bydore_pyro.utils.errors import DataError, NonFiniteError, RunFolderError
from bydore_pyro.utils.files import yaml_or_json
from bydore_pyro.utils.folder_lock import folders_released
from bydore_pyro.utils.foreign_errors import familiar_errors, one_line
from bydore_pyro.utils.interrupts import ending_on_signals
from bydore_pyro.utils.terminal import quiet_unless_main, visible, visible_streams

__all__ = [
    "fail",
    "one_line_errors",
    "parse_options",
    "progress_bar",
    "require_utf8",
    "resumed_options",
    "resumed_run",
    "tell",
]

T = TypeVar("T")


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Adds an option's default to its help, if it has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, []) else super()._get_help_string(action)


def parse_options(
    arguments: Sequence[str],
    name: str,
    about: str,
    kind: type[T],
    defaults: Mapping[str, Any] | None = None,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
    common: Collection[str] | None = None,
    more: Collection[str] = (),
) -> T:
    """Turns arguments into options.

    Args:
        arguments: Of the command line.
        name: The command.
        about: The text of `--help`.
        kind: The class of the options: a dataclass whose fields are dataclasses of options.
        defaults: The command's own defaults.
        presets: Defaults on top of those where an argument is given, by that argument (`--flag` or
            `--option=value`). They apply as far as the command has such options; an option that is
            given wins.
        common: Options that `--help` lists; all when None.
        more: Options that `--help-all` lists too. Options in neither can be set only in a file
            given by `--config`.

    Raises:
        SystemExit: After `--help`, and with exit code 2 where an option is wrong or unknown.
    """
    from transformers import HfArgumentParser

    class Parser(HfArgumentParser):
        def add_argument(self, *names: str, **words: Any) -> argparse.Action:
            words.pop("range", None)  # a field's metadata; argparse knows no ranges
            if words.get("action") == "store_false":
                words["help"] = f"Turn off --{words['dest']}."
            return super().add_argument(*names, **words)

        def error(self, message: str) -> NoReturn:
            fail(name, message)

    configurations = typing.get_type_hints(kind)
    parser = Parser(
        tuple(configurations.values()),
        prog=name,
        description=about,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="JSON or YAML file of options by name, such as a run's config.json. Options on the "
        "command line override it.",
    )
    known = {option.dest for option in parser._actions}
    if common is not None:
        _offer(parser, arguments, {"help", "config", *common}, more)
    arguments = _with_config(arguments, known)
    require_utf8(name, arguments)
    own = dict(defaults or {})
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


def _offer(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    common: Collection[str],
    more: Collection[str],
) -> None:
    """Leaves options out of the help, and refuses those that are for files alone."""
    wants_all = "--help-all" in arguments
    given = {argument.partition("=")[0] for argument in arguments}
    for option in parser._actions:
        if option.dest not in common and not (wants_all and option.dest in more):
            option.help = argparse.SUPPRESS
        found = sorted(given.intersection(option.option_strings))
        if found and option.dest not in {*common, *more}:
            where = "in a file given by --config, found it on the command line"
            parser.error(f"Expected {found[0]} {where}")
    parser.epilog = (
        "--help-all lists more options. Rarely changed settings of the proxy, the guide and the "
        "methods can only be set in a file, given by --config."
    )
    if wants_all:
        parser.print_help()
        raise SystemExit(0)


def require_utf8(name: str, arguments: Sequence[str]) -> None:
    """Ends the program where an argument, such as a file's name, holds bytes that are not UTF-8.

    Neither JSON nor YAML nor tokenizers could take such a path; some would fail after hours.

    Raises:
        SystemExit: With exit code 2, after one line.
    """
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            fail(name, f"Expected arguments in UTF-8, found {argument!r}")


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
        parts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found, kinds = parts.pop("name"), typing.get_type_hints(kind)
        if found != name:
            raise ValueError(f"a run of {found}")
        if odd := parts.keys() ^ kinds.keys():
            raise ValueError(f"unknown or missing parts {sorted(odd)}")
        return kind(**{part: of_part(**parts[part]) for part, of_part in kinds.items()})
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise RunFolderError(f"Expected a run of {name} in {folder}, found none: {error}") from None


def _with_config(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """Puts the options of the file that `--config` names before the others."""
    rest, named = list(arguments), ""
    for place, argument in enumerate(arguments):
        if argument == "--config" or argument.startswith("--config="):
            named = argument.partition("=")[2] or " ".join(arguments[place + 1 : place + 2])
            del rest[place : place + (1 if "=" in argument else 2)]
            break
    else:
        return rest
    if any(argument.partition("=")[0] == "--config" for argument in rest):
        raise DataError("Expected one --config, found more")
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
        if key not in known or key == "config":
            raise DataError(f"Expected an option, found '{key}' in {named}")
        if value is None or value == []:
            continue
        values = value if isinstance(value, list) else [value]
        found += [f"--{key}", *(str(v).lower() if isinstance(v, bool) else str(v) for v in values)]
    return [*found, *rest]


@contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Ends the program where the block raises what a user can cause: one line, exit code 2.

    Also for the function of a command, as its decorator. Of several processes the first one prints.
    A warning of the block is one line too. A signal that ends the program (see
    `bydore_pyro.utils.interrupts`) is one line and the exit code that a shell expects.
    What would steer the terminal is shown as an escape.
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
    """Prints one line and exits; `everywhere` of several processes also where others are quiet."""
    quiet = everywhere and os.environ.get("RANK", "0") != "0"
    stream = sys.__stderr__ if quiet else sys.stderr
    print(f"{name}: error: {visible(one_line(message, None))}", file=stream)
    raise SystemExit(code)


def tell(line: str) -> None:
    """Prints a line of progress."""
    print(f"{visible(line)}\n", end="", file=sys.stderr)  # at once: threads tell too


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
