"""Files elsewhere: what fsspec reads, by addresses such as s3://BUCKET/FOLDER, as paths."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bydore_pyro.utils import DataError, content_hash, one_line

__all__ = [
    "RemoteFile",
    "is_remote",
    "list_anew",
    "opened",
    "path_of",
    "readable_place",
    "size_and_time",
]

EXTRAS = {"s3": "s3", "gs": "gcs", "gcs": "gcs"}  # of this package, by what addresses begin with
TRIES, DELAY = 5, 0.5  # seconds before the second try, doubled before each further one
FINAL = (FileNotFoundError, PermissionError, IsADirectoryError)
# What tells that a file is another, in the words of file systems; their sizes are told alike.
VERSIONS = ("ETag", "etag", "generation", "blob_id", "md5Hash", "LastModified", "mtime", "created")
T = TypeVar("T")


def is_remote(place: str | Path) -> bool:
    """Whether a place, or a path that `path_of` made, is an address."""
    return "://" in str(place)


def path_of(place: str) -> Path:
    """Returns the path of a place: an address's is read by fsspec.

    Raises:
        DataError: When no installed package reads such addresses.
    """
    if not is_remote(place):
        return Path(place)
    from upath import UPath

    try:
        path = UPath(place)
        path.fs  # noqa: B018 - imports the package that reads it
    except (ImportError, ValueError) as error:
        kind = place.partition("://")[0]
        mend = f": pip install 'bydore-pyro[{EXTRAS[kind]}]'" if kind in EXTRAS else ""
        raise DataError(
            f"Expected a package that reads {kind}://, found none ({one_line(error)}){mend}"
        ) from None
    return path.resolve()  # a store of objects does not know '..'


@contextmanager
def readable_place(place: str) -> Iterator[None]:
    """Turns what a file system raises in the block, as where there are no credentials, into a line.

    Raises:
        DataError: Instead of an error that is not ours.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # of many libraries
        if not is_remote(place):
            raise
        told = one_line(f"{type(error).__name__}: {error}")
        raise DataError(f"Expected to read {place}, found {told}") from None


def opened(path: Path, ahead: int = 0) -> io.RawIOBase:
    """Opens a file, not buffered; of a remote one so many bytes are read ahead with each read."""
    return RemoteFile(path, ahead) if is_remote(path) else path.open("rb", buffering=0)


def size_and_time(path: Path) -> tuple[int, int]:
    """Returns a file's bytes and the time (ns) of its last change (`ctime`: nobody can set it
    back), or of a remote one a number that another content changes."""
    if not is_remote(path):
        status = path.stat()
        return status.st_size, status.st_ctime_ns
    found: dict[str, Any] = path.fs.info(path.path)  # type: ignore[attr-defined]
    versions = [str(found[key]) for key in VERSIONS if key in found]
    return found["size"] or 0, int(content_hash(versions)[:12], 16)


def list_anew(paths: Iterable[Path | None]) -> None:
    """Forgets what is known of remote files, and lists their folders again."""
    files = [path for path in paths if path is not None and is_remote(path)]
    for path in files:
        path.fs.invalidate_cache()  # type: ignore[attr-defined]
    for folder in dict.fromkeys(path.parent for path in files):
        list(folder.iterdir())


class RemoteFile(io.RawIOBase):
    """A remote file, which is opened again where a connection breaks, and read on.

    Args:
        path: Of `path_of`.
        ahead: Bytes that are read ahead, so that reading on needs no further request.

    Raises:
        ConnectionError: When it breaks again and again.
    """

    def __init__(self, path: Path, ahead: int = 0) -> None:
        self._path, self._at, self._file = path, 0, None
        self._cache = {"cache_type": "readahead" if ahead else "none", "block_size": ahead or None}
        self._size = self._tried(lambda file: file.seek(0, io.SEEK_END))

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether reading can go on elsewhere."""
        return True

    def tell(self) -> int:
        """Returns where it stands, in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes to a byte, counted from the start, from where it stands or from the end."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads what is asked for, or all that is left, into the buffer; returns how much."""
        wanted = max(0, min(len(buffer), self._size - self._at))

        def read(file: Any) -> bytes:
            file.seek(self._at)
            if len(found := file.read(wanted)) < wanted:
                raise EOFError(f"{len(found)} of {wanted} bytes from byte {self._at} on")
            return found

        buffer[:wanted] = self._tried(read) if wanted else b""
        self._at += wanted
        return wanted

    def close(self) -> None:
        """Closes it."""
        if not self.closed and self._file is not None:
            self._file.close()
        super().close()

    def _tried(self, action: Callable[[Any], T]) -> T:
        for number in range(TRIES):
            try:
                if self._file is None:
                    self._file = self._path.open("rb", **self._cache)  # type: ignore
                return action(self._file)
            except FINAL:
                raise
            except Exception as error:  # of many libraries
                self._file, last = None, error
                time.sleep(DELAY * 2**number if number < TRIES - 1 else 0)
        raise ConnectionError(f"Expected to read {self._path}, found {one_line(last)}") from None
