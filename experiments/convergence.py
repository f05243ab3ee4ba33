"""The theory, measured: the finite difference's bias, and the approach to a stationary point."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from common import drawn_by, markdown, run_main
from convergence_problems import FrozenProxy, KnownGradients, Problem
from tqdm import tqdm

from bydore_pyro.core import (
    FreeConcentrations,
    HypergradientELBO,
    MixtureGuide,
    finite_difference,
    mixture_model,
)
from bydore_pyro.runs import SMOKE, Options, begin_run, load_domains, results_of
from bydore_pyro.utils import option, require_fields, tell, warn_idle

ABOUT = """Measure the two rates of the convergence theorem. The error of the finite-difference
hypergradient falls as eps^2 until round-off dominates (its square is the theorem's eps^4). The mean
squared norm of the true gradient of the objective over T noisy steps falls at least as fast as
T^(-1/2), if the step sizes fall as T^(-1/2). Both are measured on a problem whose gradients are
known in closed form, and on the proxy, frozen after --steps steps, with the noise that batches of
text cause in g. The script reports the slopes."""

KL_WEIGHT = 0.3  # in units of g's spread: so large that no weight is driven to a vertex
# Relative errors in which the slope is taken: far above round-off, and of steps not too long.
ABOVE_ROUND_OFF, LARGEST_ERROR = 5.0, 0.03
# Of a search's options those that do something here.
USED = ("steps", "batch_sequences", "validation_batch", "signal_sequences")
STEPS = np.logspace(-7, 0, 29)  # of the finite difference, in units of |theta| / |direction|


@dataclass(frozen=True, kw_only=True)
class ConvergenceConfig:
    """What is measured."""

    longest: int = option(4096, "Steps of the longest run.", least=256, most=1e7)
    repeats: int = option(5, "Number of runs of each length.", least=1, most=1000)
    estimates: int = option(
        64,
        "Number of pairs of batches whose g gives the distribution of the proxy's noise.",
        least=2,
        most=10**5,
    )
    noise: float = option(
        3.0,
        "Standard deviation of the noise of g in the problem with known gradients, relative to "
        "the spread of g.",
        above=0,
        most=1e3,
    )

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, kw_only=True)
class ConvergenceOptions(Options):
    """The options of a run and of what is measured."""

    convergence: ConvergenceConfig


def bias(problem: Problem) -> dict[str, Any]:
    """Returns the relative errors of the finite difference by its step, and their slope.

    Raises:
        ValueError: When round-off and truncation leave too few steps for a slope.
    """
    norms = [
        math.sqrt(sum(float(p.square().sum()) for p in tensors.values()))
        for tensors in (problem.theta, problem.direction)
    ]
    epsilons = STEPS * norms[0] / norms[1]
    errors = []
    for epsilon in epsilons.tolist():
        g = finite_difference(problem.losses, problem.theta, problem.direction, 1.0, epsilon)[1]
        errors.append(float((g - problem.g).norm() / problem.g.norm()))
    shortest = int(np.argmin(errors))  # before it round-off, after it truncation
    truncated = [
        (e, r)
        for e, r in zip(epsilons[shortest:], errors[shortest:], strict=True)
        if ABOVE_ROUND_OFF * errors[shortest] < r < LARGEST_ERROR
    ]
    if len(truncated) < 2:
        raise ValueError(
            f"Expected two steps or more between round-off and truncation, found {len(truncated)}"
        )
    return {
        "epsilon": epsilons.tolist(),
        "relative_error": errors,
        "slope": slope([e for e, _ in truncated], [r for _, r in truncated]),
    }


def stationarity(problem: Problem, config: ConvergenceConfig, seed: int) -> dict[str, Any]:
    """Returns the mean squared norm of the true gradient over T noisy steps, by T; its slope."""
    lengths = [2**power for power in range(6, int(math.log2(config.longest)) + 1, 2)]
    found = []
    for length in tqdm(lengths, desc="stationarity", unit="length", mininterval=0.5):
        runs = [one_run(problem, length, seed, number) for number in range(config.repeats)]
        found.append(float(np.mean(runs)))
    return {
        "steps": lengths,
        "mean_squared_gradient": found,
        "slope": slope(lengths, found),
        "noise": problem.noise,
    }


def one_run(problem: Problem, length: int, seed: int, number: int) -> float:
    """Returns the mean over the steps of the squared norm of the objective's true gradient.

    Steps of plain gradient descent, of size 1 / sqrt(T), on the objective with estimates of g and a
    few draws for its KL; the true gradient has the mean of g and the KL of many draws.
    """
    torch.manual_seed(seed * 1_000_003 + number)
    count = len(problem.expected)
    guide = MixtureGuide(FreeConcentrations(count, initial_shape=5.0))
    parameters = list(guide.parameters())
    noisy = HypergradientELBO(kl="bound", num_samples=16)
    true = HypergradientELBO(kl="bound", num_samples=64)
    signals = torch.zeros(count)
    squares = []
    watched = set(np.unique(np.linspace(0, length - 1, 64).astype(int)).tolist())
    for step in range(length):
        if step in watched:
            # The product of two independent estimates has no noise of its own in the mean.
            losses = [
                true.differentiable_loss(mixture_model, guide, signals, problem.expected, KL_WEIGHT)
                for _ in range(2)
            ]
            first, second = (torch.autograd.grad(loss, parameters) for loss in losses)
            squares.append(sum(float((a * b).sum()) for a, b in zip(first, second, strict=True)))
        g = problem.estimate()
        loss = noisy.differentiable_loss(mixture_model, guide, signals, g, KL_WEIGHT)
        for parameter, part in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= part / length**0.5
    return float(np.mean(squares))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Returns the slope of ``log y`` against ``log x``."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def convergence(options: ConvergenceOptions) -> None:
    """Measures and writes."""
    config = options.convergence
    idle = {option.name for option in dataclasses.fields(options.search)} - {*USED, *SMOKE}
    warn_idle(options.search, sorted(idle), "convergence.py")
    folder = begin_run(options, "convergence", None)
    domains = load_domains(options)
    folder.write_config("convergence", options.as_dict(), tell)
    proxy = FrozenProxy(options, domains, config.estimates)
    problems: dict[str, Problem] = {
        "known gradients": KnownGradients(options.run.seed, config.noise),
        "the proxy": proxy,
    }
    found: dict[str, Any] = {}
    for name, problem in problems.items():
        tell(name)
        with proxy.cost.part("guide"):
            rates = stationarity(problem, config, options.run.seed)
        with proxy.cost.part("hypergradient"):
            found[name] = {"bias": bias(problem), "stationarity": rates}
    results = results_of({"problems": found}, options, options.run.seed, proxy.cost)
    folder.write_json("results.json", results)
    rows = [
        [
            name,
            f"{rates['bias']['slope']:.2f}",
            f"{rates['stationarity']['slope']:.2f}",
            f"{rates['stationarity']['noise']:.1f}",
        ]
        for name, rates in found.items()
    ]
    header = ["", "error of g in eps", "squared gradient in T", "noise of g over its spread"]
    table = markdown(header, [["theory", "2", "a bound of -0.5", ""], *rows])
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md.")
    print(drawn_by("convergence_rates", folder))


if __name__ == "__main__":
    run_main(convergence, "convergence", ABOUT, ConvergenceOptions)
