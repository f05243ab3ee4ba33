"""Remote files as paths: fsspec reads addresses such as s3://BUCKET/FOLDER."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from bydore_pyro.errors import DataError, expecting, one_line
from bydore_pyro.files import content_hash

EXTRAS = {"s3": "s3", "gs": "gcs", "gcs": "gcs"}  # of this package, by what addresses begin with
# File systems' names for what changes with the content of a file; all call the size alike.
VERSIONS = ("ETag", "etag", "generation", "blob_id", "md5Hash", "LastModified", "mtime", "created")


def is_remote(place: str | Path) -> bool:
    """Whether a place, or a path that `path_of` made, is an address."""
    return "://" in str(place)


def path_of(place: str) -> Path:
    """Returns a place as a path; fsspec reads the path of an address.

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
        fix = f": pip install 'bydore-pyro[{EXTRAS[kind]}]'" if kind in EXTRAS else ""
        raise DataError(
            f"Expected a package that reads {kind}://, found none ({one_line(error)}){fix}"
        ) from None
    return path.resolve()  # a store of objects does not know '..'


def readable_place(place: str) -> AbstractContextManager[None]:
    """Turns a file system's errors in the block, such as missing credentials, into one line.

    Raises:
        DataError: Instead of an error that is not ours, where the place is remote.
    """
    return expecting(f"Expected to read {place}, found") if is_remote(place) else nullcontext()


def opened(path: Path, ahead: int = 0) -> Any:
    """Opens a file without a buffer; a remote file reads so many bytes ahead with each read.

    The libraries that read S3, Google's storage and the hub ask again where a connection breaks.
    """
    if not is_remote(path):
        return path.open("rb", buffering=0)
    cache: Any = {"cache_type": "readahead" if ahead else "none", "block_size": ahead or None}
    return path.open("rb", **cache)


def size_and_time(path: Path) -> tuple[int, int]:
    """Returns a file's bytes and the time (ns) of its last change (`ctime`: nobody can set it
    back); for a remote file, its bytes and a number that changes with its content."""
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
