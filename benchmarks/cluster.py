"""What `--cluster local` costs: a sweep of proxies on two workers of Ray, beside two processes that
were started by hand with half of it each, and beside one that trains all in turn.

The three alternate within one run. Times are those of whole programs, from the start of Python on,
and of the sweeps alone: what lies between is imports and the start of Ray.
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
from pathlib import Path

import numpy as np

SWEEP = """
import json, sys, time
from pathlib import Path
import numpy as np
from bydore_pyro.command_line import parse_options
from bydore_pyro.pieces import join_cluster
from bydore_pyro.search import plain_problem
from bydore_pyro.setup import Options, load_domains
from bydore_pyro.trials import train_mixtures

count, steps, first, each, folder, *given = sys.argv[1:]
options = parse_options(given, "sweep", "", Options)
join_cluster(options.run.cluster)
problem = plain_problem(options, load_domains(options), Path(folder))
weights = np.random.default_rng(0).dirichlet(np.ones(len(problem.names)), int(count))
start = time.perf_counter()
train_mixtures(problem, weights[int(first)::int(each)], int(steps), "sweep")
print(json.dumps(time.perf_counter() - start))
"""


def text(folder: Path) -> Path:
    """Writes two domains of random words; returns their folder."""
    rng = np.random.default_rng(0)
    for name, alphabet in (("a", "abcdefgh"), ("b", "stuvwxyz")):
        (folder / name).mkdir(parents=True)
        for number in range(200):
            letters = rng.choice(list(f"{alphabet}  "), 4000)
            (folder / name / f"{number}.txt").write_text("".join(letters))
    return folder


def swept(out: Path, count: int, steps: int, processes: int, *given: str) -> tuple[float, float]:
    """Returns the seconds of the programs that share a sweep, and of the slowest one's part."""
    start, programs = time.perf_counter(), []
    for first in range(processes):
        about = [count, steps, first, processes, out, *given]
        command = [sys.executable, "-c", SWEEP, *map(str, about)]
        programs.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    told = [program.communicate()[0] for program in programs]
    if any(program.returncode for program in programs):
        raise SystemExit("Expected sweeps that end, found one that failed")
    return time.perf_counter() - start, max(json.loads(one.splitlines()[-1]) for one in told)


def main() -> None:
    """Alternates the three ways, and prints ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proxies", type=int, default=16)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = ["--data", str(text(folder / "text")), "--cache", str(folder), "--validation", "a"]
        given += ["--vocabulary", "300", "--device", "cpu"]
        ways = {"in turn": (1, ()), "by hand": (2, ()), "Ray": (1, ("--cluster", "local"))}
        swept(folder / "first", 1, 1, 1, *given)  # tokens are cached
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for repeat in range(asked.repeats):
            for way, (processes, more) in ways.items():
                out = folder / f"{way}-{repeat}"
                found[way].append(swept(out, asked.proxies, asked.steps, processes, *given, *more))
                whole, alone = found[way][-1]
                print(f"{way}: {whole:.1f} s, the sweep {alone:.1f} s", flush=True)
    for number, what in enumerate(("programs", "sweeps")):
        for other in ("by hand", "in turn"):
            pairs = zip(found["Ray"], found[other], strict=True)
            ratios = [one[number] / two[number] for one, two in pairs]
            print(
                f"{what}: Ray / {other}: median {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})"
            )


if __name__ == "__main__":
    main()
