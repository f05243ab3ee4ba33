"""A folder that one command owns: it is locked, and what is written appears whole or not at all.

The lock is the system's, on the folder itself. It is no file, ends with the process that holds it,
however that one ends, and goes with the folder where that is renamed. `filelock` does not: it
leaves a file, which outlives a killed process where the file system knows no locks, and sees no
folder that is deleted or replaced.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bydore_pyro.errors import RunFolderError, familiar_errors
from bydore_pyro.terminal import HALF_WRITTEN, tell

WRITING = ".writing-"  # how the names of what is not yet whole begin
_handles: set[int] = set()  # of all folders that this process holds
_held: weakref.WeakValueDictionary[tuple[int, int], FolderLock] = weakref.WeakValueDictionary()


def _forget() -> None:
    """In a forked process: closes its copies, which would outlive the process that holds them."""
    for handle in _handles:
        os.close(handle)
    _handles.clear()
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class FolderLock:
    """A folder that this process alone writes to, until it is released, collected or dies.

    One that is missing is made, and goes again with the lock where nothing has been written to it.
    Where another process holds it, `wait` waits for the folder. A file system without locks is
    warned of.

    Raises:
        RunFolderError: When another process holds it, and it is not waited for.
    """

    def __init__(self, path: Path, *, wait: bool = False) -> None:
        self.path = path
        made = [p for p in (path, *path.parents) if not p.exists()]
        handle = lock_if_free(path, make=True)
        if handle is None and wait:
            tell(f"waiting for another process, which writes to {path}")
            while handle is None:
                time.sleep(0.1)
                handle = lock_if_free(path, make=True)
        if handle is None:
            raise RunFolderError(
                f"Expected a folder that no other process writes to, found one writing to {path}"
            )
        self._handle = handle
        self._end = weakref.finalize(self, _release, os.getpid(), handle, made)

    @property
    def is_lost(self) -> bool:
        """Whether the folder has been deleted, moved or replaced since."""
        return self._end.alive and not _is_at(self._handle, self.path)

    def require(self) -> None:
        """Checks that the folder is still there.

        Raises:
            RunFolderError: When it has been deleted, moved or replaced.
        """
        if self.is_lost:
            raise RunFolderError(
                f"Expected the folder {self.path} to stay in place, found it deleted, moved or "
                "replaced: nothing more is written"
            )

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Lets others write to it."""
        self._end()


def hold_folder(path: Path) -> FolderLock:
    """Locks a folder for this process; returns the lock that it already has, if any.

    Raises:
        RunFolderError: When another process holds it.
    """
    with suppress(OSError, KeyError):
        return _held[path.stat().st_dev, path.stat().st_ino]
    lock = FolderLock(path)
    _held[path.stat().st_dev, path.stat().st_ino] = lock
    return lock


@contextmanager
def folders_released() -> Iterator[None]:
    """Releases every folder that this process locked by `hold_folder` when the block ends.

    Raises:
        RunFolderError: Instead of an `OSError` of the block, where one of the folders is gone.
    """
    try:
        yield
    except OSError:
        for lock in list(_held.values()):
            lock.require()
        raise
    finally:
        for lock in list(_held.values()):
            lock.release()
        _held.clear()


def lock_if_free(path: Path, *, make: bool = False) -> int | None:
    """Locks a folder; returns what `unlock` takes, None where another process holds it.

    With `make` it is made where it is missing, and a file system without locks is warned of.

    Raises:
        OSError: When it cannot be made or opened.
    """
    while True:
        if make:
            path.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if make:
                continue  # deleted since
            raise
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:  # such as some network file systems
            if make:
                message = f"{path} cannot be locked ({error.strerror}): make sure that one process "
                warnings.warn(f"{message}writes to it at a time", stacklevel=2)
        if _is_at(handle, path):
            _handles.add(handle)
            return handle
        os.close(handle)  # of a folder that has been renamed or deleted since


def unlock(handle: int) -> None:
    """Releases what `lock_if_free` returned."""
    _handles.discard(handle)
    os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False


def _release(process: int, handle: int, made: Sequence[Path]) -> None:
    if os.getpid() != process:  # a fork's copy, closed already
        return
    with suppress(OSError):
        for path in made:  # the innermost first; one that holds something stays
            path.rmdir()
    unlock(handle)


def remove_half_written(folder: Path) -> None:
    """Deletes from a folder what killed processes left half written; live ones keep theirs."""
    for path in folder.rglob(f"{WRITING}*"):
        if not path.is_dir():
            path.unlink(missing_ok=True)
            continue
        with suppress(FileNotFoundError):
            handle = lock_if_free(path)
            if handle is not None:
                shutil.rmtree(path, ignore_errors=True)
                unlock(handle)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Gives the block a place to write `path` at, in a locked folder beside it that goes after."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = None
    while handle is None:
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=WRITING))
        with suppress(FileNotFoundError):  # taken for a killed process's before it was locked
            handle = lock_if_free(folder)
    HALF_WRITTEN.add(folder)
    try:
        with familiar_errors():
            # The suffix stays: writers choose the format by it.
            yield folder / f"whole{path.suffix}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        HALF_WRITTEN.discard(folder)
        unlock(handle)


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
