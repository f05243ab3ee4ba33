"""The formats of one array of tokens a file: a function each, from a file to its inventory.

Nothing is unpickled, and no array is opened by `numpy.load`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bydore_pyro import data
from bydore_pyro.errors import DataError, expecting
from bydore_pyro.shards.arrays import (
    NPY,
    content,
    headerless,
    numbers,
    saved,
    size_of,
    without_empty,
)
from bydore_pyro.shards.inventory import Claim, Inventory
from bydore_pyro.shards.widths import WIDTHS

# Numbers of types in Megatron's and TinyLlama's files: int32, int64 and uint16. The signed ones are
# read as unsigned: a negative number is then one beyond every vocabulary.
TYPES = {4: "<u4", 5: "<u8", 8: "<u2"}
ABOUT = 4096  # bytes of metadata that are read


def read_megatron(path: Path) -> Inventory:
    """Reads ``PREFIX.idx`` and ``PREFIX.bin`` of Megatron-LM and NeMo.

    The index is ``MMIDIDX\\0\\0``, ``<Q`` version 1, ``<B`` type of the tokens, ``<Q`` sequences,
    ``<Q`` documents + 1, then ``<i4`` lengths and ``<i8`` byte offsets of the sequences, and
    ``<i8`` the sequence with which each document begins. (A byte a sequence may follow: modes.)

    Raises:
        DataError: When it is none, or the index does not go together.

    References:
        megatron-core, core/datasets/indexed_dataset.py.
    """
    header, index = struct.Struct("<9sQBQQ"), content(path)
    if len(index) < header.size or not index.startswith(b"MMIDIDX\0\0"):
        raise DataError(f"Expected an index that begins with MMIDIDX, found another file: {path}")
    _, version, code, sequences, documents = header.unpack_from(index)
    _require_version(version, code, path)
    dtype = np.dtype(TYPES[code])
    size = header.size + 12 * sequences + 8 * documents
    if len(index) not in (size, size + sequences):
        raise DataError(
            f"Expected {size} bytes for {sequences} sequences, found {len(index)}: {path}"
        )
    lengths = np.frombuffer(index, "<i4", sequences, header.size)
    offsets = np.frombuffer(index, "<i8", sequences, header.size + 4 * sequences)
    begins = np.frombuffer(index, "<i8", documents, header.size + 12 * sequences)
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if (offsets != bounds[:-1] * dtype.itemsize).any() or (
        (begins < 0) | (begins > sequences)
    ).any():
        raise DataError(f"Expected sequences one behind the other, found gaps: {path}")
    tokens = path.with_suffix(".bin")
    found = numbers(tokens, dtype, int(bounds[-1]))
    return Inventory(tokens=found, ends=without_empty(bounds[begins]), files=(tokens, path))


def read_dolma(path: Path) -> Inventory:
    """Reads ``NAME.npy`` of dolma and OLMo-core: tokens without a header, in spite of the name. An
    array that `numpy.save` wrote is read by its header.

    ``NAME.csv.gz`` beside it has a line a document, which begins with its first position and the
    one behind its last, but OLMo-core leaves out a last document without end-of-text. The lines
    tell the width of a token too if they reach the end.

    Raises:
        DataError: When the file is of another kind, or the lines are damaged.

    References:
        dolma, tokenizer/memmap_writer.py; OLMo-core, data/utils.py `write_document_indices`,
        data/numpy_dataset.py `get_dtype`. Its issues 653 and 843 tell of documents that were merged
        by a search for end-of-text.
    """
    index, has_header = path.with_suffix(".csv.gz"), content(path, len(NPY)) == NPY
    tokens: data.Tokens | Callable[[int], data.Tokens] = (
        saved(path) if has_header else headerless(path)
    )
    if not index.exists() and not index.is_symlink():
        return Inventory(tokens=tokens, files=(path,), index=index)
    starts, ends = _lines(index, size_of(path) // 2)
    if (starts != np.concatenate([[0], ends[:-1]])[: len(starts)]).any():
        raise DataError(f"Expected documents one behind the other, found gaps: {index}")
    if not has_header:
        tokens = _counted(path, int(ends[-1]) if len(ends) else 0)
    return Inventory(tokens=tokens, ends=ends, files=(path, index), index=index, open_end=True)


def _lines(path: Path, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The first two columns of a compressed file of numbers, of no more than so many lines."""
    import pyarrow
    from pyarrow import csv

    size_of(path)
    names = csv.ReadOptions(autogenerate_column_names=True)
    columns = ["f0", "f1"]
    types = dict.fromkeys(columns, pyarrow.int64())
    given = csv.ConvertOptions(include_columns=columns, column_types=types, null_values=[])
    found, count = [], 0
    with (
        expecting(f"Expected lines of START,END, found {path}:", pyarrow.ArrowException, OSError),
        csv.open_csv(path, names, convert_options=given) as lines,
    ):
        for batch in lines:
            found.append([column.to_numpy() for column in batch.columns])
            if (count := count + len(batch)) > most:
                raise DataError(f"Expected at most {most} documents, found more lines: {path}")
    starts, ends = np.hstack([np.empty((2, 0), np.int64), *map(np.stack, found)])
    return starts, ends


