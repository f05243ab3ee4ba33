"""What the exact density costs: beside a Dirichlet's, in a step of SVI, and in NUTS.

The density: value and gradient of `log_prob` at some points, in float64 and float32. A step: of SVI
with 8 draws, eager and compiled by Pyro's `JitTraceMeanField_ELBO`. NUTS, on the same counts: ``w ~
GammaDirichlet(a, b)``, and ``beta ~ Gamma(a, b), w ~ Dirichlet(beta)``.

What is compared runs in turns, so that its ratio is little disturbed by other work. Seconds are the
processor's, of one thread; effective samples are ArviZ's bulk ESS of the worst weight.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import arviz
import pyro
import torch
from pyro.distributions import Dirichlet, Gamma, Multinomial
from pyro.infer import ELBO, MCMC, NUTS, SVI, JitTraceMeanField_ELBO, TraceMeanField_ELBO
from torch import Tensor

from bydore_pyro import FreeConcentrations, GammaDirichlet, MixtureGuide
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


def milliseconds(timed: Callable[[], object], repeats: int) -> float:
    """Returns the median milliseconds of the processor of a call, after two that warm up."""
    seconds = []
    for _ in range(repeats + 2):
        start = time.process_time()
        timed()
        seconds.append(time.process_time() - start)
    return 1e3 * statistics.median(seconds[2:])


def density(size: int, points: int, dtype: torch.dtype, blocks: int) -> str:
    """Returns the cost of value and gradient of both densities at K = `size`."""
    a, b = (torch.full((size,), x, dtype=dtype, requires_grad=True) for x in (20.0, 5.0))
    weights = Dirichlet(torch.full((size,), 4.0, dtype=dtype)).sample((points,)).requires_grad_()

    def ours() -> object:
        value = GammaDirichlet(a, b, validate_args=False).log_prob(weights).sum()
        return torch.autograd.grad(value, (weights, a, b))

    def dirichlets() -> object:
        value = Dirichlet(a, validate_args=False).log_prob(weights).sum()
        return torch.autograd.grad(value, (weights, a))

    pairs = [(milliseconds(ours, 5), milliseconds(dirichlets, 50)) for _ in range(blocks)]
    one, two = (statistics.median(values) for values in zip(*pairs, strict=True))
    return (
        f"K = {size}, {points} points, {dtype}: value and gradient take {one:.1f} ms, a "
        f"Dirichlet's {two:.2f} ms; ratio: median {statistics.median(x / y for x, y in pairs):.0f}"
    )


def svi_step(objective: type[ELBO], dtype: torch.dtype, steps: int = 20) -> str:
    """Returns the cost of a step at K = 3, of our guide and of a Dirichlet."""
    counts = torch.tensor([12.0, 5.0, 3.0], dtype=dtype)

    def model() -> None:
        shares = pyro.sample("shares", Dirichlet(torch.ones_like(counts)))
        pyro.factor("counts", (counts * shares.log()).sum(-1))

    def dirichlet() -> None:
        log_alpha = pyro.param("log_alpha", torch.zeros_like(counts))
        pyro.sample("shares", Dirichlet(log_alpha.exp()))

    found = []
    for guide in (MixtureGuide(FreeConcentrations(3).to(dtype), name="shares"), dirichlet):
        pyro.clear_param_store()
        elbo = objective(num_particles=8, vectorize_particles=True, max_plate_nesting=0)
        svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.05}), elbo)
        found.append(milliseconds(svi.step, steps))
    return (
        f"{objective.__name__}, {dtype}: a step takes {found[0]:.1f} ms, with a guide that is a "
        f"Dirichlet {found[1]:.1f} ms"
    )


def main() -> None:
    """Measures one size after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 13, 100])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--blocks", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for dtype in (torch.float64, torch.float32):
        for size in given.sizes:
            for points in (1, 100):
                print(density(size, points, dtype, given.blocks), flush=True)
        for objective in (TraceMeanField_ELBO, JitTraceMeanField_ELBO):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's, of what it cannot trace
                print(svi_step(objective, dtype), flush=True)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for size in given.sizes:
            print(compare(size, given.samples, given.blocks), flush=True)
    finally:
        torch.set_default_dtype(before)


if __name__ == "__main__":
    main()
