"""What it costs to search on Megatron's shards where they lie, by their size.

    python benchmarks/shards.py --gigabytes 1 10 100

The files of tokens are sparse: they take no room, and reading them costs page faults but no disk.
Documents have 1,000 tokens. It prints the seconds to open the shards and to draw sequences, and how
much of the files was mapped into memory by either.
"""

from __future__ import annotations

import argparse
import gc
import os
import struct
import tempfile
import time
from pathlib import Path

import numpy as np

from bydore_pyro.data import Domains, TokenizerConfig
from bydore_pyro.data.tokenizer import train_tokenizer
from bydore_pyro.shards import open_shards

LENGTH, BATCH = 1000, 70  # tokens of a document, sequences of a batch


def write_sparse(prefix: Path, tokens: int) -> None:
    """Writes a shard of so many tokens, all of them end-of-text."""
    documents = tokens // LENGTH
    with prefix.with_suffix(".idx").open("wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1))
        file.write(np.full(documents, LENGTH, "<i4").tobytes())
        file.write((2 * LENGTH * np.arange(documents, dtype="<i8")).tobytes())
        file.write(np.arange(documents + 1, dtype="<i8").tobytes())
    with prefix.with_suffix(".bin").open("wb") as file:
        file.truncate(2 * LENGTH * documents)


def mapped() -> float:
    """Returns how much of files this process has mapped into memory, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssFile:")[1].split()[0]) / 1024


def measure(folder: Path, gigabytes: float, domains: int, sequences: int) -> str:
    """Opens shards of a size and draws sequences of 128 tokens; returns what it took."""
    place = folder / f"{gigabytes:g}"
    place.mkdir()
    for number in range(domains):
        write_sparse(place / f"d{number}_text_document", int(gigabytes * 5e8 / domains))
    gc.collect()  # the shards before, which are mapped
    os.sync()  # what is being written slows the reading down
    given = TokenizerConfig(tokenizer=str(folder / "tokenizer"))
    start, before = time.perf_counter(), mapped()
    data = f"megatron:{place}/*_text_document"
    store = open_shards(data, None, given, cache=folder / "cache")
    opened, of_opening = time.perf_counter() - start, mapped() - before
    drawn = Domains(store, {store.names[0]: 1.0}, measured=100)
    start, before = time.perf_counter(), mapped()
    for _ in range(sequences // BATCH):
        drawn.train_batch(dict.fromkeys(drawn.names, BATCH // domains))
    return (
        f"{gigabytes:g} GB in {domains} domains: opened in {opened:.1f} s ({of_opening:.0f} MB), "
        f"{sequences:,} sequences drawn in {time.perf_counter() - start:.1f} s "
        f"({mapped() - before:.0f} MB)"
    )


def main() -> None:
    """Measures one size after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0, 10.0, 100.0])
    parser.add_argument("--domains", type=int, default=10)
    parser.add_argument("--sequences", type=int, default=14_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train_tokenizer(["text"] * 10, 257, Path(folder) / "tokenizer")
        for gigabytes in given.gigabytes:
            print(measure(Path(folder), gigabytes, given.domains, given.sequences))


if __name__ == "__main__":
    main()
