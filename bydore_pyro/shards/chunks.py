"""Formats of chunks that an ``index.json`` names: litdata, and MosaicML's MDS.

A chunk is ``<u4`` items, then ``<u4`` where each begins and where the last one ends, in bytes, then
the items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bydore_pyro import data
from bydore_pyro.errors import DataError, expecting
from bydore_pyro.files import read_json
from bydore_pyro.shards.arrays import content, numbers, size_of, without_empty
from bydore_pyro.shards.inventory import Claim, Inventory

# Numbers of types in litdata's index, which are those of two lists; signed as unsigned ones.
TORCH = {13: "<u2", 14: "<u2", 15: "<u4", 16: "<u4", 17: "<u8", 18: "<u8", 20: "<u2"}
NUMPY = {1: "<u2", 2: "<u4", 3: "<u8", 5: "<u2", 6: "<u4", 7: "<u8"}
FORMATS = {"no_header_tensor": TORCH, "no_header_numpy": NUMPY}
COLUMNS = ("tokens", "input_ids")  # of MDS
UNSIGNED = {"uint16": "<u2", "int32": "<u4", "uint32": "<u4", "int64": "<u8", "uint64": "<u8"}


def read_litdata(path: Path) -> Inventory:
    """Reads the chunks of a litdata folder that was made for its `TokensLoader`: tokens alone,
    whose type stands in the index; an item is a document.

    Raises:
        DataError: When it is no such folder, is compressed, or its chunks are damaged.

    References:
        litdata, streaming/writer.py `_create_chunk`, streaming/item_loader.py `TokensLoader`.
    """
    index = _index(path)
    with expecting(f"Expected chunks of tokens without headers, found others, {path}:"):
        (kind,), compression = index["config"]["data_format"], index["config"]["compression"]
        name, _, number = kind.partition(":")
        dtype = np.dtype(FORMATS[name][int(number)])
        chunks = [(path.parent / chunk["filename"], chunk) for chunk in index["chunks"]]
    if compression:
        raise DataError(f"Expected chunks that are not compressed, found {compression}: {path}")
    parts, ends, claims, before = [], [np.empty(0, data.END)], [], 0
    for file, chunk in chunks:
        bounds = _bounds(file)
        claims.append(_claim(chunk, "chunk_size", "items", len(bounds) - 1, path))
        count, rest = divmod(int(bounds[-1] - bounds[0]), dtype.itemsize)
        if rest or ((bounds - bounds[0]) % dtype.itemsize).any():
            raise DataError(f"Expected items of {dtype.itemsize}-byte tokens, found others: {file}")
        parts.append(numbers(file, dtype, count, int(bounds[0])))
        ends.append((bounds[1:] - bounds[0]) // dtype.itemsize + before)
        before += count
    return Inventory(
        tokens=data.joined(parts),
        ends=without_empty(np.concatenate(ends)),
        files=(*(file for file, _ in chunks), path),
        claims=claims,
    )


def read_mds(path: Path) -> Inventory:
    """Reads a folder of MosaicML streaming: samples with a column `tokens` or `input_ids`.

    A sample is ``<u4`` sizes of its columns of no fixed size, then the columns. The column is
    "ndarray", with or without a type and a shape, or "bytes", whose width no file tells. Samples
    are joined: as a rule they are of one length, and documents end where end-of-text stands.

    Raises:
        DataError: When it is no such folder, is compressed, or its files are damaged.

    References:
        streaming, base/format/mds/writer.py and encodings.py; llm-foundry, its
        scripts/data_prep/convert_dataset_hf.py.
    """
    index = _index(path)
    told = f"Expected samples with a column {' or '.join(COLUMNS)} of tokens, found others, {path}:"
    with expecting(told):
        columns = [_column(path.parent, shard) for shard in index["shards"]]
        claims = [
            claim
            for column, shard in zip(columns, index["shards"], strict=True)
            for claim in (
                _claim(shard, "samples", "samples", len(column.begins), path),
                _claim(shard["raw_data"], "bytes", "bytes", size_of(column.file), path),
            )
        ]
    files = (*(column.file for column in columns), path)
    types = [column.dtype for column in columns if column.dtype is not None]

    def of_width(width: int) -> data.Tokens:
        return data.joined([_gathered(column, np.dtype(f"<u{width}")) for column in columns])

    tokens: data.Tokens | Callable[[int], data.Tokens] = of_width
    if len(types) == len(columns):
        tokens = data.joined([_gathered(*of_type) for of_type in zip(columns, types, strict=True)])
    return Inventory(tokens=tokens, files=files, claims=claims)


def _claim(entry: Mapping[str, Any], key: str, what: str, found: int, path: Path) -> Claim:
    """What an entry of an index says; where it says nothing, what there is."""
    declared = entry.get(key, found)
    return Claim(what, declared if isinstance(declared, int) else -1, found, path)


class _Column(NamedTuple):
    """Where the values of a column lie in an MDS file, in bytes, and their type, if it is told."""

    file: Path
    begins: np.ndarray
    stops: np.ndarray
    dtype: np.dtype | None


def _column(folder: Path, shard: Mapping[str, Any]) -> _Column:
    """Finds the column of tokens in a file's samples."""
    file = folder / shard["raw_data"]["basename"]
    if shard["format"] != "mds" or shard["compression"]:
        raise DataError(f"Expected MDS that is not compressed, found other: {file}")
    names, sizes = shard["column_names"], shard["column_sizes"]
    column = names.index(next((name for name in COLUMNS if name in names), ""))
    raw, bounds = numbers(file, "u1"), _bounds(file)

    def number_at(places: np.ndarray, size: int) -> np.ndarray:
        found = np.asarray(raw[places[:, None] + np.arange(size)])  # (samples, bytes)
        return found.view(f"<u{size}")[:, 0].astype(np.int64)

    free = [n for n, size in enumerate(sizes) if size is None]
    told = {n: number_at(bounds[:-1] + 4 * i, 4) for i, n in enumerate(free)}
    of_columns = [told.get(n, np.full(len(bounds) - 1, size)) for n, size in enumerate(sizes)]
    begins = bounds[:-1] + 4 * len(free) + sum(of_columns[:column], np.int64(0))
    stops = begins + of_columns[column]
    if len(begins) and int((begins + sum(of_columns[column:], np.int64(0)) != bounds[1:]).sum()):
        raise DataError(f"Expected columns within their samples, found others: {file}")
    kind, _, about = shard["column_encodings"][column].partition(":")
    if kind == "bytes":
        return _Column(file, begins, stops, None)
    of_type, _, shape = about.partition(":")
    if kind != "ndarray" or not of_type:
        raise DataError(f"Expected a column of one type, found one without: {file}")
    dtype = np.dtype(UNSIGNED[of_type])
    counts = np.full(len(begins), prod(map(int, shape.split(",")))) if shape else None
    if counts is None:  # a byte: axes and the width of their lengths; the lengths
        heads = np.asarray(raw[begins]).astype(np.int64)
        counts, widths = np.ones(len(begins), np.int64), 2 ** (heads & 3)
        for axis, width in np.unique(np.stack([heads >> 2, widths]), axis=1).T.tolist():
            own = (heads >> 2 == axis) & (widths == width)
            for place in range(axis):
                counts[own] *= number_at(begins[own] + 1 + place * width, width)
        begins = begins + 1 + (heads >> 2) * widths
    if (counts * dtype.itemsize != stops - begins).any():
        raise DataError(f"Expected arrays as large as their shapes, found others: {file}")
    return _Column(file, begins, stops, dtype)


