"""A lock on a folder: one process at a time writes to it."""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from bydore_pyro import terminal
from bydore_pyro.errors import RunFolderError

LOCK = ".lock"  # the file in the folder
SECONDS_BETWEEN_TRIES = 0.1


class FolderLock:
    """A folder that this process alone writes to, until it is released, collected or dies.

    Folders that are missing are made, and removed with the lock if they are still empty. A file
    system without locks is warned of.

    Args:
        path: The folder.
        wait: Whether to wait while another process holds it.

    Raises:
        RunFolderError: When it is locked already, without `wait`.
        OSError: When the folder or the lock cannot be made.
    """

    def __init__(self, path: Path, *, wait: bool = False) -> None:
        self.path = path
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        lock = FileLock(path / LOCK, thread_local=False, fallback_to_soft=False)
        waiting = False
        while True:
            path.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(blocking=False)
                break
            except Timeout:
                if not wait:
                    raise RunFolderError(
                        "Expected a folder that no other process writes to, found one writing to "
                        f"{path}"
                    ) from None
                if not waiting:
                    terminal.tell(f"waiting for another process, which writes to {path}")
                waiting = True
                time.sleep(SECONDS_BETWEEN_TRIES)
            except FileNotFoundError:
                continue  # the process that held it has removed the folder
            except OSError as error:  # such as some network file systems
                if isinstance(error, PermissionError) or not (path / LOCK).is_file():
                    raise  # no file could be made: read-only, full, another's, a folder
                message = f"{path} cannot be locked ({error.strerror}): make sure that one process "
                warnings.warn(f"{message}writes to it at a time", stacklevel=2)
                break
        self._end = weakref.finalize(self, _release, lock, made, os.getpid())

    def require(self) -> None:
        """Checks that the folder is still there.

        Raises:
            RunFolderError: When it has been deleted, moved or replaced.
        """
        if self._end.alive and not (self.path / LOCK).exists():
            raise RunFolderError(
                f"Expected the folder {self.path} to stay in place, found it deleted, moved or "
                "replaced: nothing more is written"
            )

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Lets other processes write to it."""
        self._end()


def _release(lock: FileLock, made: Sequence[Path], process: int) -> None:
    if os.getpid() != process:  # a fork, which holds nothing
        return
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
    with suppress(OSError):
        for folder in made:  # only those that nothing has been written to
            folder.rmdir()
