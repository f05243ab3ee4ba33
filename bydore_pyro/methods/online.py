"""A proxy that trains on even batches while a method such as DoReMi moves its weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from bydore_pyro import data, trials
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.proxy import Parallel, Proxy, systematic_counts

Factors = Tensor | Callable[[Tensor], Tensor]


def proxy_of(problem: trials.Problem) -> Proxy:
    """Returns a proxy with fresh weights, whose cost the problem counts."""
    parallel = Parallel(cpu=problem.device.type == "cpu")
    return Proxy(problem.build(problem.seed), problem.proxy, problem.cost, parallel=parallel)


def train_on_even(
    problem: trials.Problem,
    proxy: Proxy,
    domains: data.Domains,
    steps: int,
    method: str,
    factors: Callable[[int, Tensor, Tensor], Factors],
    weights: Callable[[], Tensor],
) -> np.ndarray:
    """Trains the proxy on even batches, and returns the weights after each step ``(steps, K)``.

    A method's factors are those of a step's number, its batch ``(B, T)`` and the domains of the
    sequences ``(B,)``; `weights` gives its weights ``(K,)`` after that.

    Raises:
        NonFiniteError: When a loss or a weight is NaN or infinite.
    """
    from tqdm import tqdm

    generator, count = torch.Generator().manual_seed(problem.seed), len(problem.names)
    uniform = torch.full((count,), 1 / count, dtype=torch.float64)
    path = []
    for step in tqdm(range(steps), desc=method, unit="step", mininterval=0.5):
        counts = systematic_counts(uniform, problem.batch_sequences, generator)
        batch = domains.train_batch(dict(zip(problem.names, counts.tolist(), strict=True)))
        domain = torch.arange(count).repeat_interleave(counts)
        losses, after = proxy.step(batch, factors(step, batch, domain)), weights()
        if not bool(torch.isfinite(losses).all() and torch.isfinite(after).all()):
            raise NonFiniteError(
                f"Step {step} of {method}: the training loss is NaN or infinite; a smaller "
                "--learning_rate may help"
            )
        path.append(after.numpy().copy())
    return np.stack(path)
