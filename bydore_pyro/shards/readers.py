"""The formats of one array of tokens a file: a function each, from a file to its shard.

Nothing is unpickled, and no array is opened by `numpy.load`.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from bydore_pyro.shards.arrays import Shard, mapped, without_empty
from bydore_pyro.utils import DataError, one_line

__all__ = ["read_dolma", "read_litpkds", "read_llmc", "read_megatron", "read_nanotron"]

# Numbers of types in Megatron's and TinyLlama's files: int32, int64 and uint16. The signed ones are
# read as unsigned: a negative number is then one beyond every vocabulary.
TYPES = {4: "<u4", 5: "<u8", 8: "<u2"}


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
    if version != 1 or code not in TYPES:
        raise DataError(
            f"Expected version 1 and tokens of type {', '.join(map(str, TYPES))}, found version "
            f"{version} and type {code}: {path}"
        )
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
    ends = without_empty(bounds[begins])
    found = mapped(tokens, dtype, int(bounds[-1]), scattered=True)
    return Shard(found, ends, (tokens, path))


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
    tokens = mapped(path, _counted(path, ends) or _smallest(vocabulary), scattered=True)
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
        tokens = mapped(path, _counted(path, ends) or "<u2", int(ends[-1]), scattered=True)
        return Shard(tokens, ends, (path, index), told or None)
    dtype = f"<u{size}" if size in ("2", "4") else _smallest(vocabulary)
    return Shard(mapped(path, dtype), None, (path,), told or None)


def _smallest(vocabulary: int) -> str:
    return "<u2" if vocabulary <= 2**16 else "<u4"


def _counted(path: Path, ends: np.ndarray) -> str | None:
    """Returns the type of which a file holds as many tokens as documents have, None where none."""
    count, size = int(ends[-1]) if len(ends) else 0, path.stat().st_size if path.exists() else 0
    return next((f"<u{each}" for each in (2, 4) if size == each * count), None)


def read_llmc(path: Path, vocabulary: int) -> Shard:
    """Reads ``NAME.bin`` of llm.c and modded-nanogpt: 256 ``<i4``, then tokens.

    The first of these numbers is 20240520 for uint16 tokens and 20240801 for uint32, the second a
    version, the third the number of tokens. Nothing tells where documents end; end-of-text stands
    before each document, which is all the same to their ends.

    Raises:
        DataError: When it is another file, or holds another number of tokens.

    References:
        llm.c, dev/data/data_common.py `write_datafile`.
    """
    header = mapped(path, "u1")[:1024]
    magic, _, count = header[:12].view("<i4").tolist() if len(header) == 1024 else (0, 0, 0)
    dtype = {20240520: "<u2", 20240801: "<u4"}.get(magic)
    if dtype is None:
        raise DataError(f"Expected a file that begins with 20240520 or 20240801, found {path}")
    return Shard(mapped(path, dtype, count, 1024), None, (path,))


def read_litpkds(path: Path, vocabulary: int) -> Shard:
    """Reads ``NAME.bin`` of TinyLlama and RegMix: a header of 24 bytes, then tokens.

    The header is ``LITPKDS``, ``<Q`` version 1, ``<B`` type of the tokens, ``<Q`` their number.
    Nothing tells where documents end.

    Raises:
        DataError: When it is another file, or holds another number of tokens.

    References:
        TinyLlama, lit_gpt/packed_dataset.py.
    """
    header = struct.Struct("<7sQBQ")
    begin = mapped(path, "u1")[: header.size].tobytes()
    if len(begin) < header.size or not begin.startswith(b"LITPKDS"):
        raise DataError(f"Expected a file that begins with LITPKDS, found {path}")
    _, version, code, count = header.unpack(begin)
    dtype = TYPES.get(code)
    if version != 1 or dtype is None:
        raise DataError(
            f"Expected version 1 and tokens of type {', '.join(map(str, TYPES))}, found version "
            f"{version} and type {code}: {path}"
        )
    return Shard(mapped(path, dtype, count, header.size), None, (path,))
