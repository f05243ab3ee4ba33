"""Dataclasses as plain JSON values, and read from files again: checked by pydantic."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from bydore_pyro.errors import DataError, expecting, fault_of

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
RECORD = "record"  # in the header of a file of tensors
INFINITE = "infinite"  # JSON has no word for it
#: A number in a record. A missing one is None; an infinite one is a word in the file. None is NaN.
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
    """Reads the dataclass that `plain` wrote; see `parse_as`.

    Raises:
        OSError: When the file cannot be read.
        DataError: When a value is of another kind than its field; names the first.
    """
    return parse_as(kind, path.read_bytes(), path)


def parse_as(kind: type[T], text: str | bytes, path: Path) -> T:
    """Returns the dataclass that a file's JSON describes: unknown keys are passed over, missing
    ones have their defaults.

    Args:
        kind: The dataclass.
        text: The JSON.
        path: The file, for the message.

    Raises:
        DataError: When a value is of another kind than its field; names the first.
    """
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        fault = fault_of(error, place=f" in {path}")
        if not fault.startswith("Expected "):
            fault = f"Expected a valid record, found: {fault}"
        raise DataError(fault) from None


def read_with_tensors(kind: type[T], path: Path) -> tuple[T, dict[str, np.ndarray]]:
    """Reads a file of `RunFolder.write_tensors`: the record in its header, the tensors by name.

    Raises:
        DataError: When the file is damaged, or a value is of another kind than its field.
    """
    from safetensors import SafetensorError, safe_open

    told = f"Expected tensors and their record in {path}, found:"
    with expecting(told, SafetensorError, OSError), safe_open(path, framework="numpy") as file:
        text = (file.metadata() or {}).get(RECORD, "")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return parse_as(kind, text, path), tensors
