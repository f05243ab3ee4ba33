"""What it costs to search on Megatron's shards where they lie, by their size.

    python benchmarks/shards.py --gigabytes 1 10 100
    python benchmarks/shards.py --gigabytes --shards 1 10 100 1000

The files of tokens are sparse: they take no room, and reading them costs page faults but no disk.
Documents have 1,000 tokens. It prints the seconds to open the shards and to draw sequences, and how
much of the files was mapped into memory by either. With --shards it prints what a sequence of a
domain of so many small shards costs to read, beside the cost without a check of the files, and
beside a check of all files before every sequence.
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

from bydore_pyro.data import Domains, Text, TokenFile, TokenizerConfig, TokenStore
from bydore_pyro.data.tokenizer import train_tokenizer
from bydore_pyro.shards import open_shards
from bydore_pyro.shards.arrays import fingerprint, numbers

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


def reading(folder: Path, shards: int, sequences: int) -> str:
    """Reads sequences of 128 tokens of a domain of so many shards; returns what one of them costs
    as a multiple of reading it unchecked."""
    plain, watched = [], []
    for number in range(shards):
        path = folder / f"{number}.bin"
        np.zeros(64 * LENGTH, "<u2").tofile(path)
        tokens, ends = numbers(path, "<u2"), np.array([64 * LENGTH])
        plain.append(Text(tokens, ends))
        files = [TokenFile(path, fingerprint(path), fingerprint)]
        watched.append(Text.in_files(tokens, ends, files))
    stores = [
        TokenStore(folder, {"a": Text.joined(texts)}, {}, {"vocabulary": 1})
        for texts in (plain, watched)
    ]
    places = np.random.default_rng(0).integers(0, len(stores[0].train["a"]) - 128, sequences)
    seconds = np.empty((3, sequences))
    for n, place in enumerate(places):  # in turn, on a machine that is never quiet
        for kind, store in enumerate((*stores, stores[1])):
            start = time.perf_counter()
            if kind == 2:
                store.train["a"].require_unchanged()
            store.read("train", "a", place + np.arange(128))
            seconds[kind, n] = time.perf_counter() - start
    bare, own, every = np.median(seconds, 1)
    return (
        f"{shards} shards: a sequence takes {own / bare:.2f} times as long as unchecked, "
        f"{every / bare:.1f} times with a check of all files before it"
    )


def main() -> None:
    """Measures one size after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="*", default=[1.0, 10.0, 100.0])
    parser.add_argument("--shards", type=int, nargs="*", default=[])
    parser.add_argument("--domains", type=int, default=10)
    parser.add_argument("--sequences", type=int, default=14_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train_tokenizer(["text"] * 10, 257, Path(folder) / "tokenizer")
        for gigabytes in given.gigabytes:
            print(measure(Path(folder), gigabytes, given.domains, given.sequences))
        for shards in given.shards:
            print(reading(Path(folder), shards, 500))


if __name__ == "__main__":
    main()
