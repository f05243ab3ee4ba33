"""The formats of token shards by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bydore_pyro.shards.arrays import Shard
from bydore_pyro.shards.chunks import read_litdata, read_mds
from bydore_pyro.shards.columns import read_datasets, read_levanter
from bydore_pyro.shards.readers import (
    read_dolma,
    read_litpkds,
    read_llmc,
    read_megatron,
    read_nanotron,
)

__all__ = ["READERS", "Reader"]


@dataclass(frozen=True)
class Reader:
    """How a format is read.

    Attributes:
        read: Takes a file that stands for a shard, and the size of the vocabulary, by which some
            trainers choose the type of their tokens; returns the shard.
        endings: Of the names of such files.
    """

    read: Callable[[Path, int], Shard]
    endings: tuple[str, ...]


READERS: dict[str, Reader] = {
    "megatron": Reader(read_megatron, (".idx",)),
    "dolma": Reader(read_dolma, (".npy",)),
    "nanotron": Reader(read_nanotron, (".ds",)),
    "levanter": Reader(read_levanter, ("input_ids/offsets/zarr.json",)),
    "litdata": Reader(read_litdata, ("index.json",)),
    "mds": Reader(read_mds, ("index.json",)),
    "llmc": Reader(read_llmc, (".bin",)),
    "litpkds": Reader(read_litpkds, (".bin",)),
    "datasets": Reader(read_datasets, (".arrow", ".parquet")),
}
