"""Files that must stay as they were while they are read: size and time tell, the hash decides.

The time is that of the last change of the file or its attributes (`ctime`): nobody can set it back.
"""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from bydore_pyro.utils import DataError

__all__ = ["WatchedFile", "file_sha256", "size_and_time"]


class WatchedFile:
    """A file that is held open for long, as it was when it was opened.

    Args:
        path: The file.
        sha256: Of its content. A file that was touched or copied is the same by it.

    Raises:
        OSError: When it is not there.
    """

    def __init__(self, path: Path, sha256: str) -> None:
        self.path, self.sha256 = path, sha256
        self._seen = size_and_time(path)

    def require_unchanged(self) -> None:
        """Checks that the file is what it was; a mapped one that was cut ends the process.

        Raises:
            DataError: When it is gone or holds something else.
        """
        try:
            found = size_and_time(self.path)
            if found == self._seen:
                return
            if found[0] == self._seen[0] and file_sha256(self.path) == self.sha256:
                self._seen = found
                return
        except OSError as error:
            raise DataError(
                f"Expected {self.path} not to change while it is read, found: {error.strerror}"
            ) from None
        raise DataError(f"Expected {self.path} not to change while it is read, found other content")


def size_and_time(path: Path) -> tuple[int, int]:
    """Returns the bytes and the time (ns) of a file; of a folder, of the files directly in it.

    Raises:
        OSError: When it is not there.
    """
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size, status.st_ctime_ns
    files = [p.stat() for p in path.iterdir() if p.is_file()]
    sizes, times = [s.st_size for s in files], [s.st_ctime_ns for s in files]
    return sum(sizes), max([*times, status.st_ctime_ns])


def file_sha256(path: Path) -> str:
    """Returns the hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
