"""Token arrays in files of others: mapped, and known by a few of their blocks."""

from __future__ import annotations

import hashlib
import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bydore_pyro.data import END, Tokens
from bydore_pyro.utils import DataError

__all__ = [
    *("Shard", "fingerprint", "mapped", "scanned_ends", "without_empty"),
]

BLOCKS, BLOCK = 64, 4096  # of a fingerprint: so many blocks of so many bytes
AT_ONCE = 2**22  # tokens that are searched for ends at once


@dataclass(frozen=True)
class Shard:
    """What a trainer's file, or a few that belong together, hold.

    Attributes:
        tokens: ``(N,)``, N > 0.
        ends: Where documents end in it: exclusive, ascending, the last one N; None where the files
            do not tell.
        files: What was read, the one of the tokens first.
        tokenizer: The name that the files give their tokenizer.

    Raises:
        DataError: When there are no tokens, or the ends are not those of such an array.
    """

    tokens: Tokens
    ends: np.ndarray | None
    files: tuple[Path, ...]
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        if not len(self.tokens):
            raise DataError(f"Expected tokens, found an empty shard: {self.files[0]}")
        if self.ends is None:
            return
        last = int(self.ends[-1]) if len(self.ends) else 0
        if last != len(self.tokens) or (np.diff(self.ends, prepend=0) <= 0).any():
            raise DataError(
                f"Expected ends of documents that ascend to {len(self.tokens)}, the tokens of "
                f"{self.files[0]}, found others up to {last}: {self.files[-1]}"
            )


def mapped(
    path: Path,
    dtype: np.dtype | str,
    count: int | None = None,
    offset: int = 0,
    *,
    scattered: bool = False,
) -> np.ndarray:
    """Maps numbers from a file, ``(N,)``, read-only.

    Args:
        path: The file.
        dtype: Of the numbers.
        count: How many there must be; as many as there are when None.
        offset: Where they begin, in bytes.
        scattered: Whether a few of them will be read here and there. The system then reads no
            further, which else it does, by up to megabytes a sequence.

    Raises:
        DataError: When there is no such file, or it holds none, or not so many of them.
    """
    dtype = np.dtype(dtype)
    try:
        size = path.stat().st_size - offset
        rest = size % dtype.itemsize
        wanted = size - rest + (dtype.itemsize if rest else 0)
        if count is not None:
            wanted = count * dtype.itemsize
        if size != wanted or not size:
            raise DataError(
                f"Expected {wanted or 'some'} bytes of {dtype.itemsize}-byte numbers"
                f"{f' behind the first {offset}' if offset else ''}, found {max(0, size)}: {path}"
            )
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if scattered and hasattr(mmap, "MADV_RANDOM"):
            content.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(content, dtype, offset=offset)
    except OSError as error:
        raise DataError(f"Expected a file of a shard, found {path}: {error.strerror}") from None


def without_empty(ends: np.ndarray) -> np.ndarray:
    """Returns where documents end, in order, without those of no tokens."""
    return ends[np.diff(ends, prepend=0) != 0]


def scanned_ends(tokens: Tokens, end: int) -> np.ndarray:
    """Returns where documents end by their end-of-text token, and the end of the array; all of it
    is read, block by block."""
    found = [np.empty(0, END)]
    for start in range(0, len(tokens), AT_ONCE):
        block = np.asarray(tokens[start : start + AT_ONCE])
        found.append(np.flatnonzero(block == end) + (start + 1))
    ends = np.concatenate(found)
    return ends if len(ends) and ends[-1] == len(tokens) else np.append(ends, len(tokens))


def fingerprint(path: Path) -> str:
    """Returns a hash of a file's size, its time and 64 blocks of 4 kB, spread evenly over it.

    A shard may have gigabytes, which are not read only to know it again. Who changes a few tokens
    between the blocks and sets back the time of modification is not found out.
    """
    status = path.stat()
    digest = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode())
    with path.open("rb", buffering=0) as file:
        for start in np.linspace(0, max(0, status.st_size - BLOCK), BLOCKS).astype(int):
            file.seek(start)
            digest.update(file.read(BLOCK))
    return digest.hexdigest()
