"""What a file says of domains, before it is known whether it is a mixture: names and values."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bydore_pyro import files
from bydore_pyro.command_line import SUFFIXES
from bydore_pyro.errors import listed
from bydore_pyro.mixture.units import Unit

# YAML 1.1 misses 5e-06.
NUMBER = re.compile(r"[-+]?([0-9]+(_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
PERCENT = re.compile(rf"({NUMBER.pattern})\s*%")
AMOUNT = re.compile(rf"({NUMBER.pattern})\s*([KMBT])", re.IGNORECASE)
NOTHING = ("", "~", "null", "Null", "NULL")  # of YAML, as text
SHOWN = 3  # names in a message
EXAMPLE = (
    "a file of weights holds names and numbers, such as {web: 0.7, law: 0.3}, or a table with the "
    "columns domain and weight"
)
#: Names of what stands beside domains for a reader.
COMMENT = re.compile(r"_.*|//.*|#.*|\$.*|comments?|notes?|description", re.IGNORECASE)
#: Whole names that stand beside weights and are no domain's, and why.
NO_DOMAIN = {
    "a setting": r"((random|data)_)?seed|((max|min|peak)_)?(lr|learning_rate)|wd|weight_decay|"
    r"warmup\w*|dropout|momentum|(adam_)?(beta_?[12]|eps|epsilon)|(grad(ient)?_)?clip\w*|"
    r"temperature|((global|micro|train)_)?batch(_size)?|gpus?|nodes|world_size|fold|rank|trial|"
    r"version|(max|num|total|train)_(steps|epochs|tokens)|steps",
    "a total": r"((grand|sub|over_?all)_?)?(total|sum)|(total|sum)_(of_)?weights?|"
    r"weights?_(sum|total)|overall|in_all",
}


class Listed(NamedTuple):
    """What a file says of domains.

    Attributes:
        weights: By name, as they stand in the file: numbers, text, or what cannot be a weight.
        declared: Whether the file's layout says that these are weights and all names domains.
        cut: What was cut off the names, in words; empty where they stand so in the file.
        unit: What the numbers are of, by the layout.
        remarks: What else was not read, or in which of two ways, each in words.
        guess: How the unit was taken, where the layout leaves it open, in words.
        others: Other names of the same domains, in their order, by what they are called there.
    """

    weights: dict[str, Any]
    declared: bool = True
    cut: str = ""
    unit: Unit = "tokens"
    remarks: tuple[str, ...] = ()
    guess: str = ""
    others: tuple[tuple[str, tuple[str, ...]], ...] = ()


def looks_like(kind: str, name: str) -> bool:
    """Whether a name is called as a kind of `NO_DOMAIN` is."""
    return bool(re.fullmatch(NO_DOMAIN[kind], re.sub(r"[\s-]", "_", name.strip()), re.IGNORECASE))


def is_number(value: Any) -> bool:
    """Whether a value is a number, or text that is one: also a percentage, and 130M."""
    if isinstance(value, str):
        return any(pattern.fullmatch(value.strip()) for pattern in (NUMBER, PERCENT, AMOUNT))
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_of(value: Any, name: str) -> float:
    """Returns a value as a number, >= 0 and finite; a percentage as the number before its sign.

    Raises:
        ValueError: When it is none; names whose it is.
    """
    if not is_number(value):
        raise ValueError(
            f"{reprlib.repr(value)} instead of a number as the weight of {name!r:.60}: {EXAMPLE}"
        )
    text = value.strip() if isinstance(value, str) else value
    scale = 1.0
    if isinstance(text, str) and (amount := AMOUNT.fullmatch(text)):
        text, scale = amount[1], SUFFIXES[text[-1].upper()]
    elif isinstance(text, str):
        text = text.removesuffix("%").rstrip()
    try:
        number = float(text) * scale
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise ValueError(f"{number} as the weight of {name!r:.60}")
    return number + 0.0  # a text may say -0


def paired(names: Sequence[Any], weights: Any) -> dict[str, Any]:
    """Returns two lists as one mapping.

    Raises:
        ValueError: When their lengths differ, or a name is none or stands twice.
    """
    if not isinstance(weights, list | tuple):
        raise ValueError(f"{shown(weights)} instead of a list of weights")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{reprlib.repr(name)} instead of a name in quotes")
    if len(names) != len(weights):
        raise ValueError(f"{len(names)} domains and {len(weights)} weights")
    return files.unique_keys(list(zip(names, weights, strict=True)))


def item(value: Any, key: str, place: str) -> Any:
    """Returns what a mapping has under a key; `place` says where it stands, for the message.

    Raises:
        ValueError: When it is no mapping, or has no such key.
    """
    found = mapping(value, place)
    if key not in found:
        raise ValueError(f"no '{key}' in {place}, but {keys_of(found)}: {EXAMPLE}")
    return found[key]


def keys_of(found: Mapping[Any, Any]) -> str:
    """Writes the keys of a mapping for a message."""
    return listed([f"'{one}'" for one in found], SHOWN) or "nothing"


def mapping(value: Any, place: str) -> dict[str, Any]:
    """Returns a value that must be a mapping.

    Raises:
        ValueError: When it is none.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} instead of a mapping under {place}")
    return value


def sequence(found: Mapping[str, Any], key: str) -> list[Any]:
    """Returns the list that a mapping must have under a key.

    Raises:
        ValueError: When there is none.
    """
    value = found.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{shown(value)} instead of a list under '{key}'")
    return value


def shown(value: Any) -> str:
    """Writes a value for a message."""
    return "nothing" if value in (None, *NOTHING) else reprlib.repr(value)
