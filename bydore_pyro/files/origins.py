"""Where a result comes from: the commit and the versions of packages."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

DECISIVE = ("torch", "pyro-ppl", "bydore-pyro")  # for the bits of a result
PACKAGES = ("torch", "pyro-ppl", "transformers", "tokenizers", "datasets", "arviz", "numpy")


def provenance(more: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the commit and the versions of Python and of packages, `more` among them."""
    found = {"python": sys.version.split()[0], **versions(("bydore-pyro", *PACKAGES, *more))}
    return {"versions": found, "commit": _commit()}


def versions(packages: Sequence[str] = DECISIVE) -> dict[str, str]:
    """Returns the versions of packages, by default those that decide the bits of a result."""
    found = dict.fromkeys(packages, "not installed")
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _commit() -> str | None:
    """The commit of the checkout that holds this package, with "+" where it has been changed."""
    source = Path(__file__).parents[2]
    if not (source / ".git").exists():
        return None
    run = ["git", "-C", str(source), "describe"]
    run += ["--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    return None
