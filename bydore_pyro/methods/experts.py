"""Experts, one a domain, whose losses MDE and MixMin mix."""

from __future__ import annotations

import numpy as np

from bydore_pyro import trials


def expert_losses(problem: trials.Problem, steps: int, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Trains an expert on every domain, so many steps each.

    Returns:
        The experts' losses of the target's held-out tokens ``(K, N, T - 1)``, nats, and the share
        of each sequence in the target ``(N,)``, summing to 1.

    Raises:
        NonFiniteError: When a loss is NaN or infinite.
    """
    experts = trials.train_mixtures(problem, np.eye(len(problem.names)), steps, label)
    found = [expert.token_losses() for expert in experts]
    losses = np.stack([np.concatenate([of[name] for name in problem.target]) for of in found])
    shares = [
        np.full(len(found[0][name]), share / len(found[0][name]))
        for name, share in problem.target.items()
    ]
    return losses.astype(float), np.concatenate(shares) / sum(problem.target.values())
