"""The theory, measured: the finite difference's bias, and the approach to a stationary point."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import drawn_by, markdown, run_main
from torch import Tensor

from bydore_pyro.command_line import tell
from bydore_pyro.elbo import HypergradientELBO
from bydore_pyro.guide import MixtureGuide, mixture_model
from bydore_pyro.hypergradient import Parameters, finite_difference
from bydore_pyro.prior_net import FreeConcentrations
from bydore_pyro.run_folder import RunFolder, provenance

ABOUT = """Measures the two rates of the convergence theorem on a problem whose gradients are known:
the error of the finite-difference hypergradient falls as eps^2 until round-off takes over (its
square is the theorem's eps^4), and the mean squared norm of the true gradient of the objective over
T noisy steps falls as T^(-1/2), with step sizes that fall as T^(-1/2). Reports both
slopes."""

DOMAINS, PARAMETERS = 6, 40


@dataclass(frozen=True, kw_only=True)
class ConvergenceConfig:
    """What is measured, and where the results go."""

    longest: int = field(default=4096, metadata={"help": "Steps of the longest run."})
    repeats: int = field(default=5, metadata={"help": "Runs of each length."})
    noise: float = field(
        default=3.0, metadata={"help": "Standard deviation of g's noise, in units of its spread."}
    )
    kl_weight: float = field(default=0.3, metadata={"help": "Weight of the KL term."})
    seed: int = field(default=0, metadata={"help": "Seed."})
    smoke: bool = field(
        default=False, metadata={"help": "A run of seconds; what is given beside it wins."}
    )
    out: str | None = field(
        default=None,
        metadata={"help": "Folder of the results; runs/convergence-<time> if none."},
    )

    def __post_init__(self) -> None:
        if not 64 <= self.longest <= 10**7:
            raise ValueError(f"Expected longest in [64, 1e7], actual {self.longest}")
        if not 1 <= self.repeats <= 1000:
            raise ValueError(f"Expected repeats in [1, 1000], actual {self.repeats}")
        for name in ("noise", "kl_weight"):
            if not 0 < getattr(self, name) <= 1e3:
                raise ValueError(f"Expected {name} in (0, 1000], actual {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class ConvergenceOptions:
    """All options."""

    convergence: ConvergenceConfig


class Problem:
    """Domains with losses ``ell_k(theta) = mean_i log cosh(a_ki . theta - b_ki)`` in float64.

    Every derivative is known in closed form, and the third does not vanish.
    """

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (DOMAINS, 20, PARAMETERS)
        self.a = torch.randn(shape, generator=generator, dtype=torch.float64) / PARAMETERS**0.5
        self.b = torch.randn(shape[:2], generator=generator, dtype=torch.float64)
        self.theta = {"theta": torch.randn(PARAMETERS, generator=generator, dtype=torch.float64)}
        # The validation set is made of the first two domains' text.
        self.direction = {"theta": self._gradients()[:2].mean(0)}
        self.g = self._gradients() @ self.direction["theta"]

    def losses(self, theta: Parameters) -> Tensor:
        """Returns the losses ``(K,)``."""
        return torch.log(torch.cosh(self.a @ theta["theta"] - self.b)).mean(1)

    def _gradients(self) -> Tensor:
        inner = torch.tanh(self.a @ self.theta["theta"] - self.b)  # (K, n)
        return (inner.unsqueeze(-1) * self.a).mean(1)  # (K, P)


def bias(problem: Problem) -> dict[str, list[float]]:
    """Returns the relative errors of the finite difference by its step."""
    epsilons = np.logspace(-4, 1, 21)
    errors = []
    for epsilon in epsilons:
        g = finite_difference(problem.losses, problem.theta, problem.direction, 1.0, epsilon)[1]
        errors.append(float((g - problem.g).norm() / problem.g.norm()))
    return {"epsilon": epsilons.tolist(), "relative_error": errors}


def stationarity(problem: Problem, config: ConvergenceConfig) -> dict[str, list[float]]:
    """Returns the mean squared norm of the true gradient over T noisy steps, by T."""
    lengths = [2**power for power in range(6, int(math.log2(config.longest)) + 1, 2)]
    g = (problem.g / problem.g.std()).float()
    found = []
    for length in lengths:
        runs = [one_run(g, length, config, seed) for seed in range(config.repeats)]
        found.append(float(np.mean(runs)))
    return {"steps": [float(length) for length in lengths], "mean_squared_gradient": found}


def one_run(g: Tensor, length: int, config: ConvergenceConfig, seed: int) -> float:
    """Returns the mean over the steps of the squared norm of the objective's true gradient.

    Steps of plain gradient descent, of size 1 / sqrt(T), on the objective with noisy g and a few
    draws for its KL; the true gradient has g without noise and the KL of many draws.
    """
    torch.manual_seed(config.seed * 1_000_003 + seed)
    guide = MixtureGuide(FreeConcentrations(DOMAINS, initial_shape=5.0))
    parameters = list(guide.parameters())
    noisy = HypergradientELBO(kl="bound", num_samples=16)
    true = HypergradientELBO(kl="bound", num_samples=64)
    signals = torch.zeros(DOMAINS)
    squares = []
    watched = set(np.unique(np.linspace(0, length - 1, 64).astype(int)).tolist())
    for step in range(length):
        if step in watched:
            # The product of two independent estimates has no noise of its own in the mean.
            losses = [
                true.differentiable_loss(mixture_model, guide, signals, g, config.kl_weight)
                for _ in range(2)
            ]
            first, second = (torch.autograd.grad(loss, parameters) for loss in losses)
            squares.append(sum(float((a * b).sum()) for a, b in zip(first, second, strict=True)))
        shown = g + config.noise * torch.randn(DOMAINS)
        loss = noisy.differentiable_loss(mixture_model, guide, signals, shown, config.kl_weight)
        for parameter, part in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= part / length**0.5
    return float(np.mean(squares))


def slope(x: list[float], y: list[float]) -> float:
    """Returns the slope of ``log y`` against ``log x``."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def convergence(options: ConvergenceOptions) -> None:
    """Measures and writes."""
    config = options.convergence
    folder = RunFolder(Path(config.out or f"runs/convergence-{time.strftime('%Y%m%d-%H%M%S')}"))
    folder.write_config("convergence", dataclasses.asdict(options), tell)
    begun = time.perf_counter()
    problem = Problem(config.seed)
    error, approach = bias(problem), stationarity(problem, config)
    truncated = [
        (e, r)
        for e, r in zip(error["epsilon"], error["relative_error"], strict=True)
        if 1e-9 < r < 1e-2
    ]
    results: dict[str, Any] = {
        "bias": error,
        "bias_slope": slope([e for e, _ in truncated], [r for _, r in truncated]),
        "stationarity": approach,
        "stationarity_slope": slope(approach["steps"], approach["mean_squared_gradient"]),
        "config": {k: v for k, v in dataclasses.asdict(config).items() if k != "out"},
        "seconds": time.perf_counter() - begun,
        **provenance(),
    }
    folder.write_json("results.json", results)
    rows = [
        ["error of g in eps", "2", f"{results['bias_slope']:.2f}"],
        ["mean squared gradient in T", "-0.5", f"{results['stationarity_slope']:.2f}"],
    ]
    table = markdown(["slope of", "theory", "measured"], rows)
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md.")
    print(drawn_by("convergence_rates", folder))


if __name__ == "__main__":
    run_main(convergence, "convergence", ABOUT, ConvergenceOptions)
