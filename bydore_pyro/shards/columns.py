"""Formats that a library reads: levanter's cache, by tensorstore, and rows of `input_ids`, by
pyarrow."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data import LazyTokens, Tokens, joined
from bydore_pyro.errors import DataError, expecting, require
from bydore_pyro.files import read_json
from bydore_pyro.shards.arrays import size_of, unsigned, without_empty
from bydore_pyro.shards.inventory import Claim, Inventory

CACHE = 100_000_000  # bytes of a levanter cache that are kept decompressed
GROUPS = 4  # groups of rows of a Parquet file that are
COLUMN = "input_ids"
REAL, LENGTH = "attention_mask", "length"  # columns that say which tokens of a row are real
LEDGER, STATE = "shard_ledger.json", "state.json"


def read_levanter(path: Path) -> Inventory:
    """Reads ``input_ids`` of a levanter cache: two zarr3 arrays, larger than what they hold.

    Of ``offsets`` the first number is that of the rows, the others are where each row ends in
    ``data``. A row is a document. ``shard_ledger.json`` tells how many rows there are and whether
    the cache is finished. Chunks are decompressed as they are needed; one that is missing would be
    read as zeros.

    Args:
        path: ``input_ids/offsets/zarr.json``.

    Raises:
        DataError: When tensorstore is missing, there is no ledger, or the cache is damaged.

    References:
        levanter, store/jagged_array.py `JaggedArrayStore`, store/cache.py `CacheLedger`.
    """
    tensorstore, folder = require("tensorstore", "levanter"), path.parents[1]
    ledger = folder.parent / LEDGER
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": CACHE}})

    def opened(name: str) -> Any:
        place = {"driver": "file", "path": str(folder / name)}
        spec = {"driver": "zarr3", "kvstore": place}
        return tensorstore.open(spec, context=context, read=True, open=True).result()

    size_of(ledger)
    with expecting(f"Expected a levanter cache, found {folder}:"):
        told = read_json(ledger)
        declared, ended = told["total_num_rows"], bool(told["is_finished"])
        offsets, data = opened("offsets"), opened("data")
        rows = int(offsets[0].read().result())
        if rows == declared:
            _require_chunks(offsets, rows + 1, folder / "offsets")
            ends = np.array(offsets[1 : rows + 1].read().result(), np.int64)
        else:
            ends = np.empty(0, np.int64)
        size = int(ends[-1]) if len(ends) else 0
        files = _require_chunks(data, size, folder / "data")
        dtype = unsigned(np.dtype(data.dtype.numpy_dtype).newbyteorder("<"), path)

    def take(positions: np.ndarray) -> np.ndarray:
        with expecting(f"Expected tokens in {folder}, found", ValueError):
            return np.asarray(data[positions].read().result()).view(dtype)

    return Inventory(
        tokens=LazyTokens(take, dtype, (0, size)),
        ends=without_empty(ends),
        files=(*files, folder / "data" / "zarr.json", path),
        beside=(ledger, *(file for file in (folder / "offsets").rglob("*") if file.is_file())),
        claims=(
            Claim("rows", declared if isinstance(declared, int) else -1, rows, ledger),
            *(Claim("tokens", n, size, ledger) for n in [_field(told)] if n is not None),
        ),
        ended=ended,
    )


def _field(ledger: Any) -> int | None:
    counts = ledger.get("field_counts")
    found = counts.get(COLUMN) if isinstance(counts, dict) else None
    return found if isinstance(found, int) else None


def _require_chunks(array: Any, count: int, folder: Path) -> list[Path]:
    """Returns the files of the chunks that so many numbers lie in; each must be there."""
    each = int(array.chunk_layout.write_chunk.shape[0])
    there = {
        int(number[0]): file
        for file in folder.rglob("*")
        if (number := re.search(r"\d+$", file.name)) and file.is_file()
    }
    needed = -(-max(count, 0) // each)
    if not count >= 0 or needed > len(there) or not {*range(needed)} <= there.keys():
        raise DataError(
            f"Expected {needed} chunks of numbers in {folder}, found {len(there)} or others"
        )
    return [there[number] for number in range(needed)]


def read_datasets(path: Path) -> Inventory:
    """Reads rows of `input_ids`: an Arrow file of `datasets`, mapped, or a Parquet file, of which
    groups of rows are decompressed as they are needed.

    A row is a document. If all rows but the last are of one length, they were packed, and documents
    end where end-of-text stands. Of a row, tokens that `attention_mask` or `length` calls padding
    are left out. ``state.json`` beside Arrow files names those that belong together.

    Raises:
        DataError: When the file is damaged or has no such column of whole numbers.

    References:
        datasets, arrow_dataset.py `save_to_disk`, arrow_writer.py.
    """
    import pyarrow
    from pyarrow import parquet

    size_of(path)
    broken = (pyarrow.ArrowException, OSError, KeyError)
    with expecting(f"Expected rows of {COLUMN}, found {path}:", *broken):
        if path.suffix == ".parquet":
            file = parquet.ParquetFile(str(path))
            tokens, lengths = _of_parquet(file, path)
            declared = file.metadata.num_rows
        else:
            with pyarrow.memory_map(str(path)) as source:
                table = pyarrow.ipc.open_stream(source).read_all()
            parts = [_real(batch, path) for batch in _columns(table).to_batches()]
            tokens = joined([part for part, _ in parts if len(part)] or [np.empty(0, "<u2")])
            lengths = np.concatenate([length for _, length in parts] or [np.empty(0, np.int64)])
            declared = len(table)
    packed = len(lengths) > 1 and lengths[0] > 1 and (lengths[:-1] == lengths[0]).all()
    ends = None if packed else without_empty(np.cumsum(lengths))
    claims = [Claim("rows", declared, len(lengths), path)]
    return Inventory(tokens=tokens, ends=ends, files=(path,), beside=_state(path), claims=claims)


def _state(path: Path) -> tuple[Path, ...]:
    """What `save_to_disk` says of the files that it wrote together; all of them must be there."""
    state = path.with_name(STATE)
    if path.suffix != ".arrow" or not state.exists():
        return ()
    with expecting(f"Expected the state of a dataset, found {state}:"):
        named = [str(file["filename"]) for file in read_json(state)["_data_files"]]
    missing = [name for name in named if not (path.parent / name).is_file()]
    if missing or path.name not in named:
        told = f"no {missing[0]}" if missing else f"also {path.name}"
        raise DataError(f"Expected the files that {state} names, found {told}")
    return (state,)


def _columns(table: Any) -> Any:
    names = [COLUMN, *(n for n in (REAL, LENGTH) if n in table.schema.names)]
    return table.select(names)


def _of_parquet(file: Any, path: Path) -> tuple[Tokens, np.ndarray]:
    """Tokens that are read by groups of rows, and the lengths of the rows, for which all are."""
    names = [n for n in (COLUMN, REAL, LENGTH) if n in file.schema_arrow.names or n == COLUMN]

    @lru_cache(maxsize=GROUPS)
    def group(number: int) -> tuple[np.ndarray, np.ndarray]:
        batches = file.read_row_group(number, names).to_batches()
        found = [_real(batch, path) for batch in batches]
        if not found:
            return np.empty(0, "<u2"), np.empty(0, np.int64)
        return np.concatenate([t for t, _ in found]), np.concatenate([n for _, n in found])

    if COLUMN not in file.schema_arrow.names:
        raise KeyError(f"a table without a column {COLUMN}")
    lengths = [group(number)[1] for number in range(file.num_row_groups)]
    dtype = group(0)[0].dtype if lengths else np.dtype("<u4")

    def part(number: int) -> LazyTokens:
        size = int(lengths[number].sum())
        return LazyTokens(lambda at: group(number)[0][at], dtype, (0, size))

    return joined([*map(part, range(len(lengths)))]), np.concatenate([np.empty(0, int), *lengths])


def _real(batch: Any, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of rows that are no padding, as they lie there where none is, and the rows'
    lengths."""
    tokens, lengths = _whole(batch.column(COLUMN), COLUMN, path)
    tokens = tokens.view(unsigned(tokens.dtype, path))
    for name in set(batch.schema.names) - {COLUMN}:
        column, rows = batch.column(name), np.repeat(np.arange(len(lengths)), lengths)
        if name == REAL:
            real, of_mask = _whole(column, name, path)
            if not np.array_equal(of_mask, lengths):
                raise DataError(f"Expected rows of {name} as long as those of {COLUMN}: {path}")
            keeps = real != 0
        else:
            told = column.to_numpy(zero_copy_only=False)
            starts = np.cumsum(lengths) - lengths
            if told.dtype.kind not in "iu" or (told > lengths).any() or (told < 0).any():
                raise DataError(f"Expected {name}s of rows of {COLUMN}, found others: {path}")
            keeps = np.arange(len(tokens)) - starts[rows] < told[rows]
        if not keeps.all():
            tokens = tokens[keeps]
            lengths = np.bincount(rows[keeps], minlength=len(lengths))
    return tokens, lengths


def _whole(chunk: Any, name: str, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a chunk of rows, as they lie in it, and the rows' lengths."""
    import pyarrow

    kind, types = chunk.type, pyarrow.types
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise DataError(f"Expected lists of numbers in {name}, found {kind}: {path}")
    chunk.validate(full=True)  # offsets that lead out of it would end the process
    if chunk.null_count:
        row = int(np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"Expected whole numbers in {name}, found null in row {row + 1}: {path}")
    values = chunk.flatten()
    if not types.is_integer(values.type) or values.null_count:
        told = f"{values.null_count} that are null" if values.null_count else values.type
        raise DataError(f"Expected whole numbers in {name}, found {told}: {path}")
    if types.is_fixed_size_list(kind):
        lengths = np.full(len(chunk), kind.list_size, np.int64)
    else:
        lengths = chunk.value_lengths().to_numpy().astype(np.int64)
    return values.to_numpy(zero_copy_only=True), lengths
