"""What the Gamma-Dirichlet's density and its gradient cost, on one core, and how it grows.

Every row is the median of several runs; `mean` is the exact mean and its gradient of the same
posterior, which a search step needs, so that the ratio to it compares across machines. A row runs
in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

SIZES = ((64, 17), (256, 17), (64, 68), (64, 250), (64, 1000))


def measure(samples: int, domains: int, repeats: int) -> None:
    """Prints one row."""
    import torch

    from bydore_pyro.core import GammaDirichlet

    torch.set_num_threads(1)
    torch.manual_seed(0)
    a = (3 * torch.rand(domains, dtype=torch.float64) + 0.2).requires_grad_()
    b = (3 * torch.rand(domains, dtype=torch.float64) + 0.2).requires_grad_()
    w = torch.distributions.Dirichlet(torch.ones(domains, dtype=torch.float64)).sample((samples,))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def timed(value: Callable[[], torch.Tensor]) -> float:
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            torch.autograd.grad(value(), (a, b))
            times.append(time.perf_counter() - start)
        return 1e3 * statistics.median(times[1:])

    mean = timed(lambda: GammaDirichlet(a, b).mean.square().sum())
    density = timed(lambda: GammaDirichlet(a, b).log_prob(w).sum())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"| {samples} | {domains} | {density:.1f} | {mean:.1f} | {density / mean:.0f} | "
        f"{grown:.0f} |",
        flush=True,
    )


def main() -> None:
    """Runs every row in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="Runs of each row.")
    parser.add_argument("--size", type=int, nargs=2, help="One row: samples and domains.")
    options = parser.parse_args()
    if options.size:
        samples, domains = options.size
        measure(samples, domains, options.repeats)
        return
    print("| S | K | density and gradient, ms | mean and gradient, ms | ratio | memory, MB |")
    print("|---|---|---|---|---|---|", flush=True)
    for samples, domains in SIZES:
        size = ["--size", str(samples), str(domains), "--repeats", str(options.repeats)]
        subprocess.run([sys.executable, __file__, *size], check=True)


if __name__ == "__main__":
    main()
