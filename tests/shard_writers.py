"""Token shards as trainers write them, after the layouts that the readers' docstrings name."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

Documents = Sequence[np.ndarray]


def write_megatron(path: Path, documents: Documents) -> Path:
    """`PREFIX.bin` and `PREFIX.idx`, a sequence a document; returns the index."""
    small = documents[0].dtype.itemsize == 2
    lengths = np.array([len(d) for d in documents], "<i4")
    offsets = (np.cumsum(lengths) - lengths) * (2 if small else 4)
    path.with_suffix(".bin").write_bytes(b"".join(d.tobytes() for d in documents))
    header = b"MMIDIDX\0\0" + struct.pack("<QB", 1, 8 if small else 4)
    header += struct.pack("<QQ", len(documents), len(documents) + 1)
    arrays = lengths, offsets.astype("<i8"), np.arange(len(documents) + 1, dtype="<i8")
    path.with_suffix(".idx").write_bytes(header + b"".join(a.tobytes() for a in arrays))
    return path.with_suffix(".idx")


def write_dolma(path: Path, documents: Documents) -> Path:
    """`NAME.npy`, which has no header, and `NAME.csv.gz`."""
    ends = np.cumsum([len(d) for d in documents])
    rows = [f"{e - len(d)},{e},id-{n},a.jsonl.gz,{n}\n" for n, (d, e) in
            enumerate(zip(documents, ends, strict=True))]  # fmt: skip
    path.with_suffix(".npy").write_bytes(b"".join(d.tobytes() for d in documents))
    path.with_suffix(".csv.gz").write_bytes(gzip.compress("".join(rows).encode()))
    return path.with_suffix(".npy")


def write_nanotron(path: Path, documents: Documents) -> Path:
    """`NAME.ds`, `NAME.ds.index` and `NAME.ds.metadata`."""
    file = path.with_suffix(".ds")
    ends = np.cumsum([len(d) for d in documents]).astype("<u8")
    file.write_bytes(b"".join(d.tobytes() for d in documents))
    file.with_name(f"{file.name}.index").write_bytes(ends.tobytes())
    about = f"some/gpt|{documents[0].dtype.itemsize}\n{ends[-1]}\n1 T"
    file.with_name(f"{file.name}.metadata").write_text(about)
    return file


WRITERS: dict[str, Callable[[Path, Documents], Path]] = {
    "megatron": write_megatron,
    "dolma": write_dolma,
    "nanotron": write_nanotron,
}


def documents_of(tokens: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """Splits a store's array into its documents."""
    return np.split(np.asarray(tokens), ends[:-1])
