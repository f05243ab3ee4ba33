"""Files and folders that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bydore_pyro import terminal
from bydore_pyro.errors import RunFolderError

WRITING = ".writing-"  # how the names of what is not yet whole begin


def require_new_file(path: Path) -> None:
    """Checks, before a long computation, that a file can be written and does not exist yet.

    Raises:
        RunFolderError: When it is there, or cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise RunFolderError(f"Expected a new file, found {path}: name another by --out")
    require_writable(path.parent)


def require_writable(folder: Path) -> None:
    """Checks that a folder, or its first parent that exists, can be written to.

    Raises:
        RunFolderError: When it cannot.
    """
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise RunFolderError(f"Expected a folder to write to, found {existing}")


@contextmanager
def appearing_file(path: Path) -> Iterator[Path]:
    """Yields a path to write to; it is renamed to `path` when the block ends without error.

    Raises:
        RunFolderError: When `path` is a folder, a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise RunFolderError(f"Expected a file to write to, found a folder, device or pipe: {path}")
    with _beside(path) as aside:
        aside.touch()
        yield aside
        aside.chmod(0o644)
        aside.replace(path)


@contextmanager
def appearing_folder(path: Path, *, first_wins: bool = False) -> Iterator[Path]:
    """Like `appearing_file`, for a folder; with `first_wins`, an existing folder stays.

    Raises:
        OSError: When the folder exists, without `first_wins`.
    """
    with _beside(path) as aside:
        aside.mkdir()
        yield aside
        aside.chmod(0o755)
        try:
            aside.rename(path)
        except OSError:
            if not (first_wins and path.is_dir()):
                raise


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yields a place to write `path` at, in a folder beside it that is removed afterwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=WRITING))
    terminal.HALF_WRITTEN.add(folder)
    try:
        yield folder / f"whole{path.suffix}"  # writers choose the format by the suffix
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        terminal.HALF_WRITTEN.discard(folder)


def remove_half_written(folder: Path) -> None:
    """Deletes what killed processes left half-written in a folder, which this process has locked:
    so their writers are dead."""
    for path in folder.rglob(f"{WRITING}*"):
        shutil.rmtree(path, ignore_errors=True)
