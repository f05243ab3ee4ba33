"""What an effective sample costs with the exact density as a prior, beside the two-level model.

Both are NUTS on the same counts: ``w ~ GammaDirichlet(a, b)``, and ``beta ~ Gamma(a, b), w ~
Dirichlet(beta)``. They run in turns, so their ratio is little disturbed by other work. Seconds are
the processor's, of one thread; effective samples are ArviZ's bulk ESS of the worst weight.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import arviz
import pyro
import torch
from pyro.distributions import Dirichlet, Gamma, Multinomial
from pyro.infer import MCMC, NUTS
from torch import Tensor

from bydore_pyro import GammaDirichlet
from bydore_pyro.core import as_inference_data


def one_level(a: Tensor, b: Tensor, counts: Tensor) -> None:
    """The concentrations are integrated out."""
    shares = pyro.sample("w", GammaDirichlet(a, b))
    pyro.sample("counts", Multinomial(int(counts.sum()), shares), obs=counts)


def two_levels(a: Tensor, b: Tensor, counts: Tensor) -> None:
    """The concentrations are sampled too."""
    beta = pyro.sample("beta", Gamma(a, b).to_event(1))
    shares = pyro.sample("w", Dirichlet(beta))
    pyro.sample("counts", Multinomial(int(counts.sum()), shares), obs=counts)


def seconds_and_samples(
    model: Callable[..., None], arguments: tuple[Tensor, ...], samples: int, seed: int
) -> tuple[float, float]:
    """Returns the seconds of a run and its effective samples, at least 1."""
    pyro.set_rng_seed(seed)
    start = time.process_time()
    mcmc = MCMC(NUTS(model), num_samples=samples, warmup_steps=samples // 2, disable_progbar=True)
    mcmc.run(*arguments)
    seconds = time.process_time() - start
    drawn = as_inference_data({"posterior": {"w": mcmc.get_samples(group_by_chain=True)["w"]}})
    return seconds, max(1.0, float(arviz.ess(drawn)["w"].min()))


def compare(size: int, samples: int, blocks: int) -> str:
    """Returns the ratio of both costs at K = `size`."""
    rates: dict[str, list[float]] = {"one": [], "two": []}
    for block in range(blocks):
        torch.manual_seed(block)
        a, b = torch.full((size,), 3.0), torch.ones(size)
        weights = Dirichlet(torch.ones(size)).sample()
        counts = Multinomial(10 * size, weights).sample()
        for name, model in (("one", one_level), ("two", two_levels)):
            seconds, effective = seconds_and_samples(model, (a, b, counts), samples, block)
            rates[name].append(1e3 * seconds / effective)
    one, two = (statistics.median(values) for values in rates.values())
    ratios = [x / y for x, y in zip(rates["one"], rates["two"], strict=True)]
    return (
        f"K = {size}: an effective sample takes {one:.0f} ms with the exact density, {two:.0f} ms "
        f"with two levels; ratio: median {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}), {blocks} blocks"
    )


def main() -> None:
    """Measures one size after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 13, 100])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--blocks", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for size in given.sizes:
            print(compare(size, given.samples, given.blocks), flush=True)
    finally:
        torch.set_default_dtype(before)


if __name__ == "__main__":
    main()
