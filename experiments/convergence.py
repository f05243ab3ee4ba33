"""The theory, measured: the finite difference's bias, and the approach to a stationary point."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from common import leave, markdown, run_main
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.core import (
    FreeConcentrations,
    HypergradientELBO,
    MixtureGuide,
    Parameters,
    finite_difference,
    forward_mode,
    mixture_model,
)
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy, train_on_mixture
from bydore_pyro.runs import (
    SMOKE,
    Options,
    begin_run,
    language_model,
    load_domains,
    uniform_weights,
)
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
DOMAINS, PARAMETERS, NOISE = 6, 40, 3.0  # of the problem with known gradients


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

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, kw_only=True)
class ConvergenceOptions(Options):
    """The options of a run and of what is measured."""

    convergence: ConvergenceConfig


class KnownGradients:
    """Domains with losses ``ell_k(theta) = mean_i log cosh(a_ki . theta - b_ki)`` in float64.

    Every derivative is known in closed form, and the third does not vanish.

    Attributes:
        theta: The parameters.
        direction: The gradient of the validation loss at `theta`.
        g: ``<grad ell_k(theta), direction>``, exact, ``(K,)``.
        expected: The mean of the estimates ``(K,)``, in units of its own spread over domains.
        noise: The estimates' standard deviation in the same units.
    """

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (DOMAINS, 20, PARAMETERS)
        self.a = torch.randn(shape, generator=generator, dtype=torch.float64) / PARAMETERS**0.5
        self.b = torch.randn(shape[:2], generator=generator, dtype=torch.float64)
        theta = torch.randn(PARAMETERS, generator=generator, dtype=torch.float64)
        inner = torch.tanh(self.a @ theta - self.b)  # (K, n)
        gradients = (inner.unsqueeze(-1) * self.a).mean(1)  # (K, P)
        self.theta: Parameters = {"theta": theta}
        # The validation set is made of the first two domains' text.
        self.direction: Parameters = {"theta": gradients[:2].mean(0)}
        self.g = gradients @ self.direction["theta"]
        self.expected = (self.g / self.g.std()).float()
        self.noise = NOISE

    def losses(self, theta: Parameters) -> Tensor:
        """Returns the losses ``(K,)``."""
        return torch.log(torch.cosh(self.a @ theta["theta"] - self.b)).mean(1)

    def estimate(self) -> Tensor:
        """Returns `expected` with normal noise."""
        return self.expected + self.noise * torch.randn(DOMAINS)


class FrozenProxy:
    """The proxy after `--steps` steps on uniform weights, in float64 and trained no further.

    An estimate is the exact derivative on one pair of batches, of training and of validation text,
    drawn from many such pairs, so that the mean over them is the estimates' true mean.
    """

    def __init__(self, options: Options, domains: Domains, estimates: int) -> None:
        search, seed = options.search, options.run.seed
        self.sequences = search.signal_sequences
        model = language_model(options, domains.corpus.vocabulary, seed)
        proxy = Proxy(model, options.proxy)
        uniform = uniform_weights(domains)
        training = train_on_mixture(
            domains, proxy, uniform, search.steps, search.batch_sequences, seed=seed
        )
        for _ in tqdm(training, total=search.steps, desc="proxy", unit="step", mininterval=0.5):
            pass
        # Its float64 twin charges the same counter.
        self.proxy = Proxy(copy.deepcopy(model).double(), options.proxy, cost=proxy.cost)
        self.cost = proxy.cost
        self.theta: Parameters = {n: p.clone() for n, p in self.proxy.parameters.items()}
        found = []
        for _ in tqdm(range(estimates), desc="estimates of g", unit="batch", mininterval=0.5):
            self.batch = domains.signal_batch(self.sequences)
            held_out = domains.validation_batch(search.validation_batch)
            with self.cost.part("validation"):
                _, gradient = self.proxy.gradient(held_out, "validation")
            self.direction: Parameters = gradient
            with self.cost.part("hypergradient"):
                losses = partial(self.losses, passes=3)
                found.append(forward_mode(losses, self.theta, self.direction, 1.0)[1])
        self.g = found[-1]  # of the batches at which `losses` and `direction` now stand
        mean = torch.stack(found).mean(0)
        self.estimates = (torch.stack(found) / mean.std()).float().cpu()  # (N, K)
        self.expected = self.estimates.mean(0)
        self.noise = float(self.estimates.std(0).mean())

    def losses(self, theta: Parameters, passes: int = 1) -> Tensor:
        """Returns the losses ``(K,)`` on the last batch, nats per token; see `Proxy.losses`."""
        own = self.proxy.losses(self.batch, "hypergradient", theta, passes=passes)
        return own.view(-1, self.sequences).mean(1)

    def estimate(self) -> Tensor:
        """Returns one of the estimates."""
        return self.estimates[int(torch.randint(len(self.estimates), ()))]


Problem = KnownGradients | FrozenProxy


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
    late = np.array([epsilons[shortest:], errors[shortest:]])
    truncated = late[:, (ABOVE_ROUND_OFF * late[1, 0] < late[1]) & (late[1] < LARGEST_ERROR)]
    if truncated.shape[1] < 2:
        raise ValueError(
            "Expected two steps or more between round-off and truncation, found "
            f"{truncated.shape[1]}"
        )
    found = {"epsilon": epsilons.tolist(), "relative_error": errors}
    return {**found, "slope": slope(*truncated)}


def stationarity(problem: Problem, config: ConvergenceConfig, seed: int) -> dict[str, Any]:
    """Returns the mean squared norm of the true gradient over T noisy steps, by T; its slope."""
    lengths = [2**power for power in range(6, int(math.log2(config.longest)) + 1, 2)]
    found = []
    for length in tqdm(lengths, desc="stationarity", unit="length", mininterval=0.5):
        runs = [one_run(problem, length, seed, number) for number in range(config.repeats)]
        found.append(float(np.mean(runs)))
    squares = {"steps": lengths, "mean_squared_gradient": found}
    return {**squares, "slope": slope(lengths, found), "noise": problem.noise}


def one_run(problem: Problem, length: int, seed: int, number: int) -> float:
    """Returns the mean over the steps of the squared norm of the objective's true gradient.

    Steps of plain gradient descent, of size 1 / sqrt(T), on the objective with estimates of g and a
    few draws for its KL; the true gradient has the mean of g and the KL of many draws.
    """
    torch.manual_seed(seed * 1_000_003 + number)
    count = len(problem.expected)
    guide = MixtureGuide(FreeConcentrations(count, initial_shape=5.0))
    parameters, signals = list(guide.parameters()), torch.zeros(count)

    def gradient(g: Tensor, draws: int) -> tuple[Tensor, ...]:
        elbo = HypergradientELBO(num_samples=draws)
        loss = elbo.differentiable_loss(mixture_model, guide, signals, g, KL_WEIGHT)
        return torch.autograd.grad(loss, parameters)

    squares = []
    watched = set(np.unique(np.linspace(0, length - 1, 64).astype(int)).tolist())
    for step in range(length):
        if step in watched:
            # The product of two independent estimates has no noise of its own in the mean.
            first, second = (gradient(problem.expected, 64) for _ in range(2))
            squares.append(sum(float((a * b).sum()) for a, b in zip(first, second, strict=True)))
        noisy = gradient(problem.estimate(), 16)
        for parameter, part in zip(parameters, noisy, strict=True):
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
    known = KnownGradients(options.run.seed)
    problems: dict[str, Problem] = {"known gradients": known, "the proxy": proxy}
    found: dict[str, Any] = {}
    rows = [["theory", "2", "a bound of -0.5", ""]]
    for name, problem in problems.items():
        tell(name)
        with proxy.cost.part("guide"):
            rates = stationarity(problem, config, options.run.seed)
        with proxy.cost.part("hypergradient"):
            found[name] = {"bias": bias(problem), "stationarity": rates}
        slopes = [f"{part['slope']:.2f}" for part in found[name].values()]
        rows.append([name, *slopes, f"{rates['noise']:.1f}"])
    header = ["", "error of g in eps", "squared gradient in T", "noise of g over its spread"]
    table = markdown(header, rows)
    leave(folder, options, {"problems": found}, proxy.cost, table, "convergence_rates")


if __name__ == "__main__":
    run_main(convergence, "convergence", ABOUT, ConvergenceOptions)
