"""`bydore prepare` beside a bare `encode_batch` over the same text with as many processes.

Both alternate within one run, so that a busy machine slows both alike; what counts is the ratio.
The text is generated: words of the standard library's docstrings, drawn with their frequencies. The
memory is the sum of the peaks of all processes (resident, on Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from bydore_pyro.data.environment import environment_files
from bydore_pyro.data.tokenizer import load_encoder, train_tokenizer
from bydore_pyro.files import provenance

WORDS = 300_000  # of real text, from which the generated text is drawn
DOCUMENT = 400  # words
BATCH = 200  # documents

PREPARE = """
import json, multiprocessing, os, sys, threading, time
from pathlib import Path
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.tokenizer import TokenizerConfig

peaks = {}

def watch():
    while True:
        for process in (os.getpid(), *(c.pid for c in multiprocessing.active_children())):
            try:
                status = Path(f"/proc/{process}/status").read_text()
            except OSError:
                continue  # it has ended
            if "VmHWM:" in status:
                peaks[process] = int(status.split("VmHWM:")[1].split()[0]) / 1024
        time.sleep(0.2)

if __name__ == "__main__":
    data, out, tokenizer, processes = sys.argv[1:]
    threading.Thread(target=watch, daemon=True).start()
    start = time.perf_counter()
    config = CorpusConfig(domain_megabytes=0)
    plan = make_plan(data, config, tokenizer=TokenizerConfig(tokenizer=tokenizer))
    prepare(plan, Path(out), processes=int(processes))
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "megabytes": sum(peaks.values())}))
"""


def words() -> np.ndarray:
    """Returns words of real text, in its frequencies."""
    found: list[str] = []
    for source in environment_files()[0]:
        if source.domain == "docstrings":
            found += (next(source.read()).text or "").split()
        if len(found) >= WORDS:
            break
    return np.array(found)


def generate(folder: Path, megabytes: float) -> int:
    """Writes two domains of JSON lines; returns the bytes of their text."""
    rng, vocabulary, size = np.random.default_rng(0), words(), 0
    for name in ("a", "b"):
        with (folder / f"{name}.jsonl").open("w") as file:
            own = 0
            while own < megabytes * 5e5:
                text = " ".join(vocabulary[rng.integers(len(vocabulary), size=DOCUMENT)])
                file.write(json.dumps({"text": text}) + "\n")
                own += len(text.encode())
        size += own
    return size


def batches(folder: Path, number: int, of: int) -> Iterator[list[str]]:
    """Yields every `of`-th batch of the text, from batch `number` on."""
    batch: list[str] = []
    count = 0
    for path in sorted(folder.glob("*.jsonl")):
        with path.open() as file:
            for line in file:
                if count // BATCH % of == number:
                    batch.append(json.loads(line)["text"])
                    if len(batch) == BATCH:
                        yield batch
                        batch = []
                count += 1
    if batch:
        yield batch


def encode_only(folder: Path, tokenizer: Path, number: int, of: int) -> float:
    """Returns the seconds that bare `encode_batch` takes over a share of the text."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread a process, which is fastest
    encoder, _ = load_encoder(tokenizer)
    seconds = 0.0
    for batch in batches(folder, number, of):
        start = time.perf_counter()
        encoder.encode_batch(batch, add_special_tokens=False)
        seconds += time.perf_counter() - start
    return seconds


def bare(folder: Path, tokenizer: Path, processes: int) -> float:
    """Returns the seconds of the slowest process; reading the text is not counted."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        jobs = [
            pool.submit(encode_only, folder, tokenizer, number, processes)
            for number in range(processes)
        ]
        return max(job.result() for job in jobs)


def prepared(folder: Path, tokenizer: Path, processes: int) -> dict[str, float]:
    """Returns seconds and peak memory of a whole build."""
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "program.py"
        program.write_text(PREPARE)
        paths = map(str, (program, folder, Path(scratch) / "out", tokenizer))
        run = [sys.executable, *paths, str(processes)]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[100.0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=2048)
    given = parser.parse_args()
    for megabytes in given.megabytes:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "text"
            folder.mkdir()
            size = generate(folder, megabytes) / 1e6
            tokenizer = Path(scratch) / "tokenizer"
            sample = (text for batch in batches(folder, 0, 20) for text in batch)
            train_tokenizer(sample, given.vocabulary, tokenizer)
            ratios, speeds, memory = [], [], []
            for _ in range(given.repeats):
                alone = bare(folder, tokenizer, given.processes)
                whole = prepared(folder, tokenizer, given.processes)
                ratios.append(alone / whole["seconds"])
                speeds.append(size / whole["seconds"])
                memory.append(whole["megabytes"])
        print(
            f"{size:.0f} MB, {given.processes} processes: {statistics.median(ratios):.0%} of the "
            f"bare throughput (range {min(ratios):.0%} to {max(ratios):.0%}), "
            f"{statistics.median(speeds):.1f} MB/s, peak memory {max(memory):.0f} MB",
            flush=True,
        )
    print(provenance())


if __name__ == "__main__":
    main()
