"""The formats of token shards by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bydore_pyro.shards.chunks import read_litdata, read_mds
from bydore_pyro.shards.columns import LEDGER, read_datasets, read_levanter
from bydore_pyro.shards.inventory import Inventory
from bydore_pyro.shards.readers import (
    read_dolma,
    read_litpkds,
    read_llmc,
    read_megatron,
    read_nanotron,
)

# Of OLMo-core: which tokens count, and where they stand.
MASKS = ("mask*", "*_mask*", "labels*", "*_labels*", "position_ids*", "*_position_ids*")


@dataclass(frozen=True)
class Reader:
    """How a format is read.

    Attributes:
        read: Takes a file that stands for a shard; returns what is there.
        endings: Of the paths of such files.
        own: Of the paths of the other files of a shard: none may lie there that no shard reads.
        no_text: Patterns of the names of files that end so and hold other things, or a copy.
    """

    read: Callable[[Path], Inventory]
    endings: tuple[str, ...]
    own: tuple[str, ...] = ()
    no_text: tuple[str, ...] = ()

    def stands_for(self, path: Path) -> bool:
        """Whether a file stands for a shard, by its name."""
        return path.as_posix().endswith(self.endings) and not self.is_left_out(path)

    def is_left_out(self, path: Path) -> bool:
        """Whether a file holds no text of its own, by its name."""
        return any(fnmatchcase(path.name.lower(), pattern) for pattern in self.no_text)


READERS: dict[str, Reader] = {
    "megatron": Reader(read_megatron, (".idx",), (".bin",)),
    "dolma": Reader(read_dolma, (".npy",), (".csv.gz",), MASKS),
    "nanotron": Reader(
        read_nanotron, (".ds",), (".ds.index", ".ds.metadata"), ("*_unshuffled.ds*",)
    ),
    "levanter": Reader(read_levanter, ("/input_ids/offsets/zarr.json",), (LEDGER,)),
    "litdata": Reader(read_litdata, ("/index.json",), (".bin",)),
    "mds": Reader(read_mds, ("/index.json",), (".mds",)),
    "llmc": Reader(read_llmc, (".bin",)),
    "litpkds": Reader(read_litpkds, (".bin",)),
    "datasets": Reader(read_datasets, (".arrow", ".parquet"), (), ("cache-*",)),
}
