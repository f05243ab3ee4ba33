"""What `bydore prepare --tokens` reads of 1, 10 and 100 GB, and how long it takes.

    python benchmarks/sampling.py --gigabytes 1 10 100

1 GB in 64 shards is generated: rows of words, as JSON lines, the same packed, and as Parquet files.
More is these shards under many names, as hard links, so the disk holds them once, and most of them
lie in the memory of the system. A token is a byte here, so the true number is known. No document
counts as the duplicate of another.

Each size is read from the disk, and through a file system of fsspec (`counted://`) that counts
requests and bytes, and answers each request late. Then a server of S3 on this machine (`moto`)
holds smaller shards, behind a proxy that hangs up amid an answer each time that it has carried so
many more megabytes (`--breaks`): the store has to be that of an unbroken read from the disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import socket
import socketserver
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from bydore_pyro.cli.prepare import prepare_command
from bydore_pyro.data import open_store, save_tokenizer
from bydore_pyro.data.build import Build
from bydore_pyro.data.tokenizer import train_tokenizer
from bydore_pyro.files import provenance

Run = Callable[[str, Path, list[str], float], dict[str, Any]]
KINDS = ("jsonl", "jsonl.zst", "parquet")
SHARDS = 64  # of each kind
TEXTS, LONGEST = 512, 8000  # different texts, and the characters of the longest
ROWS = 1000  # of a row group
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
HEADER = """| read from | files of | size | bytes read | requests | seconds | peak memory | \
estimate, its standard error, and how far it is off |
|---|---|---|---|---|---|---|---|"""


class Counted(AbstractFileSystem):
    """A folder of this machine as if it lay elsewhere; each listing and each range is a request."""

    protocol = "counted"
    requests = size = 0
    latency = 0.0  # seconds

    @classmethod
    def asked(cls, size: int = 0) -> None:
        """Counts a request, and takes its time."""
        cls.requests, cls.size = cls.requests + 1, cls.size + size
        time.sleep(cls.latency)

    def ls(self, path: str, detail: bool = True, **given: Any) -> list[Any]:
        """Lists a folder; a listing is kept, as those of S3 are."""
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.asked()
            self.dircache[path] = LocalFileSystem().ls(path, detail=True)
        found = self.dircache[path]
        return found if detail else [entry["name"] for entry in found]

    def info(self, path: str, **given: Any) -> dict[str, Any]:
        """Tells size and time of a file, out of a listing where there is one."""
        path = self._strip_protocol(path)
        for entry in self.dircache.get(self._parent(path), []):
            if entry["name"] == path:
                return entry
        self.asked()
        return LocalFileSystem().info(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forgets the listings."""
        self.dircache.clear()

    def _open(self, path: str, mode: str = "rb", **given: Any) -> CountedFile:
        return CountedFile(self, path, mode, **given)


class CountedFile(AbstractBufferedFile):
    """A file of `Counted`."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        Counted.asked(end - start)
        with open(self.path, "rb") as file:
            file.seek(start)
            return file.read(end - start)


def prepared(data: str, out: Path, options: list[str], latency: float) -> dict[str, Any]:
    """Runs `bydore prepare` in this process; returns what it took and what it found."""
    warnings.filterwarnings("ignore", message=".*'counted' filesystem")
    fsspec.register_implementation("counted", Counted, clobber=True)
    Counted.latency, Counted.requests, Counted.size = latency, 0, 0
    save_tokenizer(options[-1], out.with_name(f"{out.name}-tokenizer"))  # which imports packages
    start, before = time.perf_counter(), _bytes_read()
    new = patch.object(Build, "_seen", lambda build, digest, split: None)
    with redirect_stdout(StringIO()), new:
        prepare_command(["--data", data, "--out", str(out), "--processes", "0", *options])
    seconds, size = time.perf_counter() - start, _bytes_read() - before
    store = open_store(out)
    memory = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    found = {"seconds": seconds, "memory": memory, "sha256": store.sha256, "requests": ""}
    found["sizes"] = {name: store.in_all(name) for name in store.names}
    counted = {"requests": Counted.requests, "bytes": Counted.size}
    return found | (counted if Counted.requests else {"bytes": size})


def _bytes_read() -> int:
    """Returns what this process has read from files, the store among them."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


