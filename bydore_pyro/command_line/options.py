"""Dataclasses of options: fields, checks, numbers of tokens, and `--resume`."""

from __future__ import annotations

import dataclasses
import math
import shlex
import typing
import warnings
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bydore_pyro import files
from bydore_pyro.errors import RunFolderError, expecting, fault_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

#: Of numbers of tokens.
SUFFIXES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
COMMANDS = ("search", "fit", "train")  # that take --resume; every experiment is a script
DEEPEST = 3  # how many folders below a run another may lie
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Range:
    """The values of an option, or of each entry of a list: in [least, most] or (above, below)."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most and self.above < value < self.below

    def __str__(self) -> str:
        """The range as a message writes it behind "Expected NAME"."""
        least, most, above, below = map(_short, (self.least, self.most, self.above, self.below))
        open_low, open_high = self.above > -math.inf, self.below < math.inf
        if min(self.most, self.below) == math.inf:
            return f"> {above}" if open_low else f">= {least}"
        low = f"({above}" if open_low else f"[{least}"
        return f"in {low}, {below})" if open_high else f"in {low}, {most}]"


def _short(number: float) -> str:
    return "2**31" if number == 2**31 else f"{number:g}"


def option(default: Any, help: str = "", *, positional: str | None = None, **ends: float) -> Any:
    """Returns a field of a dataclass of options.

    Args:
        default: `dataclasses.MISSING` where the option must be given; a list is copied.
        help: What `--help` says of it.
        positional: Its name in the help, if it is a positional argument of the command line.
        ends: Of its `Range`, which `require_fields` checks.
    """
    metadata: dict[str, Any] = {"help": help}
    if positional:
        metadata["positional"] = positional
    if ends:
        metadata["range"] = Range(**ends)
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def of_type(value: Any, hint: Any, name: str, place: str = "") -> Any:
    """Returns a value as the type of an option has it: a whole number as a float where it is one.

    Args:
        value: To be checked; nothing else is converted.
        hint: The type, such as ``list[str] | None``.
        name: Of the option.
        place: Where it stands, such as " in FILE".

    Raises:
        ValueError: When it, or an entry of it, is of another type, NaN or infinite.
    """
    from pydantic import ValidationError

    for one in value if isinstance(value, list) else [value]:
        # Pydantic takes each for a float: NumPy's and torch's numbers, decimals. JSON takes none.
        if hasattr(one, "__float__") and not isinstance(one, int | float):
            raise ValueError(f"Expected a plain number as '{name}'{place}, found {one!r:.60}")
    try:
        return _adapter(hint).validate_python(value)
    except ValidationError as error:
        raise ValueError(fault_of(error, name, place)) from None


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))


def require_fields(config: Any) -> None:
    """Checks the types and the ranges of the fields of a configuration dataclass.

    Raises:
        ValueError: When a value is of another type (`of_type`), empty or out of its range.
    """
    hints = typing.get_type_hints(type(config))
    for each in dataclasses.fields(config):
        name, value, hint = each.name, getattr(config, each.name), hints[each.name]
        of_type(value, hint, name)
        if value == "":
            raise ValueError(f"Expected a value for --{name}, found an empty one")
        allowed = each.metadata.get("range")
        if allowed is None or value is None:
            continue
        for one in value if isinstance(value, list) else [value]:
            if one not in allowed:
                raise ValueError(f"Expected {name} {allowed}, actual {one!r}")


class Checked:
    """What dataclasses of options inherit: `require_fields` is called when one is made.

    Raises:
        ValueError: When an option is of another type or out of its range.
    """

    def __post_init__(self) -> None:
        require_fields(self)


def warn_idle(config: Any, names: Sequence[str], reason: str) -> None:
    """Warns of options that differ from their defaults but have no effect."""
    defaults = {each.name: each.default for each in dataclasses.fields(config)}
    for name in names:
        if getattr(config, name) != defaults[name]:
            warnings.warn(f"{name} has no effect with {reason}", stacklevel=2)


def number_of_tokens(text: str) -> float:
    """Returns a number of tokens, > 0, from text with an optional suffix K, M, B or T.

    Raises:
        ValueError: When it is not one, or not positive.
    """
    scale = SUFFIXES.get(text[-1:].upper(), 1.0)
    try:
        number = float(text[:-1] if scale != 1.0 else text) * scale
        if not 0 < number < 1e18:
            raise ValueError
    except ValueError:
        raise ValueError(f"Expected tokens such as 4e6 or 0.4B, found '{text}'") from None
    return number


class TokenCount(float):
    """A number of tokens as the type of an option: `4e6`, and on a command line `4M` too."""

    def __new__(cls, value: str | float) -> Self:
        try:
            return super().__new__(
                cls, number_of_tokens(value) if isinstance(value, str) else value
            )
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """As pydantic checks one: a number."""
        return handler(float)


def resumed_run(arguments: Sequence[str]) -> Path | None:
    """Returns the folder that `--resume` names, None without it.

    Raises:
        ValueError: When other options stand beside it, or it names nothing.
    """
    words = [*arguments]
    if words and words[0].startswith("--resume="):
        words[:1] = words[0].split("=", 1)
    if "--resume" not in words:
        return None
    if len(words) != 2 or words[0] != "--resume" or not words[1]:
        raise ValueError(
            f"Expected --resume RUN and no other option, found {' '.join(arguments)}: a run "
            "continues with the options that it was started with"
        )
    return Path(words[1])


def resume_command(folder: Path) -> str:
    """Returns the command that goes on with a run, or with the run that its folder lies in."""
    run, name = folder, "search"
    for path in (folder, *folder.parents[:DEEPEST]):
        with suppress(OSError, ValueError, TypeError, KeyError):
            run, name = path, str(files.read_json(path / "config.json")["name"])
    command = f"bydore {name}" if name in COMMANDS else f"python experiments/{name}.py"
    return f"{command} --resume {shlex.quote(str(run))}"


def resumed_options(folder: Path, name: str, kind: type[T]) -> T:
    """Reads the options of a run of the command `name` from its config.json.

    Raises:
        RunFolderError: When the folder holds no run, or another command's.
    """
    told = f"Expected a run of {name} in {folder}, found none:"
    with expecting(told, Exception, as_error=RunFolderError):
        config = files.read_json(folder / "config.json")
        if not isinstance(config, dict) or not isinstance(found := config.pop("name", None), str):
            raise ValueError("a config.json without the name of a command")
        if found != name:
            raise ValueError(f"a run of {found}")
        return options_of(config, kind)


def options_of(config: Mapping[str, Any], kind: type[T]) -> T:
    """Builds options from values by part, as a run's files hold them; the rest are defaults.

    Raises:
        ValueError: When a part is missing, or an option or its value is none of `kind`.
    """
    kinds = typing.get_type_hints(kind)
    if odd := config.keys() ^ kinds.keys():
        raise ValueError(f"unknown or missing parts {sorted(odd)}")
    for part, of_part in kinds.items():
        if not isinstance(config[part], dict):
            raise ValueError(f"{config[part]!r:.60} instead of the options of '{part}'")
        if odd := config[part].keys() - {each.name for each in dataclasses.fields(of_part)}:
            raise ValueError(f"unknown options {sorted(odd)} of '{part}'")
    return kind(**{part: of_part(**config[part]) for part, of_part in kinds.items()})
