"""What a checkpoint belongs to: its run's seed, options, data and versions.

A run goes on from a checkpoint of the same seed, options and data alone. Other versions of the
packages may compute other bits: that is told, and the run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bydore_pyro.utils.errors import RunFolderError
from bydore_pyro.utils.run_folder import provenance

__all__ = ["check_belongs", "versions"]

PACKAGES = ("torch", "pyro-ppl", "bydore-pyro")
VERSIONS = "versions"


def versions() -> dict[str, str]:
    """Returns the versions that decide the bits of a result."""
    found = provenance()[VERSIONS]
    return {package: found[package] for package in PACKAGES}


def check_belongs(
    path: Path, saved: Mapping[str, Any], own: Mapping[str, Any], tell: Callable[[str], None]
) -> None:
    """Checks that a checkpoint belongs to the run that would go on from it.

    Args:
        path: The checkpoint's folder.
        saved: What it belongs to, by name, nested as far as need be.
        own: What the run is.
        tell: Is told of other versions.

    Raises:
        RunFolderError: When they differ; it names the first field that does.
    """
    of_saved, of_own = _flat(saved), _flat(own)
    for name in sorted({*of_saved, *of_own}, key=lambda n: (not n.startswith(VERSIONS), n)):
        before, now = of_saved.get(name, "nothing"), of_own.get(name, "nothing")
        if before == now:
            continue
        if name.startswith(VERSIONS):
            package = name.removeprefix(f"{VERSIONS}.")
            tell(
                f"warning: {path} was saved with {package} {before}, this is {now}: the result "
                "may differ in its last bits"
            )
        else:
            raise RunFolderError(
                f"Expected {name} {before!s:.60}, with which {path} was saved, found {now!s:.60}: "
                "a run continues only with what it was started with"
            )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested values by dotted names, as they come back from JSON."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = json.loads(json.dumps(value))
    return found
