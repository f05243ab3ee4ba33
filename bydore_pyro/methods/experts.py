"""Experts, one a domain, whose losses MDE and MixMin mix."""

from __future__ import annotations

import numpy as np

from bydore_pyro import trials
from bydore_pyro.errors import DataError


def expert_losses(problem: trials.Problem, steps: int, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Trains an expert on every domain, so many steps each.

    Returns:
        The experts' losses of the target's held-out tokens ``(K, N, T - 1)``, nats, and the share
        of each token in the target's loss ``(N, T - 1)``: of plain text they sum to 1.

    Raises:
        DataError: When the target scores choices: no mixture of probabilities has their loss.
        NonFiniteError: When a loss is NaN or infinite.
    """
    texts = {name: problem.evaluated_on(name) for name in problem.target}
    if choices := [name for name, text in texts.items() if text.questions is not None]:
        raise DataError(
            f"Expected targets whose answers are scored for this method, found score=choice of "
            f"'{choices[0]}'"
        )
    experts = trials.train_mixtures(problem, np.eye(len(problem.names)), steps, label)
    found = [expert.token_losses() for expert in experts]
    losses = np.stack([np.concatenate([of[name] for name in problem.target]) for of in found])
    parts, total = [], sum(problem.target.values())
    for name, share in problem.target.items():
        of_tokens = texts[name].token_weights.double().numpy()
        parts.append(of_tokens * (share / (total * len(of_tokens))))
    return losses.astype(float), np.concatenate(parts)
