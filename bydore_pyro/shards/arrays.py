"""Numbers in files of others: read where they are asked for, and known by a few of their blocks.

No file is mapped: one that is cut while it is mapped ends the process.
"""

from __future__ import annotations

import hashlib
import stat
from itertools import pairwise
from pathlib import Path

import numpy as np

from bydore_pyro.data import LazyTokens
from bydore_pyro.utils import DataError, expecting, one_line

BLOCKS, BLOCK = 64, 4096  # of a fingerprint: so many blocks of so many bytes


def size_of(path: Path) -> int:
    """Returns the bytes of a file.

    Raises:
        DataError: When there is none, or it is none that can be read twice, as a pipe.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # a ValueError: no path at all, as with a null byte
        why = getattr(error, "strerror", None) or one_line(error)
        raise DataError(f"Expected a file of a shard, found {path}: {why}") from None
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"Expected a file of a shard, found a folder, pipe or device: {path}")
    return status.st_size


def content(path: Path, most: int | None = None) -> bytes:
    """Returns what a file holds, or the first bytes of it.

    Raises:
        DataError: When it cannot be read.
    """
    size = size_of(path)
    try:
        with path.open("rb") as file:
            return file.read(size if most is None else min(size, most))
    except OSError as error:
        raise DataError(f"Expected a file of a shard, found {path}: {error.strerror}") from None


def numbers(
    path: Path, dtype: np.dtype | str, count: int | None = None, offset: int = 0
) -> LazyTokens:
    """Returns numbers of a file as an array ``(N,)`` that is read where it is asked for.

    Args:
        path: The file.
        dtype: Of the numbers.
        count: How many there must be; as many as there are when None.
        offset: Where they begin, in bytes.

    Raises:
        DataError: When there is no such file, or it holds another number of them; and while it is
            read, when it was cut.
    """
    dtype, size = np.dtype(dtype), size_of(path) - offset
    found, rest = divmod(size, dtype.itemsize)
    if size < 0 or rest or count not in (None, found):
        wanted = f"{count} numbers" if count is not None else "numbers"
        behind = f" behind the first {offset} bytes" if offset else ""
        raise DataError(
            f"Expected {wanted} of {dtype.itemsize} bytes{behind}, found {max(0, size)} bytes: "
            f"{path}"
        )

    def take(positions: np.ndarray) -> np.ndarray:
        flat = positions.ravel()
        taken = np.empty(flat.shape, dtype)
        cuts = np.flatnonzero(np.diff(flat) != 1) + 1
        bounds = [0, *cuts.tolist(), len(flat)]
        told = f"Expected {path} not to change while it is read, found"
        with expecting(told, OSError, ValueError), path.open("rb", buffering=0) as file:
            for start, stop in pairwise(bounds):
                if stop > start:
                    file.seek(offset + int(flat[start]) * dtype.itemsize)
                    _fill(file, taken[start:stop].view("u1").data)
        return taken.reshape(positions.shape)

    return LazyTokens(take, dtype, (0, found))


def _fill(file: object, place: memoryview) -> None:
    while place:
        read = file.readinto(place)  # type: ignore[attr-defined]
        if not read:
            raise ValueError("it cut")
        place = place[read:]


def without_empty(ends: np.ndarray) -> np.ndarray:
    """Returns where documents end, in order, without those of no tokens."""
    return ends[np.diff(ends, prepend=0) != 0]


def blocks_of(path: Path, about: str = "") -> bytes:
    """Returns the hash of some words and 64 blocks of 4 kB of a file, spread evenly over it."""
    digest, size = hashlib.sha256(about.encode()), path.stat().st_size
    with path.open("rb", buffering=0) as file:
        for start in np.linspace(0, max(0, size - BLOCK), BLOCKS).astype(int):
            file.seek(start)
            digest.update(file.read(BLOCK))
    return digest.digest()


def fingerprint(path: Path) -> str:
    """Returns a hash of a file's size, its time and some of its blocks.

    A shard may have gigabytes, which are not read only to know it again. Who changes a few tokens
    between the blocks and sets back the time of modification is not found out.
    """
    status = path.stat()
    return blocks_of(path, f"{status.st_size} {status.st_mtime_ns}").hex()