def alone(data: str, out: Path, options: list[str], latency: float) -> dict[str, Any]:
    """Returns what `prepared` returns in a process of its own, whose memory it tells."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(prepared, data, out, options, latency).result()


def write_shards(folder: Path, size: float) -> float:
    """Writes shards of each kind; returns the mean of their tokens, with an end of each text."""
    import pyarrow
    from pyarrow import parquet

    rng, tokens = np.random.default_rng(0), 0
    words = [rng.bytes(int(rng.integers(1, 6))).hex() for _ in range(5000)]
    drawn = [[words[n] for n in rng.integers(5000, size=LONGEST // 2)] for _ in range(TEXTS)]
    texts = [" ".join(some)[: rng.integers(300, LONGEST)] for some in drawn]
    for number in range(SHARDS):
        rows: list[dict[str, str]] = []
        lines, written, extra = [], 0, rng.integers(1, 600)  # shards are unlike, and rows too
        while written < size / SHARDS:
            # The number makes it another text.
            text = f"{number:03d} {len(rows):06d} {texts[rng.integers(TEXTS)]}".strip()
            rows.append({"text": text, "source": f"{words[0]} " * int(rng.integers(extra))})
            lines.append(json.dumps(rows[-1]).encode() + b"\n")
            written += len(lines[-1])
            tokens += len(text) + 1
        content, place = b"".join(lines), f"{number:03d}"
        for kind in KINDS:
            (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / f"jsonl/{place}.jsonl").write_bytes(content)
        packed = str(folder / f"jsonl.zst/{place}.jsonl.zst")
        with pyarrow.CompressedOutputStream(packed, "zstd") as file:
            file.write(content)
        table = pyarrow.Table.from_pylist(rows)
        given = {"row_group_size": ROWS, "compression": "zstd"}
        parquet.write_table(table, folder / f"parquet/{place}.parquet", **given)
    return tokens / SHARDS


def link(shards: Path, folder: Path, count: int) -> int:
    """Puts shards into a domain's folder under so many names; returns the bytes of all."""
    (folder / "web").mkdir(parents=True)
    files, size = sorted(shards.iterdir()), 0
    for number in range(count):
        file = files[number % len(files)]
        os.link(file, folder / f"web/{number:05d}-{file.name}")
        size += file.stat().st_size
    return size


def line(place: str, kind: str, size: float, found: dict[str, Any], tokens: float) -> str:
    """Returns a row of the table; `tokens` is the true number of a domain."""
    told = []
    for estimate in found["sizes"].values():
        if estimate is None:
            told.append("all was read")
            continue
        error, off = estimate["standard_error"], estimate["tokens"] / tokens - 1
        spread = "?" if error is None else f"{error / tokens:.1%}"
        told.append(f"{estimate['tokens'] / 1e9:.3f}B, {spread}, {off:+.1%}")
    numbers = f"{found['bytes'] / 1e6:.1f} MB | {found['requests']} | {found['seconds']:.1f}"
    memory = f"{found['memory']:.0f} MB"
    return f"| {place} | {kind} | {size / 1e9:.2f} GB | {numbers} | {memory} | {'; '.join(told)} |"


