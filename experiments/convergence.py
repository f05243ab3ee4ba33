"""The theory, measured: the finite difference's error falls as the square of its step."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import leave, markdown, run_main
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.command_line import warn_idle
from bydore_pyro.core import Parameters, finite_difference, forward_mode
from bydore_pyro.proxy import Cost, Proxy, train_on_mixture
from bydore_pyro.setup import (
    SMOKE,
    Options,
    begin_run,
    language_model,
    load_domains,
)

ABOUT = """Measure the first rate of the convergence theorem: the error of the finite-difference
hypergradient falls as eps^2 until round-off dominates (its square is the theorem's eps^4). It is
measured on a problem whose gradients are known in closed form, and on the proxy, in float64 after
--steps steps, against the exact derivative. The script reports the slopes."""

# Relative errors in which the slope is taken: far above round-off, and of steps not too long.
ABOVE_ROUND_OFF, LARGEST_ERROR = 5.0, 0.03
# Of a search's options those that do something here.
USED = ("steps", "batch_sequences", "validation_batch", "signal_sequences")
STEPS = np.logspace(-7, 0, 29)  # of the finite difference, in units of |theta| / |direction|
DOMAINS, PARAMETERS = 6, 40  # of the problem with known gradients


@dataclasses.dataclass(frozen=True)
class Problem:
    """Losses whose exact derivative is known.

    Attributes:
        losses: Maps parameters to the domains' losses ``(K,)``.
        theta: The parameters.
        direction: The gradient of the validation loss at `theta`.
        g: ``<grad ell_k(theta), direction>``, exact, ``(K,)``.
    """

    losses: Callable[[Parameters], Tensor]
    theta: Parameters
    direction: Parameters
    g: Tensor


def known_gradients(seed: int) -> Problem:
    """Domains with losses ``ell_k(theta) = mean_i log cosh(a_ki . theta - b_ki)`` in float64.

    Every derivative is known in closed form, and the third does not vanish.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (DOMAINS, 20, PARAMETERS)
    a = torch.randn(shape, generator=generator, dtype=torch.float64) / PARAMETERS**0.5
    b = torch.randn(shape[:2], generator=generator, dtype=torch.float64)
    theta = torch.randn(PARAMETERS, generator=generator, dtype=torch.float64)
    gradients = (torch.tanh(a @ theta - b).unsqueeze(-1) * a).mean(1)  # (K, P)
    direction = gradients[:2].mean(0)  # the validation set is made of the first two domains' text
    return Problem(
        losses=lambda at: torch.log(torch.cosh(a @ at["theta"] - b)).mean(1),
        theta={"theta": theta},
        direction={"theta": direction},
        g=gradients @ direction,
    )


def of_the_proxy(options: Options, cost: Cost) -> Problem:
    """The proxy after `--steps` steps on uniform weights, in float64, on one pair of batches."""
    domains, search, seed = load_domains(options), options.search, options.run.seed
    linear = options.linear
    model = language_model(options, domains.corpus.vocabulary, seed)
    proxy = Proxy(model, options.proxy, cost=cost)
    training = train_on_mixture(
        *(
            domains,
            proxy,
            dict.fromkeys(domains.names, 1 / domains.num_domains),
            search.steps,
            search.batch_sequences,
        ),
        seed=seed,
    )
    for _ in tqdm(training, total=search.steps, desc="proxy", unit="step", mininterval=0.5):
        pass
    exact = Proxy(copy.deepcopy(model).double(), options.proxy, cost=cost)
    batch = domains.signal_batch(linear.signal_sequences)

    def losses(theta: Parameters, passes: int = 1) -> Tensor:
        own = exact.losses(batch, "hypergradient", theta, passes=passes)
        return own.view(-1, linear.signal_sequences).mean(1)

    theta = {name: value.clone() for name, value in exact.parameters.items()}
    held_out, weights = domains.validation_batch(linear.validation_batch)
    with cost.part("validation"):
        _, direction = exact.gradient(held_out, "validation", weights=weights)
    _, g = forward_mode(lambda at: losses(at, passes=3), theta, direction, 1.0)
    return Problem(losses, theta, direction, g)


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
    x, y = np.log(truncated)
    slope = float(np.polyfit(x, y, 1)[0])
    return {"epsilon": epsilons.tolist(), "relative_error": errors, "slope": slope}


def convergence(options: Options) -> None:
    """Measures and writes."""
    for part in (options.search, options.linear):
        idle = {option.name for option in dataclasses.fields(part)} - {*USED, *SMOKE}
        warn_idle(part, sorted(idle), "convergence.py")
    folder, cost = begin_run(options, "convergence", None), Cost()
    folder.write_config("convergence", options.as_dict())
    problems = {
        "known gradients": known_gradients(options.run.seed),
        "the proxy": of_the_proxy(options, cost),
    }
    with cost.part("hypergradient"):
        found = {name: {"bias": bias(problem)} for name, problem in problems.items()}
    rows = [["theory", "2"], *([name, f"{f['bias']['slope']:.2f}"] for name, f in found.items())]
    table = markdown(["", "error of g in eps"], rows)
    leave(folder, options, {"problems": found}, cost, table, "convergence_rates")


if __name__ == "__main__":
    run_main(convergence, "convergence", ABOUT)
