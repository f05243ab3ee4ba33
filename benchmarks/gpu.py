"""All that a GPU has to show, in the time that there is: one command, the most useful first.

    python benchmarks/gpu.py --minutes 30 --out DIR

1. agreement: a search by matching on the GPU against the CPU, in float32: losses, evidence, weights
2. search: steps of Algorithm 1 at the paper's scale (0.4B tokens through `models/proxy-1m`, 256 x
   2,048 tokens a step, bfloat16), extrapolated, with the share of the card's bf16 rate and memory
3. training: `models/target-60m` by `bydore train`'s own path: tokens per second, share of the rate
4. large_training: the same with `models/target-1b`
5. processes: with two cards, a small search by two processes against one

Every part writes DIR/PART.json when it ends, and is not done again; a part that fails writes why.
No part is begun that will not end in time. `--smoke` runs all but the last on a CPU in seconds, and
measures nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import target
import torch
from scale import MODELS, random_store

from bydore_pyro.algorithm1 import LinearConfig, LinearSearch
from bydore_pyro.command_line import parse_options
from bydore_pyro.core import Matching, match
from bydore_pyro.data import Domains, Text, TokenStore
from bydore_pyro.files import RunFolder, provenance
from bydore_pyro.measure import MatchingConfig, measured_training, read_target
from bydore_pyro.proxy import GradientSketch, Proxy, ProxyConfig, build_language_model
from bydore_pyro.terminal import tell

TOLERANCE = 1e-3  # of float32 on two devices, relative
UNCOUNTED = 10  # first steps, in which kernels are compiled
TOKENS, BATCH, VOCABULARY, DOMAINS = 0.4e9, (256, 2048), 50_432, 17  # the paper's Case 1


@dataclass(frozen=True, kw_only=True)
class Lent:
    """The device, and whether parts are only tried."""

    device: str
    smoke: bool

    @property
    def peak(self) -> float | None:
        """The card's dense bf16 rate, FLOPs per second; None where it is not known."""
        name = torch.cuda.get_device_name() if self.device == "cuda" else ""
        return next((1e12 * p for known, p in target.PEAKS.items() if known in name), None)


def distinct_domains(domains: int, vocabulary: int, tokens: int) -> TokenStore:
    """Returns random tokens of domains whose tokens have other frequencies, in memory."""
    store = random_store(domains, vocabulary, tokens)
    train: dict[str, Text] = {}
    validation: dict[str, Text] = {}
    for place, name in enumerate(store.names):
        rng = np.random.default_rng(place)
        shares = rng.dirichlet(np.full(vocabulary, 0.1))
        for side in (train, validation):
            drawn = rng.choice(vocabulary, size=tokens, p=shares).astype(np.uint16)
            side[name] = replace(store.train[name], tokens=drawn)
    return replace(store, train=train, validation=validation)


def matched(device: str, steps: int) -> tuple[list[float], Matching]:
    """Returns a proxy's training losses on a device, in float32, and the evidence of its rounds."""
    store = distinct_domains(5, 512, 40_000)
    shares = {store.names[0]: 0.5, store.names[2]: 0.3, store.names[4]: 0.2}
    config = MatchingConfig(steps=steps, rounds=2, round_sequences=32)
    measured = config.measured_sequences(len(store.names))
    domains = Domains(store, shares, sequence_length=64, measured=measured, device=device)
    torch.manual_seed(0)
    model = build_language_model(MODELS / "proxy-tiny", 512).to(device)
    proxy = Proxy(model, ProxyConfig(precision="float32"))
    sketch, rounds, losses = GradientSketch(proxy, config.sketch_size), [], []
    for step in measured_training(domains, proxy, sketch, config):
        losses.append(step.loss)
        if step.measured is not None:
            rounds.append(read_target(sketch, step.measured, domains).evidence)
    return losses, match(rounds)


def agreement(lent: Lent) -> dict[str, Any]:
    """Compares a search on the device with the same on the CPU."""
    torch.backends.cuda.matmul.allow_tf32 = False
    ours, theirs = (matched(device, 12 if lent.smoke else 80) for device in (lent.device, "cpu"))

    def off(one: Any, other: Any) -> float:
        first, second = (np.asarray(values, dtype=float) for values in (one, other))
        return float(np.linalg.norm(first - second) / np.linalg.norm(second))

    (losses, own), (other_losses, other) = ours, theirs
    found = {
        "training losses": off(losses, other_losses),
        "evidence A": off(own.gram, other.gram),
        "evidence c": off(own.cross, other.cross),
        "weights": off(own.weights, other.weights),
    }
    return {
        "relative differences": found,
        "agrees": max(found.values()) < TOLERANCE,
        "weights": own.weights.tolist(),
    }


