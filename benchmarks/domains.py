"""`bydore prepare` and `bydore search` end to end, with a hundred domains and with a thousand.

The domains are generated: words of a made-up language, with frequencies that differ from branch to
branch of a tree of three levels (`b3/c1/d4`) and from domain to domain. The target is made of a few
of them by known shares, document by document. Every twentieth domain has too little text to be
measured alone. Each command runs in a process of its own; the memory is the largest sum of what it
and its children held at the same time (resident, on Linux). Beside the minutes stand those of the
processors, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bydore_pyro.files import provenance
from bydore_pyro.mixture import Mixture, below, total_variation

WORDS, LETTERS = 4000, "abcdefghijklmnopqrstuvwxyz"
DOCUMENT = 120  # words
SPREAD = {"branch": 0.9, "twig": 0.9, "leaf": 0.9}  # standard deviations of log frequencies
PLANTED = (0.3, 0.25, 0.15, 0.1, 0.08, 0.05, 0.04, 0.03)
SCARCE = 20  # one domain in so many has one document


def names_of(count: int) -> list[str]:
    """Returns the names of so many domains: ten branches, of ten twigs each at most."""
    twigs = max(1, min(10, count // 10))
    leaves = [(k % 10, k // 10 % twigs, k // (10 * twigs)) for k in range(count)]
    return sorted(f"b{b}/c{c}/d{d}" for b, c, d in leaves)


class Language:
    """Words, and how often each domain uses them."""

    def __init__(self, seed: int) -> None:
        self.seed, rng = seed, np.random.default_rng(seed)
        lengths = rng.integers(2, 9, WORDS)
        self.words = np.array(["".join(rng.choice(list(LETTERS), size=n)) for n in lengths])
        self.common = -np.log(np.arange(WORDS) + 10.0)  # Zipf

    def frequencies(self, name: str) -> np.ndarray:
        """Returns a domain's frequencies ``(WORDS,)``."""
        parts, logs = name.split("/"), self.common.copy()
        for depth, spread in enumerate(SPREAD.values(), start=1):
            path = "/".join(parts[:depth])
            rng = np.random.default_rng([self.seed, *path.encode()])
            logs += spread * rng.standard_normal(WORDS)
        weights = np.exp(logs)
        return weights / weights.sum()

    def documents(self, name: str, count: int, seed: int) -> list[str]:
        """Returns documents of a domain."""
        rng = np.random.default_rng([self.seed, seed, *name.encode()])
        found = rng.choice(WORDS, (count, DOCUMENT), p=self.frequencies(name))
        return [" ".join(row) for row in self.words[found]]


def write_text(folder: Path, names: list[str], documents: int, held_out: int) -> dict[str, float]:
    """Writes domains and a target made of some of them; returns the shares it is made of."""
    language, rng = Language(0), np.random.default_rng(0)
    scarce = set(names[SCARCE - 1 :: SCARCE])
    rich = [name for name in names if name not in scarce]
    chosen = rng.choice(rich, len(PLANTED), replace=False).tolist()
    for name in names:
        path = folder / "text" / name / "rows.jsonl"
        path.parent.mkdir(parents=True)
        texts = language.documents(name, 1 if name in scarce else documents, 1)
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    rows = []
    for name, share in zip(chosen, PLANTED, strict=True):
        rows += language.documents(name, round(share * held_out), 2)
    rng.shuffle(rows)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in rows)
    (folder / "target.jsonl").write_text(lines)
    return dict(zip(chosen, PLANTED, strict=True))


def resident(process: int) -> float:
    """Returns the gigabytes that a process and its children hold now."""
    total = 0.0
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total = int(line.split()[1]) / 1024**2
        for thread in Path(f"/proc/{process}/task").iterdir():
            total += sum(map(resident, map(int, (thread / "children").read_text().split())))
    except OSError:  # it has ended
        pass
    return total


class Took(NamedTuple):
    """What a command took; minutes of all processors are those of its children too."""

    minutes: float
    processor_minutes: float
    gigabytes: float


def run(arguments: list[str], log: Path) -> Took:
    """Runs `bydore` in a process of its own."""
    start, peak, before = time.perf_counter(), 0.0, used()
    with log.open("w") as file:
        command = [sys.executable, "-m", "bydore_pyro", *arguments]
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        while child.poll() is None:
            peak = max(peak, resident(child.pid))
            time.sleep(0.2)
    if child.returncode:
        raise RuntimeError(f"Expected bydore to end well, found:\n{log.read_text()[-3000:]}")
    return Took((time.perf_counter() - start) / 60, (used() - before) / 60, peak)


