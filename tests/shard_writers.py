"""Token shards as trainers write them, after the layouts that the readers' docstrings name."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import datasets
import numpy as np
import pytest

from bydore_pyro.shards.formats import READERS
from bydore_pyro.shards.inventory import Shard, checked
from bydore_pyro.shards.widths import Known

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
    rows = [
        f"{e - len(d)},{e},id-{n},a.jsonl.gz,{n}\n"
        for n, (d, e) in enumerate(zip(documents, ends, strict=True))
    ]
    path.with_suffix(".npy").write_bytes(b"".join(d.tobytes() for d in documents))
    path.with_suffix(".csv.gz").write_bytes(gzip.compress("".join(rows).encode()))
    return path.with_suffix(".npy")


def write_numpy(path: Path, documents: Documents) -> Path:
    """`NAME.npy`, as `numpy.save` writes it."""
    np.save(path.with_suffix(".npy"), np.concatenate(documents))
    return path.with_suffix(".npy")


def write_nanogpt(path: Path, documents: Documents) -> Path:
    """`NAME.bin`, which has no header."""
    path.with_suffix(".bin").write_bytes(b"".join(d.tobytes() for d in documents))
    return path.with_suffix(".bin")


def write_nanotron(path: Path, documents: Documents) -> Path:
    """`NAME.ds`, `NAME.ds.index` and `NAME.ds.metadata`."""
    file = path.with_suffix(".ds")
    ends = np.cumsum([len(d) for d in documents]).astype("<u8")
    file.write_bytes(b"".join(d.tobytes() for d in documents))
    file.with_name(f"{file.name}.index").write_bytes(ends.tobytes())
    about = f"some/gpt|{documents[0].dtype.itemsize}\n{ends[-1]}\n1 T"
    file.with_name(f"{file.name}.metadata").write_text(about)
    return file


def write_llmc(path: Path, documents: Documents) -> Path:
    """`NAME.bin`."""
    tokens = np.concatenate(documents)
    header = np.zeros(256, "<i4")
    header[:3] = 20240520 if tokens.dtype.itemsize == 2 else 20240801, 1, len(tokens)
    path.with_suffix(".bin").write_bytes(header.tobytes() + tokens.tobytes())
    return path.with_suffix(".bin")


def write_litpkds(path: Path, documents: Documents) -> Path:
    """`NAME.bin`."""
    tokens = np.concatenate(documents)
    code = 8 if tokens.dtype.itemsize == 2 else 4
    header = b"LITPKDS" + struct.pack("<QBQ", 1, code, len(tokens))
    path.with_suffix(".bin").write_bytes(header + tokens.tobytes())
    return path.with_suffix(".bin")


def chunk_of(items: Sequence[bytes], config: bytes = b"") -> bytes:
    """The layout that litdata and MDS share."""
    sizes = np.cumsum([0, *map(len, items)])
    bounds = (4 + 4 * len(sizes) + len(config) + sizes).astype("<u4")
    return np.array([len(items)], "<u4").tobytes() + bounds.tobytes() + config + b"".join(items)


def write_litdata(path: Path, documents: Documents) -> Path:
    """A folder with two chunks and `index.json`."""
    path.mkdir(parents=True)
    chunks, half = [], len(documents) // 2
    parts = [part for part in (documents[:half], documents[half:]) if part]
    for number, part in enumerate(parts):
        (path / f"chunk-0-{number}.bin").write_bytes(chunk_of([d.tobytes() for d in part]))
        chunks.append({"filename": f"chunk-0-{number}.bin", "chunk_size": len(part)})
    kind = 20 if documents[0].dtype.itemsize == 2 else 16
    config = {"data_format": [f"no_header_tensor:{kind}"], "compression": None}
    (path / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    return path / "index.json"


def write_mds(path: Path, documents: Documents, length: int = 64, kind: str = "") -> Path:
    """A folder with `shard.00000.mds` and `index.json`: samples of so many tokens, and the rest."""
    path.mkdir(parents=True)
    dtype = "int32" if documents[0].dtype.itemsize == 4 else "uint16"
    tokens = np.concatenate(documents).astype(dtype)
    samples = [tokens[start : start + length] for start in range(0, len(tokens), length)]
    columns = {"name": "str", "tokens": kind or f"ndarray:{dtype}"}

    def encoded(sample: np.ndarray) -> bytes:
        name, values = b"a name", sample.tobytes()
        if not kind:
            values = bytes([1 << 2 | 1]) + np.array([len(sample)], "<u2").tobytes() + values
        return np.array([len(name), len(values)], "<u4").tobytes() + name + values

    (path / "shard.00000.mds").write_bytes(chunk_of([encoded(s) for s in samples], b"{}"))
    shard = {
        "format": "mds",
        "compression": None,
        "raw_data": {"basename": "shard.00000.mds"},
        "column_names": [*columns],
        "column_encodings": [*columns.values()],
        "column_sizes": [None, None],
    }
    (path / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))
    return path / "index.json"


def write_levanter(path: Path, documents: Documents) -> Path:
    """A folder with `input_ids/data`, `input_ids/offsets` and `shard_ledger.json`."""
    import tensorstore

    inner = {"chunk_shape": [512], "codecs": [{"name": "blosc", "configuration": {"clevel": 5}}]}
    codecs = [{"name": "sharding_indexed", "configuration": inner}]
    grid = {"name": "regular", "configuration": {"chunk_shape": [4096]}}
    ends = np.cumsum([len(d) for d in documents])
    for name, content in (
        ("data", np.concatenate(documents)),
        ("offsets", np.array([len(documents), *ends], "<i8")),
    ):
        place = {"driver": "file", "path": str(path / "input_ids" / name)}
        spec = {"driver": "zarr3", "kvstore": place}
        spec["metadata"] = {"chunk_grid": grid, "codecs": codecs}
        given = {"dtype": content.dtype.name, "shape": [2**54], "create": True}
        tensorstore.open(spec, **given).result()[: len(content)].write(content).result()
    ledger = {"total_num_rows": len(documents), "is_finished": True}
    (path / "shard_ledger.json").write_text(json.dumps(ledger))
    return path / "input_ids" / "offsets" / "zarr.json"


def rows_of(documents: Documents) -> datasets.Dataset:
    """Rows of `input_ids`, as a tokenizing `map` leaves them."""
    dtype = "int32" if documents[0].dtype.itemsize == 4 else "uint16"
    features = datasets.Features({"input_ids": datasets.List(datasets.Value(dtype))})
    return datasets.Dataset.from_dict({"input_ids": [d.tolist() for d in documents]}, features)


def write_datasets(path: Path, documents: Documents) -> Path:
    """A folder as `save_to_disk` writes it."""
    rows_of(documents).save_to_disk(str(path))
    return path / "data-00000-of-00001.arrow"


WRITERS: dict[str, Callable[[Path, Documents], Path]] = {
    "megatron": write_megatron,
    "dolma": write_dolma,
    "numpy": write_numpy,
    "nanotron": write_nanotron,
    "levanter": write_levanter,
    "litdata": write_litdata,
    "mds": write_mds,
    "llmc": write_llmc,
    "litpkds": write_litpkds,
    "nanogpt": write_nanogpt,
    "datasets": write_datasets,
}
# Each by its name, those left out whose library is not installed.
EVERY = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name == "levanter" and find_spec("tensorstore") is None, reason="no tensorstore"
        ),
    )
    for name in WRITERS
]


def opened(kind: str, path: Path, vocabulary: int = 280) -> Shard:
    """Reads a shard, and checks it."""
    return checked(READERS[kind].read(path), Known(vocabulary=vocabulary, separator=7))


def documents(dtype: str = "<u2", count: int = 40) -> list[np.ndarray]:
    """Documents of random tokens below 280, each with token 7 at its end."""
    rng = np.random.default_rng(0)
    made = [rng.integers(8, 280, rng.integers(2, 90)).astype(dtype) for _ in range(count)]
    for one in made:
        one[-1] = 7
    return made