def search(lent: Lent) -> dict[str, Any]:
    """Times steps of Algorithm 1 at the paper's scale."""
    (sequences, length), vocabulary = BATCH, VOCABULARY
    if lent.smoke:
        sequences, length, vocabulary = 4, 16, 300
    counted, first = (2, 1) if lent.smoke else (50, UNCOUNTED)
    store = random_store(DOMAINS, vocabulary, 64 * length)
    domains = Domains(store, {store.names[0]: 1.0}, sequence_length=length, device=lent.device)
    torch.manual_seed(0)
    model = build_language_model(MODELS / "proxy-1m", vocabulary).to(lent.device)
    steps = int(TOKENS / (sequences * length))
    trained = ProxyConfig(precision="bfloat16" if lent.device == "cuda" else "float32")
    proxy = Proxy(model, trained)
    config = LinearConfig(guide_warmup=0)
    state = LinearSearch.begin(domains, proxy, config, steps=steps, batch_sequences=sequences)
    for _ in range(first):
        state.step()
    before, start = sum(proxy.cost.flops.values()), time.perf_counter()
    for _ in range(counted):
        state.step()
    seconds = (time.perf_counter() - start) / counted
    rate = (sum(proxy.cost.flops.values()) - before) / counted / seconds
    memory = torch.cuda.max_memory_allocated() / 2**30 if lent.device == "cuda" else None
    return {
        "precision": trained.precision,
        "seconds per step": seconds,
        "minutes for 0.4B tokens": seconds * steps / 60,
        "TFLOP/s": rate / 1e12,
        "share of the bf16 rate": rate / lent.peak if lent.peak else None,
        "peak memory, GiB": memory,
    }


def training(lent: Lent) -> dict[str, Any]:
    """Times `bydore train` on random tokens."""
    return {"told": trained("target-60m", 32, 128, lent)}


def large_training(lent: Lent) -> dict[str, Any]:
    """Times it with a larger model."""
    return {"told": trained("target-1b", 8, 64, lent)}


def trained(model: str, each: int, whole: int, lent: Lent) -> list[str]:
    """Returns what `benchmarks/target.py` tells of a shape, by lines; the batches in sequences, of
    the device and of a step."""
    batches = ["--device_batch_sequences", str(each), "--target_batch_sequences", str(whole)]
    steps = ["--untimed_steps", "3", "--timed_steps", "10"]
    given = ["--smoke"] if lent.smoke else ["--model", f"models/{model}", *batches, *steps]
    options = parse_options(given, "target", "", target.BenchmarkOptions, smoke=target.SMOKE)
    return target.report(options, *target.measure(options)).splitlines()


def processes(lent: Lent) -> dict[str, Any]:
    """Runs the smallest search on two cards and on one, and compares the weights."""
    if torch.cuda.device_count() < 2 or lent.smoke:
        return {"skipped": f"{torch.cuda.device_count()} GPUs"}
    found = []
    for number in (1, 2):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc_per_node={number}", "-m", "bydore_pyro", "search", "--smoke"]
        command += ["--device", "cuda", "--out", f"runs/gpu-{number}-{time.time():.0f}"]
        subprocess.run(command, check=True)
        found.append(json.loads((Path(command[-1]) / "mixture.json").read_text())["weights"])
    apart = max(abs(found[0][name] - found[1][name]) for name in found[0])
    return {"largest difference of a weight": apart}


# In order of worth, each with the minutes that it is given.
PARTS: dict[str, tuple[Callable[[Lent], dict[str, Any]], float]] = {
    "agreement": (agreement, 3),
    "search": (search, 5),
    "training": (training, 3),
    "large_training": (large_training, 5),
    "processes": (processes, 4),
}


def main() -> None:
    """Does what is not done yet and fits, and prints all results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="time that there is")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="folder of the results")
    parser.add_argument("--smoke", action="store_true", help="only to see that the parts work")
    given = parser.parse_args()
    lent = Lent(device="cpu" if given.smoke else "cuda", smoke=given.smoke)
    if lent.device == "cuda" and not torch.cuda.is_available():
        parser.error("expected a GPU, found none: --smoke tries the parts on a CPU")
    end, folder = time.monotonic() + 60 * given.minutes, RunFolder(given.out, resume=True)
    for name, (part, minutes) in PARTS.items():
        file = given.out / f"{name}.json"
        if file.is_file():
            tell(f"{name}: done before")
        elif not given.smoke and time.monotonic() + 60 * minutes > end:
            tell(f"{name}: left out, it needs {minutes:g} minutes")
            continue
        else:
            start = time.perf_counter()
            try:
                found = part(lent)
            except Exception as error:
                found = {"failed": f"{type(error).__name__}: {error}"[:500]}
            seconds = time.perf_counter() - start
            made = {"seconds": seconds, "date": time.strftime("%Y-%m-%d"), **provenance()}
            folder.write_json(f"{name}.json", {**found, **made})
        print(f"{name}: {file.read_text(encoding='utf-8')}")


if __name__ == "__main__":
    main()
