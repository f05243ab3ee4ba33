"""Errors that a user can cause and correct, each in one line."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pydantic import ValidationError


class DataError(ValueError):
    """The text, the tokens or the domains are not what the run needs."""


class RunFolderError(ValueError):
    """An output folder cannot be used."""


class NonFiniteError(ArithmeticError):
    """A loss, hypergradient or posterior parameter is NaN or infinite."""


def require(module: str, extra: str) -> ModuleType:
    """Imports a module of an optional package, one that an extra of this package installs.

    Raises:
        DataError: When it cannot be imported; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a shared library that is missing
        name = module.partition(".")[0]
        package = {"sklearn": "scikit-learn", "lm_eval": "lm-eval"}.get(name, name)
        raise DataError(
            f"Expected the package {package}, found none ({error}): "
            f"pip install 'bydore-pyro[{extra}]'"
        ) from None


def one_line(error: object, most: int | None = 200) -> str:
    """Shortens a library's error, which may be pages, to one line of `most` characters."""
    return " ".join(str(error).split())[:most]


def listed(names: Iterable[str], most: int = 24) -> str:
    """Joins names for a message; of many names only the first."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def fault_of(error: ValidationError, name: str = "", place: str = "") -> str:
    """Returns in one line the first fault that pydantic found in a value.

    Args:
        error: What pydantic raised.
        name: Of the value.
        place: Where the value stands, such as " in FILE".
    """
    first = error.errors()[0]
    message = first["msg"].replace("Input should be", "Expected")
    if where := ".".join(map(str, [name] * bool(name) + [*first["loc"]])):
        return f"{message} as '{where}'{place}, found {first['input']!r:.60}"
    return f"{message}{place}"


def distinct(
    expected: float, found: float, digits: int = 3, kind: Literal["g", "f"] = "g"
) -> tuple[str, str]:
    """Writes two different numbers for a message, with so many digits that they look different.

    Args:
        expected: The one.
        found: The other.
        digits: How many to begin with, as `kind` counts them.
        kind: Python's format, significant digits or decimals.
    """
    for more in range(digits, 20):
        shown = f"{expected:.{more}{kind}}", f"{found:.{more}{kind}}"
        if shown[0] != shown[1]:
            break
    return shown


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is Python's or torch's of memory; most commands do without torch."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


@contextmanager
def expecting(
    expected: str, *errors: type[Exception], as_error: type[ValueError] = DataError
) -> Iterator[None]:
    """Turns errors of the block into one line: `expected`, a space and what the error says.

    Args:
        expected: Such as "Expected a table, found FILE:", or "Expected a table in FILE, found".
        errors: Those that are turned; by default all but a `DataError` and want of memory.
        as_error: What they become.

    Raises:
        DataError, or `as_error`: Instead of these.
    """
    turned = errors or (Exception,)
    try:
        yield
    except turned as error:
        if not errors and (isinstance(error, DataError) or is_out_of_memory(error)):
            raise
        found = one_line(error, 300)
        if not found or not (isinstance(error, ValueError) or getattr(error, "errno", None)):
            found = f"{type(error).__name__}: {found}"  # a KeyError says the key alone
        raise as_error(f"{expected} {found}") from error
