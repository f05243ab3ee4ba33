"""Formats that a library reads: levanter's cache, by tensorstore, and rows of `input_ids`, by
pyarrow."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data import LazyTokens, Tokens, joined
from bydore_pyro.shards.arrays import Shard, without_empty
from bydore_pyro.utils import DataError, one_line, require

__all__ = ["read_datasets", "read_levanter"]

CACHE = 100_000_000  # bytes of a levanter cache that are kept decompressed
GROUPS = 4  # groups of rows of a Parquet file that are
COLUMN = "input_ids"


def read_levanter(path: Path, vocabulary: int) -> Shard:
    """Reads ``input_ids`` of a levanter cache: two zarr3 arrays, larger than what they hold.

    Of ``offsets`` the first number is that of the rows, the others are where each row ends in
    ``data``. A row is a document. ``shard_ledger.json`` tells whether the cache is finished. Chunks
    are decompressed as they are needed.

    Args:
        path: ``input_ids/offsets/zarr.json``.
        vocabulary: Without effect.

    Raises:
        DataError: When tensorstore is missing, the cache is not finished, or it is damaged.

    References:
        levanter, store/jagged_array.py `JaggedArrayStore`, store/cache.py `CacheLedger`.
    """
    tensorstore, folder = require("tensorstore", "levanter"), path.parents[1]
    ledger = folder.parent / "shard_ledger.json"
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": CACHE}})

    def opened(name: str) -> Any:
        place = {"driver": "file", "path": str(folder / name)}
        spec = {"driver": "zarr3", "kvstore": place}
        return tensorstore.open(spec, context=context, read=True, open=True).result()

    try:
        if ledger.exists() and not json.loads(ledger.read_text("utf-8"))["is_finished"]:
            raise DataError(f"Expected a finished cache, found one that is not: {ledger}")
        offsets, data = opened("offsets"), opened("data")
        rows = int(offsets[0].read().result())
        ends = np.array(offsets[1 : rows + 1].read().result(), np.int64)
        dtype = np.dtype(data.dtype.numpy_dtype).newbyteorder("<")
    except DataError:
        raise
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"Expected a levanter cache, found {folder}: {one_line(error)}") from None

    def take(positions: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(data[positions].read().result()).view(_unsigned(dtype, path))
        except ValueError as error:
            raise DataError(f"Expected tokens in {folder}, found {one_line(error)}") from None

    files = tuple(file for file in sorted((folder / "data").rglob("*")) if file.is_file())
    size = int(ends[-1]) if rows > 0 else 0
    tokens = LazyTokens(take, _unsigned(dtype, path), (0, size))
    return Shard(tokens, without_empty(ends), (*files, path))


def read_datasets(path: Path, vocabulary: int) -> Shard:
    """Reads rows of `input_ids`: an Arrow file of `datasets`, mapped, or a Parquet file, of which
    groups of rows are decompressed as they are needed.

    A row is a document. If all rows but the last are of one length, they were packed, and documents
    end where end-of-text stands.

    Raises:
        DataError: When the file is damaged or has no such column of whole numbers.

    References:
        datasets, arrow_dataset.py `save_to_disk`, arrow_writer.py.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        if path.suffix == ".parquet":
            tokens, lengths = _of_parquet(parquet.ParquetFile(str(path), memory_map=True), path)
        else:
            with pyarrow.memory_map(str(path)) as source:
                column = pyarrow.ipc.open_stream(source).read_all()[COLUMN]
            parts = [_whole(chunk, path) for chunk in column.chunks]
            tokens = joined([part for part, _ in parts if len(part)])
            lengths = np.concatenate([length for _, length in parts] or [np.empty(0, np.int64)])
    except (pyarrow.ArrowException, OSError, KeyError) as error:
        told = one_line(error)
        raise DataError(f"Expected rows of {COLUMN}, found {path}: {told}") from None
    packed = len(lengths) > 1 and lengths[0] > 1 and (lengths[:-1] == lengths[0]).all()
    ends = None if packed else without_empty(np.cumsum(lengths))
    return Shard(tokens, ends, (path,))


def _of_parquet(file: Any, path: Path) -> tuple[Tokens, np.ndarray]:
    """Tokens that are read by groups of rows, and the lengths of the rows, for which all are."""

    @lru_cache(maxsize=GROUPS)
    def group(number: int) -> tuple[np.ndarray, np.ndarray]:
        found = [_whole(c, path) for c in file.read_row_group(number, [COLUMN])[COLUMN].chunks]
        return np.concatenate([t for t, _ in found]), np.concatenate([n for _, n in found])

    lengths = [group(number)[1] for number in range(file.num_row_groups)]
    dtype = group(0)[0].dtype if lengths else np.dtype("<u4")

    def part(number: int) -> LazyTokens:
        size = int(lengths[number].sum())
        return LazyTokens(lambda at: group(number)[0][at], dtype, (0, size))

    return joined([*map(part, range(len(lengths)))]), np.concatenate([np.empty(0, int), *lengths])


def _whole(chunk: Any, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of a chunk of rows, as they lie in it, and the rows' lengths."""
    import pyarrow

    kind = chunk.type
    if not (pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind)):
        raise DataError(f"Expected lists of numbers in {COLUMN}, found {kind}: {path}")
    chunk.validate(full=True)  # offsets that lead out of it would end the process
    values = chunk.flatten()
    if not pyarrow.types.is_integer(values.type) or chunk.null_count or values.null_count:
        raise DataError(f"Expected whole numbers in {COLUMN}, found {values.type}: {path}")
    tokens = values.to_numpy(zero_copy_only=True)
    return tokens.view(_unsigned(tokens.dtype, path)), chunk.value_lengths().to_numpy()


def _unsigned(dtype: np.dtype, path: Path) -> np.dtype:
    """The type as which tokens are read: a negative number is then one beyond every vocabulary."""
    if dtype.kind not in "iu" or dtype.itemsize < 2:
        raise DataError(f"Expected tokens of two bytes or more, found {dtype}: {path}")
    return np.dtype(f"<u{dtype.itemsize}")
