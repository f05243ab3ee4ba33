"""The formats that numpy reads: a function each, from a file that names a shard to its tokens.

Nothing is unpickled, and no array is opened by `numpy.load`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bydore_pyro.shards.arrays import Shard, mapped
from bydore_pyro.utils import DataError, one_line

__all__ = ["READERS", "Reader", "read_dolma", "read_megatron", "read_nanotron"]


@dataclass(frozen=True)
class Reader:
    """How a format is read.

    Attributes:
        ending: Of the name of the file that stands for a shard.
        read: Takes that file and the size of the vocabulary, by which some trainers choose the
            type of their tokens; returns the shard.
    """

    ending: str
    read: Callable[[Path, int], Shard]


def read_megatron(path: Path, vocabulary: int) -> Shard:
    """Reads ``PREFIX.idx`` and ``PREFIX.bin`` of Megatron-LM and NeMo.

    The index is ``MMIDIDX\\0\\0``, ``<Q`` version 1, ``<B`` type of the tokens, ``<Q`` sequences,
    ``<Q`` documents + 1, then ``<i4`` lengths and ``<i8`` byte offsets of the sequences, and
    ``<i8`` the sequence with which each document begins. (A byte a sequence may follow: modes.)

    Raises:
        DataError: When it is none, or the index and the tokens do not go together.

    References:
        megatron-core, core/datasets/indexed_dataset.py.
    """
    header = struct.Struct("<9sQBQQ")
    index = mapped(path, "u1")
    if len(index) < header.size or index[:9].tobytes() != b"MMIDIDX\0\0":
        raise DataError(f"Expected an index that begins with MMIDIDX, found another file: {path}")
    _, version, code, sequences, documents = header.unpack(index[: header.size].tobytes())
    # int32 as uint32: a negative number is one beyond every vocabulary.
    dtype = np.dtype({4: "<u4", 5: "<u8", 8: "<u2"}.get(code, "V1"))
    if version != 1 or dtype.kind != "u":
        raise DataError(
            f"Expected version 1 and tokens of type 4, 5 or 8 (int32, int64, uint16), found "
            f"version {version} and type {code}: {path}"
        )
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
    ends = np.unique(bounds[begins])
    return Shard(mapped(tokens, dtype, int(bounds[-1])), ends[ends > 0], (tokens, path))


def read_dolma(path: Path, vocabulary: int) -> Shard:
    """Reads ``NAME.npy`` of dolma and OLMo-core: tokens without a header, in spite of the name.

    ``NAME.csv.gz`` beside it has a line a document, which begins with its first position and the
    one behind its last, but OLMo-core leaves out a last document without end-of-text. The lines
    tell the type too if they reach the end. Else it is the smallest unsigned one for the
    vocabulary. Without lines documents end where end-of-text stands.

    Raises:
        DataError: When both do not go together.

    References:
        dolma, tokenizer/memmap_writer.py; OLMo-core, data/utils.py `write_document_indices`,
        data/numpy_dataset.py `get_dtype`. Its issues 653 and 843 tell of documents that were merged
        by a search for end-of-text.
    """
    index = path.with_suffix(".csv.gz")
    if not index.exists():
        return Shard(mapped(path, _smallest(vocabulary)), None, (path,))
    import pyarrow
    from pyarrow import csv

    names = csv.ReadOptions(autogenerate_column_names=True)
    kept = csv.ConvertOptions(include_columns=["f1"], column_types={"f1": pyarrow.int64()})
    try:
        ends = csv.read_csv(index, names, convert_options=kept)["f1"].to_numpy()
    except (pyarrow.ArrowException, OSError) as error:
        told = one_line(error)
        raise DataError(f"Expected lines of START,END, found {index}: {told}") from None
    tokens = mapped(path, _counted(path, ends) or _smallest(vocabulary))
    if len(ends) and ends[-1] < len(tokens):
        ends = np.append(ends, len(tokens))
    return Shard(tokens, ends, (path, index))


def read_nanotron(path: Path, vocabulary: int) -> Shard:
    """Reads ``NAME.ds`` of datatrove and nanotron: tokens, uint16 or uint32.

    ``NAME.ds.index`` has a ``<u8`` for every document, the position behind its last token.
    ``NAME.ds.metadata`` begins with the tokenizer's name; newer ones add ``|`` and a token's bytes.
    Without an index they, or else the vocabulary, tell the type.

    Raises:
        DataError: When both do not go together.

    References:
        datatrove, pipeline/tokens/tokenizer.py `TokenizedFile`; nanotron, docs/nanoset.md.
    """
    index, about = (path.with_name(f"{path.name}.{end}") for end in ("index", "metadata"))
    told, _, size = "", "", ""
    if about.exists():
        first = about.read_text("utf-8", errors="replace").partition("\n")[0]
        told, _, size = first.partition("|")
    if index.exists():
        ends = mapped(index, "<i8")
        tokens = mapped(path, _counted(path, ends) or "<u2", int(ends[-1]))
        return Shard(tokens, ends, (path, index), told or None)
    dtype = f"<u{size}" if size in ("2", "4") else _smallest(vocabulary)
    return Shard(mapped(path, dtype), None, (path,), told or None)


def _smallest(vocabulary: int) -> str:
    return "<u2" if vocabulary <= 2**16 else "<u4"


def _counted(path: Path, ends: np.ndarray) -> str | None:
    """Returns the type of which a file holds as many tokens as documents have, None where none."""
    count, size = int(ends[-1]) if len(ends) else 0, path.stat().st_size if path.exists() else 0
    return next((f"<u{each}" for each in (2, 4) if size == each * count), None)


READERS: dict[str, Reader] = {
    "megatron": Reader(".idx", read_megatron),
    "dolma": Reader(".npy", read_dolma),
    "nanotron": Reader(".ds", read_nanotron),
}