class Relay(socketserver.BaseRequestHandler):
    """A connection to another port, until it breaks."""

    server: Proxy

    def handle(self) -> None:
        """Carries what comes both ways, and counts it."""
        server = self.server
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port)) as other:
            threading.Thread(target=self.forward, args=[other], daemon=True).start()
            while block := other.recv(2**16):
                server.size += len(block)
                if server.size >= (server.broken + 1) * server.breaks:
                    server.broken += 1
                    self.request.sendall(block[: len(block) // 2])
                    return
                self.request.sendall(block)

    def forward(self, other: socket.socket) -> None:
        """Carries the requests."""
        with suppress(OSError):
            while block := self.request.recv(2**16):
                self.server.requests += block.startswith((b"GET ", b"HEAD "))
                other.sendall(block)
            other.shutdown(socket.SHUT_WR)


class Proxy(socketserver.ThreadingTCPServer):
    """A port before another.

    Args:
        port: The other.
        breaks: A connection breaks each time that so many more bytes have been carried back.
    """

    daemon_threads, block_on_close = True, False

    def __init__(self, port: int, breaks: float) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.port, self.breaks = port, breaks
        self.requests = self.size = self.broken = 0


@contextmanager
def proxied(port: int, breaks: float) -> Iterator[Proxy]:
    """Runs a proxy, to which this process and those that it starts turn for S3."""
    with Proxy(port, breaks) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{proxy.server_address[1]}"
        try:
            yield proxy
        finally:
            proxy.shutdown()


def of_s3(
    run: Run, scratch: Path, shards: Path, options: list[str], tokens: float, most: float
) -> None:
    """Prints what a store of all kinds out of a bucket costs, unbroken and not."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    size = sum(link(shards / kind, scratch / "text" / kind, SHARDS) for kind in KINDS)
    here = run(str(scratch / "text"), scratch / "here", options, 0.0)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    os.environ |= KEYS
    port = server.get_host_and_port()[1]
    print(line("the disk", "all kinds", size, here, tokens * 0.9), flush=True)
    for breaks in (np.inf, most):
        with proxied(port, breaks) as proxy:
            files = fsspec.filesystem("s3", skip_instance_cache=True)
            if breaks == np.inf:
                files.mkdir("bucket")
                files.put(str(scratch / "text"), "bucket/text", recursive=True)
            proxy.requests = proxy.size = proxy.broken = 0
            fsspec.get_filesystem_class("s3").clear_instance_cache()
            found = run("s3://bucket/text", scratch / f"s3-{breaks}", options, 0.0)
            found |= {"requests": proxy.requests, "bytes": proxy.size}
            place = f"S3, broken {proxy.broken} times"
            print(line(place, "all kinds", size, found, tokens * 0.9), flush=True)
            same = found["sha256"] == here["sha256"]
            print(f"the store is {'the same' if same else 'ANOTHER'}", flush=True)
    server.stop()


def main() -> None:
    """Measures one size after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0, 10.0, 100.0])
    parser.add_argument("--size", type=float, default=1.0, help="GB of JSON lines that differ")
    parser.add_argument("--bucket", type=float, default=0.3, help="GB of JSON lines in S3")
    parser.add_argument("--breaks", type=float, default=4.0, help="MB between breaks")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--tokens", default="2M")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a request")
    parser.add_argument("--smoke", action="store_true", help="Sizes that tell nothing.")
    given = parser.parse_args()
    if given.smoke:
        given.gigabytes, given.size, given.bucket, given.tokens = [0.02], 0.01, 0.01, "0.2M"
        given.kinds, given.breaks, given.latency = ["jsonl"], 0.5, 0.001
    run = prepared if given.smoke else alone
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        train_tokenizer(["text"] * 10, 257, scratch / "bytes")
        options = ["--tokens", given.tokens, "--tokenizer", str(scratch / "bytes")]
        tokens = write_shards(scratch / "shard", given.size * 1e9)
        print(HEADER, flush=True)
        for gigabytes, kind in itertools.product(given.gigabytes, given.kinds):
            place = scratch / f"{gigabytes:g}-{kind}"
            count = round(SHARDS * gigabytes / given.size)
            size = link(scratch / "shard" / kind, place, count)
            for address, latency in ((f"{place}", 0.0), (f"counted://{place}", given.latency)):
                out = scratch / f"out-{place.name}-{'://' in address}"
                found = run(address, out, options, latency)
                told = "elsewhere" if latency else "the disk"
                print(line(told, kind, size, found, tokens * count * 0.9), flush=True)
        small = scratch / "small"
        tokens = SHARDS * write_shards(small, given.bucket * 1e9)
        of_s3(run, scratch / "s3", small, options, tokens, given.breaks * 1e6)
    print(provenance())


if __name__ == "__main__":
    main()
