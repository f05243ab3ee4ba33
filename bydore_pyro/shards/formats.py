"""The formats of token shards by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bydore_pyro.shards.chunks import read_litdata, read_mds
from bydore_pyro.shards.columns import LEDGER, read_datasets, read_levanter
from bydore_pyro.shards.inventory import Inventory
from bydore_pyro.shards.names import holds_no_text
from bydore_pyro.shards.readers import (
    read_dolma,
    read_litpkds,
    read_llmc,
    read_megatron,
    read_nanogpt,
    read_nanotron,
    read_numpy,
)


@dataclass(frozen=True)
class Reader:
    """How a format is read.

    Attributes:
        read: Takes a file that stands for a shard; returns what is there.
        endings: Of the paths of such files.
        own: Of the paths of the other files of a shard: none may lie there that no shard reads.
        copies: Patterns of the names of files that end so and hold a copy.
    """

    read: Callable[[Path], Inventory]
    endings: tuple[str, ...]
    own: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()

    def has_text(self, path: Path, depth: int = 0) -> bool:
        """Returns whether a file may hold text of its own, by its name and those of the folders
        that it is in; so many names at the beginning of its path are not looked at."""
        if any(fnmatchcase(path.name.lower(), pattern) for pattern in self.copies):
            return False
        place = path.as_posix()
        endings = *self.endings, *self.own
        known = next((ending for ending in endings if place.endswith(ending)), path.suffix)
        parts = Path(place.removesuffix(known)).parts[depth:]
        folders = parts if known.startswith("/") else parts[:-1]
        return not holds_no_text(folders, "".join(parts[len(folders) :]))


READERS: dict[str, Reader] = {
    "megatron": Reader(read_megatron, (".idx",), (".bin",)),
    "dolma": Reader(read_dolma, (".npy",), (".csv.gz", ".npz")),
    "numpy": Reader(read_numpy, (".npy",), (".npz",)),
    "nanotron": Reader(
        read_nanotron, (".ds",), (".ds.index", ".ds.metadata"), ("*_unshuffled.ds*",)
    ),
    "levanter": Reader(read_levanter, ("/input_ids/offsets/zarr.json",), (LEDGER,)),
    "litdata": Reader(read_litdata, ("/index.json",), (".bin",)),
    "mds": Reader(read_mds, ("/index.json",), (".mds",)),
    "llmc": Reader(read_llmc, (".bin",)),
    "litpkds": Reader(read_litpkds, (".bin",)),
    "nanogpt": Reader(read_nanogpt, (".bin",), (".idx", "/index.json")),
    "datasets": Reader(read_datasets, (".arrow", ".parquet"), (), ("cache-*",)),
}