def _gathered(column: _Column, dtype: np.dtype) -> data.LazyTokens:
    """A column's tokens under a type, gathered out of its samples."""
    begins, sizes, raw = column.begins, column.stops - column.begins, numbers(column.file, "u1")
    if (sizes % dtype.itemsize).any() or (sizes < 0).any():
        raise DataError(f"Expected tokens of {dtype.itemsize} bytes, found others: {column.file}")
    ends = np.cumsum(sizes // dtype.itemsize)
    starts = ends - sizes // dtype.itemsize

    def take(positions: np.ndarray) -> np.ndarray:
        sample = np.searchsorted(ends, positions, "right")
        places = begins[sample] + (positions - starts[sample]) * dtype.itemsize
        found = np.asarray(raw[places[..., None] + np.arange(dtype.itemsize)])
        return found.view(dtype)[..., 0]

    return data.LazyTokens(take, dtype, (0, int(ends[-1]) if len(ends) else 0))


def _index(path: Path) -> Any:
    size_of(path)
    with expecting(f"Expected an index of chunks, found {path}:"):
        return read_json(path)


def _bounds(file: Path) -> np.ndarray:
    """Where items begin and the last one ends, in bytes: the end of the file."""
    size, begin = size_of(file), content(file, 4)
    items = int.from_bytes(begin, "little") if len(begin) == 4 else 0
    if size < 4 * (items + 2):
        raise DataError(f"Expected a chunk of {items} items, found {size} bytes: {file}")
    bounds = np.frombuffer(content(file, 4 * (items + 2))[4:], "<u4").astype(np.int64)
    if bounds[0] < 4 * (items + 2) or bounds[-1] != size or (np.diff(bounds) < 0).any():
        raise DataError(
            f"Expected {items} items up to byte {bounds[-1]}, found a chunk of {size} bytes: {file}"
        )
    return bounds
