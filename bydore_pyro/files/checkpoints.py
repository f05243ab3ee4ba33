"""Checkpoints of a search: saved whole, the newest two kept, a damaged one set aside.

A checkpoint ``checkpoints/step-000050`` holds everything that the next step depends on, without
pickle, and names what it belongs to: seed, options, data, versions. On a CPU a resumed search ends
with the same bits as one that was never stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bydore_pyro import terminal
from bydore_pyro.files.kept import Kept

FORMAT = "bydore_pyro.checkpoint/8"
KEPT = 2  # the newest, and one before it should the newest be damaged


def save_checkpoint(
    folder: Path, step: int, content: Mapping[str, Any], belongs: Mapping[str, Any]
) -> None:
    """Writes a checkpoint, whole or not at all, and deletes all but the newest two.

    Args:
        folder: Where checkpoints are.
        step: Steps that were taken.
        content: For `write_tree`.
        belongs: What it belongs to, plain values.

    Raises:
        OSError: When the disk is full; the checkpoints before it stay.
    """
    Kept(folder / f"step-{step:06d}", {"format": FORMAT, **belongs}).put(content)
    for old in _checkpoints(folder)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    folder: Path, belongs: Mapping[str, Any], *, writes: bool = True
) -> dict[str, Any] | None:
    """Returns the content of the newest sound checkpoint, None when there is none.

    Args:
        folder: Where checkpoints are.
        belongs: As `save_checkpoint` got it.
        writes: Whether damaged checkpoints are set aside: of several processes one does.

    Raises:
        RunFolderError: When the newest sound one belongs to another search; it names what differs,
            and all checkpoints stay.
    """
    for path in _checkpoints(folder):
        content = Kept(path, {"format": FORMAT, **belongs}, writes=writes).get()
        if content is not None:
            terminal.tell(f"going on from {path}")
            return dict(content)
    if folder.is_dir():
        terminal.tell("no sound checkpoint: beginning anew")
    return None


def _checkpoints(folder: Path) -> list[Path]:
    """The newest first; a number of more than six digits comes after the others in its text."""
    found = {path.name.removeprefix("step-"): path for path in folder.glob("step-*")}
    return [found[step] for step in sorted(filter(str.isdecimal, found), key=int, reverse=True)]
