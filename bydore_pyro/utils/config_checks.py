"""What dataclasses of options check, and how they read numbers of tokens."""

from __future__ import annotations

import dataclasses
import math
import typing
import warnings
from collections.abc import Sequence
from typing import Any

__all__ = ["number_of_tokens", "require_fields", "require_finite", "warn_idle"]

SUFFIXES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def require_finite(config: Any) -> None:
    """Raises ValueError when a number of a configuration dataclass is NaN or infinite."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"Expected a finite {field.name}, actual {value}")


def require_fields(config: Any) -> None:
    """Checks what the types of a configuration dataclass promise.

    Raises:
        ValueError: When a number is NaN or infinite, a text is empty, or a value is none of its
            `Literal`'s.
    """
    require_finite(config)
    for name, hint in typing.get_type_hints(type(config)).items():
        value, choices = getattr(config, name), typing.get_args(hint)
        if value == "":
            raise ValueError(f"Expected a value for --{name}, found an empty one")
        if typing.get_origin(hint) is typing.Literal and value not in choices:
            known = ", ".join(map(repr, choices))
            raise ValueError(f"Expected {name} one of {known}, actual {value!r}")


def warn_idle(config: Any, names: Sequence[str], reason: str) -> None:
    """Warns of options that are set to other values than their defaults but have no effect."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name in names:
        if getattr(config, name) != defaults[name]:
            warnings.warn(f"{name} has no effect with {reason}", stacklevel=2)


def number_of_tokens(text: str) -> float:
    """Returns a number with an optional suffix K, M, B or T.

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
