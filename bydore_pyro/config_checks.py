"""What all dataclasses of options check."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

__all__ = ["require_finite", "warn_idle"]


def require_finite(config: Any) -> None:
    """Raises ValueError when a number of a configuration dataclass is NaN or infinite."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"Expected a finite {field.name}, actual {value}")


def warn_idle(config: Any, names: Sequence[str], reason: str) -> None:
    """Warns of options that are set to other values than their defaults but have no effect."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name in names:
        if getattr(config, name) != defaults[name]:
            warnings.warn(f"{name} has no effect with {reason}", stacklevel=2)
