"""What a checkpoint of the Trainer belongs to, and the hashes of its files: `belongs.json` in it.

It is written last: a checkpoint without it was not written to its end, and one whose files are
others than it tells is not gone on from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bydore_pyro.data import file_sha256
from bydore_pyro.utils import appearing_file, content_hash

__all__ = ["broken_seal", "read_seal", "write_seal"]

SEAL = "belongs.json"


def write_seal(folder: Path, belongs: Mapping[str, Any]) -> None:
    """Notes what a checkpoint belongs to, and the hashes of all its files.

    Args:
        folder: The checkpoint, whole.
        belongs: Plain values, by name.
    """
    files = {name: file_sha256(folder / name) for name in _files(folder)}
    content = {"belongs": dict(belongs), "files": files}
    with appearing_file(folder / SEAL) as aside:
        aside.write_text(json.dumps({**content, "sha256": content_hash(content)}), "utf-8")


def read_seal(folder: Path) -> dict[str, Any]:
    """Returns what a checkpoint belongs to, where `broken_seal` found nothing."""
    return dict(json.loads((folder / SEAL).read_text("utf-8"))["belongs"])


def broken_seal(folder: Path) -> str | None:
    """Returns what is wrong with a checkpoint's files, None when they are as they were written."""
    if not (folder / SEAL).is_file():
        return f"which has no {SEAL}: it was not written to its end"
    try:
        content = json.loads((folder / SEAL).read_text("utf-8"))
        if content.pop("sha256") != content_hash(content):
            raise ValueError
        noted = dict(content["files"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"whose {SEAL} was changed"
    found = set(_files(folder))
    for name in sorted({*noted, *found}):
        if name not in found:
            return f"which has no {name}"
        if name not in noted:
            return f"whose {name} was not saved with it"
        if file_sha256(folder / name) != noted[name]:
            return f"whose {name} was changed"
    return None


def _files(folder: Path) -> list[str]:
    """The names of a checkpoint's files, but for the seal and hidden ones."""
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        name.as_posix()
        for name in names
        if name.as_posix() != SEAL and not any(part.startswith(".") for part in name.parts)
    )
