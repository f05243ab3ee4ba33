"""Dataclasses as plain JSON values, and read from files again: checked by pydantic."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from bydore_pyro.errors import DataError, fault_of

T = TypeVar("T")
INFINITE = "infinite"  # JSON has no word for it
#: A number as a dataclass of a record holds it; it may be infinite.
Number = Annotated[
    float,
    BeforeValidator(lambda value: math.inf if value == INFINITE else value),
    PlainSerializer(lambda value: INFINITE if value == math.inf else value),
]


def plain(record: Any) -> dict[str, Any]:
    """Returns a record as plain JSON values, without the fields of an empty one; infinity is a
    word."""
    found: dict[str, Any] = TypeAdapter(type(record)).dump_python(
        record, mode="json", exclude_defaults=True
    )
    return found


def read_as(kind: type[T], path: Path) -> T:
    """Reads the dataclass that `plain` wrote: unknown keys are passed over, missing ones have their
    defaults.

    Raises:
        OSError: When the file cannot be read.
        DataError: When a value is of another kind than its field; names the first.
    """
    try:
        found: T = TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
        return found
    except ValidationError as error:
        raise DataError(fault_of(error, place=f" in {path}")) from None
