"""What a step of Algorithm 1 costs with many domains and with a large vocabulary, on random tokens.

Domains: a step with 512 domains beside one with 32, in alternating blocks of one run. Vocabulary:
the memory that one step of `models/proxy-1m` adds, with 50,432 tokens and 16 sequences of 2,048.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from bydore_pyro.algorithm1 import LinearConfig, LinearSearch
from bydore_pyro.data import Domains, Text, TokenStore
from bydore_pyro.files import provenance
from bydore_pyro.proxy import Proxy, ProxyConfig, build_language_model

MODELS = Path(__file__).resolve().parents[1] / "models"


def random_store(domains: int, vocabulary: int, tokens: int) -> TokenStore:
    """Returns a store of random tokens, of documents of 512, that lies in memory alone."""
    rng = np.random.default_rng(0)
    names = [f"d{k:04d}" for k in range(domains)]

    ends = np.append(np.arange(512, tokens, 512), tokens)

    def texts() -> dict[str, Text]:
        drawn = (rng.integers(vocabulary, size=tokens, dtype=np.uint16) for _ in names)
        return {name: Text(found, ends) for name, found in zip(names, drawn, strict=True)}

    return TokenStore(Path(), texts(), texts(), {"vocabulary": vocabulary})


def state_of(domains: int) -> LinearSearch:
    """Returns a search over so many domains of random tokens."""
    store = random_store(domains, 2048, 4096)
    served = Domains(store, {store.names[0]: 1.0})
    torch.manual_seed(0)
    proxy = Proxy(build_language_model(MODELS / "proxy-tiny", 2048), ProxyConfig())
    config = LinearConfig(guide_warmup=0)
    return LinearSearch.begin(served, proxy, config, steps=10_000, batch_sequences=32)


def many_domains(few: int, many: int, blocks: int) -> None:
    """Prints the ratio of the steps' times."""
    states = [state_of(number) for number in (few, many)]
    for state in states:
        state.step()
        state.proxy.cost.seconds.clear()
    ratios = []
    for _ in range(blocks):
        seconds = []
        for state in states:
            start = time.perf_counter()
            for _ in range(3):
                state.step()
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[1] / seconds[0])
    print(
        f"a step with {many} domains / with {few}: median {statistics.median(ratios):.2f}, range "
        f"{min(ratios):.2f} to {max(ratios):.2f} over {blocks} blocks"
    )
    for state, number in zip(states, (few, many), strict=True):
        total = sum(state.proxy.cost.seconds.values())
        parts = {part: f"{s / total:.0%}" for part, s in state.proxy.cost.seconds.items()}
        print(f"  {number} domains: {parts}")


def large_vocabulary(vocabulary: int, sequences: int, length: int) -> None:
    """Prints the memory that a training step adds to what the model and its optimiser hold."""
    proxy = Proxy(build_language_model(MODELS / "proxy-1m", vocabulary), ProxyConfig())
    generator = torch.Generator().manual_seed(0)
    # Makes the optimiser's state.
    proxy.step(torch.randint(vocabulary, (1, 8), generator=generator))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    batch = torch.randint(vocabulary, (sequences, length), generator=generator)
    start = time.perf_counter()
    proxy.step(batch)
    seconds = time.perf_counter() - start
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2 - before
    print(
        f"vocabulary {vocabulary}, {sequences} x {length} tokens: a training step adds "
        f"{added:.2f} GB to {before:.2f} GB, and takes {seconds:.0f} s"
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", type=int, nargs=2, default=[32, 512])
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--vocabulary", type=int, default=50_432)
    parser.add_argument("--batch", type=int, nargs=2, default=[16, 2048])
    given = parser.parse_args()
    sequences, length = given.batch
    large_vocabulary(given.vocabulary, sequences, length)
    few, many = given.domains
    many_domains(few, many, given.blocks)
    print(provenance())


if __name__ == "__main__":
    main()
