"""Formats of chunks that an ``index.json`` names: litdata, and MosaicML's MDS.

A chunk is ``<u4`` items, then ``<u4`` where each begins and where the last one ends, in bytes, then
the items.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data import END, LazyTokens, joined
from bydore_pyro.shards.arrays import Shard, mapped, without_empty
from bydore_pyro.utils import DataError, one_line

__all__ = ["read_litdata", "read_mds"]

# Numbers of types in litdata's index, which are those of two lists; signed as unsigned ones.
TORCH = {13: "<u2", 14: "<u2", 15: "<u4", 16: "<u4", 17: "<u8", 18: "<u8", 20: "<u2"}
NUMPY = {1: "<u2", 2: "<u4", 3: "<u8", 5: "<u2", 6: "<u4", 7: "<u8"}
FORMATS = {"no_header_tensor": TORCH, "no_header_numpy": NUMPY}
COLUMNS = ("tokens", "input_ids")  # of MDS
UNSIGNED = {"uint16": "<u2", "int32": "<u4", "uint32": "<u4", "int64": "<u8", "uint64": "<u8"}


def read_litdata(path: Path, vocabulary: int) -> Shard:
    """Reads the chunks of a litdata folder that was made for its `TokensLoader`: tokens alone,
    whose type stands in the index; an item is a document.

    Raises:
        DataError: When it is no such folder, is compressed, or its chunks are damaged.

    References:
        litdata, streaming/writer.py `_create_chunk`, streaming/item_loader.py `TokensLoader`.
    """
    index = _index(path)
    try:
        (kind,), compression = index["config"]["data_format"], index["config"]["compression"]
        name, _, number = kind.partition(":")
        dtype = np.dtype(FORMATS[name][int(number)])
        files = [path.parent / chunk["filename"] for chunk in index["chunks"]]
    except (LookupError, TypeError, ValueError):
        raise DataError(
            f"Expected chunks of tokens without headers, found others: {path}"
        ) from None
    if compression:
        raise DataError(f"Expected chunks that are not compressed, found {compression}: {path}")
    parts, ends, before = [], [np.empty(0, END)], 0
    for file in files:
        bounds = _bounds(file)
        count, rest = divmod(int(bounds[-1] - bounds[0]), dtype.itemsize)
        if rest or ((bounds - bounds[0]) % dtype.itemsize).any():
            raise DataError(f"Expected items of {dtype.itemsize}-byte tokens, found others: {file}")
        parts.append(mapped(file, dtype, count, int(bounds[0]), scattered=True))
        ends.append((bounds[1:] - bounds[0]) // dtype.itemsize + before)
        before += count
    return Shard(joined(parts), without_empty(np.concatenate(ends)), (*files, path))


def read_mds(path: Path, vocabulary: int) -> Shard:
    """Reads a folder of MosaicML streaming: samples with a column `tokens` or `input_ids`.

    A sample is ``<u4`` sizes of its columns of no fixed size, then the columns. The column is
    "ndarray", with or without a type and a shape, or "bytes", which are int64. Samples are joined:
    as a rule they are of one length, and documents end where end-of-text stands.

    Raises:
        DataError: When it is no such folder, is compressed, or its files are damaged.

    References:
        streaming, base/format/mds/writer.py and encodings.py; llm-foundry, its
        scripts/data_prep/convert_dataset_hf.py.
    """
    try:
        shards = [_mds_file(path.parent, shard) for shard in _index(path)["shards"]]
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        told = f"Expected samples with a column {' or '.join(COLUMNS)} of tokens, found others"
        raise DataError(f"{told}: {path}") from None
    files = tuple(file for file, _ in shards)
    return Shard(joined([tokens for _, tokens in shards]), None, (*files, path))


def _mds_file(folder: Path, shard: Mapping[str, Any]) -> tuple[Path, LazyTokens]:
    """A file's tokens, which are gathered out of its samples."""
    file = folder / shard["raw_data"]["basename"]
    if shard["format"] != "mds" or shard["compression"]:
        raise DataError(f"Expected MDS that is not compressed, found other: {file}")
    names, sizes = shard["column_names"], shard["column_sizes"]
    column = names.index(next((name for name in COLUMNS if name in names), ""))
    raw, bounds = mapped(file, "u1"), _bounds(file).astype(np.int64)

    def number_at(places: np.ndarray, size: int) -> np.ndarray:
        found = raw[places[:, None] + np.arange(size)]  # (samples, bytes)
        return found.view(f"<u{size}")[:, 0].astype(np.int64)

    free = [n for n, size in enumerate(sizes) if size is None]
    told = {n: number_at(bounds[:-1] + 4 * i, 4) for i, n in enumerate(free)}
    of_columns = [told.get(n, np.full(len(bounds) - 1, size)) for n, size in enumerate(sizes)]
    begins = bounds[:-1] + 4 * len(free) + sum(of_columns[:column], np.int64(0))
    stops = begins + of_columns[column]
    if len(begins) and int((stops - bounds[1:]).max()) > 0:
        raise DataError(f"Expected columns within their samples, found others: {file}")
    kind, _, about = shard["column_encodings"][column].partition(":")
    of_type, _, shape = about.partition(":")
    if kind == "ndarray" and not shape:  # a byte: axes and the width of their lengths; the lengths
        if not of_type:
            raise DataError(f"Expected a column of one type, found one without: {file}")
        told_shape = raw[begins].astype(np.int64)
        begins = begins + 1 + (told_shape >> 2) * 2 ** (told_shape & 3)
    dtype = np.dtype(UNSIGNED["int64" if kind == "bytes" else of_type])
    ends = np.cumsum((stops - begins) // dtype.itemsize)
    starts = np.concatenate([[0], ends[:-1]])

    def take(positions: np.ndarray) -> np.ndarray:
        sample = np.searchsorted(ends, positions, "right")
        places = begins[sample] + (positions - starts[sample]) * dtype.itemsize
        return raw[places[..., None] + np.arange(dtype.itemsize)].view(dtype)[..., 0]

    return file, LazyTokens(take, dtype, (0, int(ends[-1]) if len(ends) else 0))


def _index(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"Expected an index of chunks, found {path}: {one_line(error)}") from None


def _bounds(file: Path) -> np.ndarray:
    """Where items begin and the last one ends, in bytes: the end of the file."""
    whole = mapped(file, "u1")
    items = int(whole[:4].view("<u4")[0]) if len(whole) >= 4 else 0
    if len(whole) < 4 * (items + 2):
        raise DataError(f"Expected a chunk of {items} items, found {len(whole)} bytes: {file}")
    bounds = whole[4 : 4 * (items + 2)].view("<u4").astype(np.int64)
    if bounds[0] < 4 * (items + 2) or bounds[-1] != len(whole) or (np.diff(bounds) < 0).any():
        raise DataError(
            f"Expected {items} items up to byte {bounds[-1]}, found a chunk of {len(whole)} bytes: "
            f"{file}"
        )
    return bounds
