"""What a step of Algorithm 1 costs beside a plain training step of the same proxy and batch.

Blocks of both kinds alternate within one run, so that a busy machine slows both alike; what counts
is the ratio. Every option of `experiments/case1.py` applies.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))

from common import run_main

from bydore_pyro.algorithm1 import LinearSearch
from bydore_pyro.files import provenance
from bydore_pyro.proxy import Proxy
from bydore_pyro.setup import Options, language_model, load_domains, peak_memory_megabytes

BLOCKS = 10
ABOUT = __doc__


def benchmark(options: Options) -> None:
    """Measures and prints."""
    domains = load_domains(options)
    corpus = domains.corpus
    seed, batch = options.run.seed, options.search.batch_sequences
    plain = Proxy(language_model(options, corpus.vocabulary, seed), options.proxy)
    searched = Proxy(language_model(options, corpus.vocabulary, seed), options.proxy)
    linear, most = options.linear, options.search.steps
    state = LinearSearch.begin(
        domains, searched, linear, steps=most, batch_sequences=batch, seed=seed
    )
    names = domains.names
    counts = {name: batch // len(names) + (i < batch % len(names)) for i, name in enumerate(names)}
    steps = 1 if options.run.smoke else 5

    def plain_step() -> None:
        plain.step(domains.train_batch(counts))

    def timed(step: Callable[[], object]) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - start) / steps

    def draw() -> None:
        domains.signal_batch(linear.signal_sequences)
        domains.train_batch(counts)
        domains.validation_batch(linear.validation_batch)

    ratios, seconds, draws = [], [], []
    for _ in range(linear.guide_warmup):  # past it, every part of a step does its work
        state.step()
        plain_step()
    searched.cost.seconds.clear()
    for _ in range(BLOCKS):
        alone, whole = timed(plain_step), timed(lambda: state.step())
        ratios.append(whole / alone)
        draws.append(timed(draw) / whole)
        seconds.append(alone)
    print(
        f"search step / plain step: median {statistics.median(ratios):.2f}, "
        f"range {min(ratios):.2f} to {max(ratios):.2f} over {BLOCKS} blocks of {steps} steps\n"
        f"plain step: median {statistics.median(seconds) * 1e3:.0f} ms; "
        f"{batch} x {options.run.sequence_length} tokens, K = {len(names)}, "
        f"vocabulary {corpus.vocabulary}, device {options.device}"
    )
    print(f"drawing a search step's batches: median {statistics.median(draws):.2%} of it")
    total = sum(searched.cost.seconds.values())
    for part, spent in sorted(searched.cost.seconds.items(), key=lambda item: -item[1]):
        print(f"  {part:<14} {spent / total:5.0%}")
    print(f"peak memory {peak_memory_megabytes() / 1024:.1f} GB")
    print(provenance())


if __name__ == "__main__":
    run_main(benchmark, "search_step", ABOUT, evidence="linear")