def read_nanotron(path: Path) -> Inventory:
    """Reads ``NAME.ds`` of datatrove and nanotron: tokens alone.

    ``NAME.ds.index`` has a ``<u8`` for every document, the position behind its last token.
    ``NAME.ds.metadata`` begins with the tokenizer's name, in newer ones with ``|`` and a token's
    bytes behind it; its second line is the number of tokens.

    Raises:
        DataError: When a file cannot be read.

    References:
        datatrove, pipeline/tokens/tokenizer.py `TokenizedFile`; nanotron, docs/nanoset.md.
    """
    index, about = (path.with_name(f"{path.name}.{end}") for end in ("index", "metadata"))
    there = [file for file in (index, about) if file.exists() or file.is_symlink()]
    lines = ["", ""]
    if about in there:
        lines = content(about, ABOUT).decode("utf-8", "replace").splitlines() + lines
    told, _, size = lines[0].partition("|")
    tokens: data.Tokens | Callable[[int], data.Tokens] = headerless(path)
    ends, files, claims = None, [path], []
    declared = int(lines[1]) if lines[1].isdecimal() else None
    if index in there:
        ends, files = np.asarray(numbers(index, "<i8")), [path, index]
        tokens = _counted(path, int(ends[-1]) if len(ends) else 0)
    elif size in ("2", "4", "8"):
        tokens = numbers(path, f"<u{size}")
    elif declared is not None:
        tokens = _counted(path, declared)
    if declared is not None:
        claims.append(Claim("tokens", declared, None, about))
    return Inventory(
        tokens=tokens,
        ends=ends,
        files=tuple(files),
        beside=tuple(there),
        claims=claims,
        index=index,
        tokenizer=told or None,
    )


def _counted(path: Path, count: int) -> data.Tokens | Callable[[int], data.Tokens]:
    """The tokens of a file that is as long as so many, or a function of the width if it is not."""
    size, of_width = size_of(path), headerless(path)
    width = next((each for each in WIDTHS if size == each * count), None)
    return of_width(width) if width else of_width


def read_numpy(path: Path) -> Inventory:
    """Reads ``NAME.npy`` of `numpy.save`: tokens ``(N,)`` or rows of them ``(B, T)``.

    The header tells their type. Nothing tells where documents end.

    Raises:
        DataError: When it is another file, or holds something else than whole numbers.

    References:
        NumPy, lib/format.py.
    """
    if content(path, len(NPY)) != NPY:
        raise DataError(
            f"Expected an array of numpy.save, found none; dolma: reads tokens without a header: "
            f"{path}"
        )
    return Inventory(tokens=saved(path), files=(path,))


def read_nanogpt(path: Path) -> Inventory:
    """Reads ``NAME.bin`` of nanoGPT and DoGE: tokens alone, uint16 as a rule.

    Nothing tells their width, nor where documents end; nanoGPT ends each with end-of-text.

    Raises:
        DataError: When it is a file of another kind.

    References:
        nanoGPT, data/openwebtext/prepare.py; DoGE, src/data/slimpajama.py.
    """
    return Inventory(tokens=headerless(path), files=(path,))


def read_llmc(path: Path) -> Inventory:
    """Reads ``NAME.bin`` of llm.c and modded-nanogpt: 256 ``<i4``, then tokens.

    The first of these numbers is 20240520 for uint16 tokens and 20240801 for uint32, the second a
    version, the third the number of tokens. Nothing tells where documents end; end-of-text stands
    before each document, which is all the same to their ends.

    Raises:
        DataError: When it is another file, or holds another number of tokens.

    References:
        llm.c, dev/data/data_common.py `write_datafile`.
    """
    header = np.frombuffer(content(path, 1024).ljust(1024, b"\0"), "<i4")
    magic, _, count = header[:3].tolist()
    dtype = {20240520: "<u2", 20240801: "<u4"}.get(magic)
    if dtype is None or size_of(path) < 1024:
        raise DataError(
            f"Expected a file that begins with 20240520 or 20240801, found another (nanogpt: reads "
            f"tokens without a header): {path}"
        )
    return Inventory(tokens=numbers(path, dtype, count, 1024), files=(path,))


def read_litpkds(path: Path) -> Inventory:
    """Reads ``NAME.bin`` of TinyLlama and RegMix: a header of 24 bytes, then tokens.

    The header is ``LITPKDS``, ``<Q`` version 1, ``<B`` type of the tokens, ``<Q`` their number.
    Nothing tells where documents end. A last chunk is filled up with the separator.

    Raises:
        DataError: When it is another file, or holds another number of tokens.

    References:
        TinyLlama, lit_gpt/packed_dataset.py.
    """
    header = struct.Struct("<7sQBQ")
    begin = content(path, header.size)
    if len(begin) < header.size or not begin.startswith(b"LITPKDS"):
        raise DataError(f"Expected a file that begins with LITPKDS, found {path}")
    _, version, code, count = header.unpack(begin)
    _require_version(version, code, path)
    return Inventory(tokens=numbers(path, TYPES[code], count, header.size), files=(path,))


def _require_version(version: int, code: int, path: Path) -> None:
    if version != 1 or code not in TYPES:
        raise DataError(
            f"Expected version 1 and tokens of type {', '.join(map(str, TYPES))}, found version "
            f"{version} and type {code}: {path}"
        )
