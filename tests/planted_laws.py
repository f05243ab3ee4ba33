"""Runs whose losses follow a law that is known."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch.distributions import Dirichlet

# All mixtures of three domains in steps of a hundredth.
GRID = (
    torch.tensor(
        [(i, j, 100 - i - j) for i, j in itertools.product(range(101), repeat=2) if i + j <= 100]
    ).double()
    / 100
)
# Of a run on equal weights on its way, beside finished runs.
READ_AT = (0.25, 0.5)


def planted(
    domains: int, runs: int, seed: int = 0, noise: float = 0.02
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns tokens ``(R, K)``, losses ``(R, K)`` and cross products ``(K, K)``.

    The transfer is 0.4 of what the cross products say. The first run has equal weights, and is read
    on its way too: these readings are the last rows.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        uniform = torch.full((1, domains), 1 / domains)
        tokens = torch.cat([uniform, Dirichlet(torch.ones(domains)).sample((runs - 1,))]).double()
        tokens = torch.cat([tokens, *(at * tokens[:1] for at in READ_AT)])
        cross = torch.rand(domains, domains).double() * 0.4
        cross.fill_diagonal_(1)
        error = noise * torch.randn(len(tokens), domains)
    return tokens, planted_losses(tokens, cross) + error, cross


def planted_losses(tokens: Tensor, cross: Tensor) -> Tensor:
    """Returns the losses that the law predicts, without a run's noise."""
    domains = tokens.shape[1]
    worth = torch.where(torch.eye(domains) > 0, 1.0, 0.4 * cross)
    return 4 + 0.4 * ((domains * tokens @ worth.T) ** -0.2 - 1) / 0.2
