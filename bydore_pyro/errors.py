"""Errors that a user can cause and mend; the command line shows each as one line, exit code 2."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

__all__ = ["DataError", "NonFiniteError", "RunFolderError", "require_finite"]


def require_finite(config: Any) -> None:
    """Raises ValueError when a number of a configuration dataclass is NaN or infinite."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"Expected a finite {field.name}, actual {value}")


class DataError(ValueError):
    """The text, the tokens or the domains are not what the run needs."""


class RunFolderError(ValueError):
    """An output folder cannot be used."""


class NonFiniteError(ArithmeticError):
    """A loss, signal, hypergradient or posterior parameter is NaN or infinite."""
