"""What a round of gradient matching costs, on random tokens.

The gradient of a sequence beside its share of a plain training step, in alternating blocks of one
run; and a whole round with 512 domains beside one with 32, by parts and per domain, with the memory
that it holds at most.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from scale import MODELS, random_store

from bydore_pyro.core import draw_posterior, match
from bydore_pyro.data import Domains
from bydore_pyro.files import provenance
from bydore_pyro.measure import MatchingConfig, measured_training, read_target
from bydore_pyro.proxy import GradientSketch, Proxy, ProxyConfig, build_language_model
from bydore_pyro.setup import peak_memory_megabytes

VOCABULARY, LENGTH = 2048, 128


def proxy_tiny() -> Proxy:
    """Returns a fresh proxy."""
    torch.manual_seed(0)
    return Proxy(build_language_model(MODELS / "proxy-tiny", VOCABULARY), ProxyConfig())


def gradients_beside_training(blocks: int) -> None:
    """Prints the ratio of the two times of a sequence."""
    proxy = proxy_tiny()
    sketch = GradientSketch(proxy)
    batch = torch.randint(VOCABULARY, (32, LENGTH), generator=torch.Generator().manual_seed(0))
    ratios = []
    for _ in range(blocks + 1):
        start = time.perf_counter()
        proxy.step(batch)
        middle = time.perf_counter()
        sketch(batch, "gradients")
        ratios.append((time.perf_counter() - middle) / (middle - start))
    ratios = ratios[1:]
    print(
        f"gradients and sketches of 32 sequences / a training step on them: median "
        f"{statistics.median(ratios):.2f}, range {min(ratios):.2f} to {max(ratios):.2f} over "
        f"{blocks} blocks"
    )


def whole_round(count: int) -> float:
    """Prints the parts of a round with so many domains; returns its seconds per domain."""
    config = MatchingConfig(steps=1, rounds=1)
    store = random_store(count, VOCABULARY, 64 * LENGTH)
    measured = config.measured_sequences(count)
    domains = Domains(store, {store.names[0]: 1.0}, measured=measured)
    proxy = proxy_tiny()
    sketch = GradientSketch(proxy)
    (step,) = measured_training(domains, proxy, sketch, config)
    assert step.measured is not None
    with proxy.cost.part("gradients"):
        target = read_target(sketch, step.measured, domains)
    with proxy.cost.part("matching"):
        found = match([target.evidence])
    with proxy.cost.part("posterior"):
        draw_posterior(found, with_guide=True)
    seconds = proxy.cost.seconds
    total = sum(seconds.values())
    parts = {part: f"{s:.1f} s" for part, s in seconds.items()}
    print(
        f"{count} domains, {config.sequences_of_round(count)} sequences each: {total:.1f} s, "
        f"{total / count:.3f} s a domain; {parts}; at most {peak_memory_megabytes() / 1024:.2f} GB"
    )
    return total / count


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", type=int, nargs=2, default=[32, 512])
    parser.add_argument("--blocks", type=int, default=7)
    given = parser.parse_args()
    gradients_beside_training(given.blocks)
    few, many = (whole_round(count) for count in given.domains)
    print(f"a domain's cost, {given.domains[1]} domains / {given.domains[0]}: {many / few:.2f}")
    print(provenance())


if __name__ == "__main__":
    main()