def used() -> float:
    """Returns the processor seconds of all children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def in_branches(weights: dict[str, float]) -> dict[str, float]:
    """Returns the sums of weights below the first part of the names."""
    found: dict[str, float] = {}
    for name, weight in weights.items():
        branch = name.split("/")[0]
        found[branch] = found.get(branch, 0.0) + weight
    return found


def found_shares(run_folder: Path, planted: dict[str, float]) -> str:
    """Returns how well the planted shares were found, in words."""
    mixture = Mixture.from_json(run_folder / "mixture.json")
    weights = mixture.as_dict()
    held = dict(zip(mixture.names, mixture.hdi or (), strict=True))
    inside = sum(held[name][0] <= share <= held[name][1] for name, share in planted.items())
    sums = {
        path: sum(planted.get(mixture.names[k], 0.0) for k in own)
        for path, own in below(mixture.names).items()
    }
    metrics = json.loads((run_folder / "metrics.json").read_text("utf-8"))
    ends = metrics.get("sums", {}).get("branches", {})
    known = [path for path in sums if path in ends and sums[path] > 0]
    covered = sum(ends[path][0] <= sums[path] <= ends[path][1] for path in known)
    wrong = total_variation(weights, planted)
    branches = total_variation(in_branches(weights), in_branches(planted))
    return (
        f"total variation from the planted shares {wrong:.3f}, of the ten branches {branches:.3f}; "
        f"intervals hold {inside} of {len(planted)} planted shares and {covered} of {len(known)} "
        "planted sums of branches"
    )


def measure(count: int, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Prepares and searches so many domains, and prints what it took."""
    folder.mkdir(parents=True)
    planted = write_text(folder, names_of(count), given.documents, given.held_out)
    store, out = folder / "store", folder / "run"
    prepare = ["prepare", "--data", f"{folder / 'text'}/**", "--out", str(store)]
    took = {"prepare": run([*prepare, "--processes", "2"], folder / "prepare.log")}
    search = ["search", "--data", str(store), "--validation", str(folder / "target.jsonl")]
    options = [*given.search.split(), "--out", str(out)]
    took["search"] = run([*search, *options], folder / "search.log")
    took["report"] = run(["report", str(out)], folder / "report.log")
    metrics = json.loads((out / "metrics.json").read_text())
    minutes, processors, _ = map(sum, zip(*took.values(), strict=True))
    peak = max(one.gigabytes for one in took.values())
    print(
        f"{count} domains: {minutes:.1f} minutes, peak memory {peak:.2f} GB, "
        f"{60 * minutes / count:.2f} s a domain"
    )
    for name, one in took.items():
        print(
            f"  {name}: {one.minutes:.1f} minutes ({one.processor_minutes:.1f} of processors), "
            f"{one.gigabytes:.2f} GB"
        )
    parts = {name: one["seconds"] for name, one in metrics["search"]["parts"].items()}
    print("  seconds of the search: " + ", ".join(f"{n} {s:.0f}" for n, s in parts.items()))
    print(f"  inference: {json.dumps(metrics['guide_fit'])}")
    print(f"  {found_shares(out, planted)}", flush=True)
    return {"minutes": minutes, "processors": processors, "domains": count}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--documents", type=int, default=200, help="of a domain, 120 words each")
    parser.add_argument("--held_out", type=int, default=600, help="documents of the target")
    parser.add_argument("--search", default="--device cpu", help="options of bydore search")
    parser.add_argument("--out", type=Path, help="folder that is kept")
    parser.add_argument("--smoke", action="store_true", help="seconds: measures nothing")
    given = parser.parse_args()
    if given.smoke:
        given.domains, given.documents, given.held_out = [12], 30, 100
        given.search = "--device cpu --smoke"
    with tempfile.TemporaryDirectory() as scratch:
        place = given.out or Path(scratch)
        rows = [measure(count, given, place / str(count)) for count in given.domains]
    wall, cpu = (
        rows[-1][key] / rows[-1]["domains"] * rows[0]["domains"] / rows[0][key]
        for key in ("minutes", "processors")
    )
    print(
        f"{rows[-1]['domains']} domains cost {wall:.2f} times the time per domain of "
        f"{rows[0]['domains']} ({cpu:.2f} times that of processors)"
    )
    print(provenance())


if __name__ == "__main__":
    main()
