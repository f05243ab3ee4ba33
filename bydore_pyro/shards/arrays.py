"""Numbers in files of others: read where they are asked for, and known by a few of their blocks.

No file is mapped: one that is cut while it is mapped ends the process.
"""

from __future__ import annotations

import hashlib
import stat
import string
from collections.abc import Callable
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from bydore_pyro import data
from bydore_pyro.errors import DataError, expecting, one_line

BLOCKS, BLOCK = 64, 4096  # of a fingerprint: so many blocks of so many bytes
NPY = b"\x93NUMPY"
#: How files begin that are no numbers alone.
BEGINNINGS = {
    NPY: "an array of numpy.save, which numpy: reads",
    b"LITPKDS": "a file that litpkds: reads",
    (20240520).to_bytes(4, "little"): "a file that llmc: reads",
    (20240801).to_bytes(4, "little"): "a file that llmc: reads",
    b"MMIDIDX": "an index that megatron: reads",
    b"PK\x03\x04": "an archive (.npz, .pt or .zip)",
    b"PAR1": "a file of Parquet",
    b"ARROW1": "a file of Arrow",
    b"\x89HDF": "a file of HDF5",
    b"\x1f\x8b\x08": "a compressed file",
    b"\x28\xb5\x2f\xfd": "a compressed file",
    b"BZh": "a compressed file",
    b"\xfd7zXZ": "a compressed file",
    b"\x80\x02c": "a pickle",
    b"\x80\x04\x95": "a pickle",
    b"\x80\x05\x95": "a pickle",
}
LETTERS = {*string.printable.encode()}
AS_TEXT = 32, 64  # bytes of a file that are looked at: so many at least, and at most


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
) -> data.LazyTokens:
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

    return data.LazyTokens(take, dtype, (0, found))


def _fill(file: object, place: memoryview) -> None:
    while place:
        read = file.readinto(place)  # type: ignore[attr-defined]
        if not read:
            raise ValueError("it cut")
        place = place[read:]


def headerless(path: Path) -> Callable[[int], data.LazyTokens]:
    """Returns the numbers of a file that holds nothing else, as a function of their bytes.

    Raises:
        DataError: When the file begins like one of another kind, or like text.
    """
    least, most = AS_TEXT
    begin = content(path, most)
    for beginning, what in BEGINNINGS.items():
        if begin.startswith(beginning):
            raise DataError(f"Expected tokens without a header, found {what}: {path}")
    if len(begin) >= least and LETTERS.issuperset(begin):
        raise DataError(f"Expected tokens without a header, found text: {path}")
    return lambda width: numbers(path, f"<u{width}")


def saved(path: Path) -> data.LazyTokens:
    """Returns the whole numbers of a file of `numpy.save`, row by row, as an array ``(N,)``.

    The header tells their type, the order of their bytes and their shape: ``(N,)``, or ``(B, T)``
    in either order of axes. Nothing is unpickled.

    Raises:
        DataError: When there is no such header, the array is none of whole numbers or has another
            shape, or the file has another size.
    """
    size_of(path)
    with (
        expecting(f"Expected a header of numpy.save, found another file, {path}:"),
        path.open("rb") as file,
    ):
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, by_column, dtype = read[npy.read_magic(file)](file)
        offset = file.tell()
    little = unsigned(dtype, path)
    if len(shape) not in (1, 2):
        raise DataError(f"Expected tokens, or rows of tokens, found an array {shape}: {path}")
    own = numbers(path, dtype.str.replace("i", "u"), prod(shape), offset)

    def take(positions: np.ndarray) -> np.ndarray:
        if by_column and len(shape) == 2:
            rows, columns = np.divmod(positions, max(1, shape[1]))
            positions = rows + columns * shape[0]
        return np.asarray(own[positions]).astype(little)

    return data.LazyTokens(take, little, (0, len(own)))


def unsigned(dtype: np.dtype, path: Path) -> np.dtype:
    """Returns the type as which whole numbers are read: little-endian, and unsigned, so that a
    negative number is one beyond every vocabulary.

    Raises:
        DataError: When the numbers are no whole ones, or have one byte.
    """
    if dtype.kind not in "iu" or dtype.itemsize < 2:
        raise DataError(
            f"Expected whole numbers of two bytes or more as tokens, found {one_line(dtype)}: "
            f"{path}"
        )
    return np.dtype(f"<u{dtype.itemsize}")


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
