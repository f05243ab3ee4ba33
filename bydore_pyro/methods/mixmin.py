"""MixMin: the mixture of experts, one a domain, that gives the target's texts the least loss.

References:
    Thudi et al., MixMin, arXiv 2502.10510.
"""

from __future__ import annotations

import numpy as np

from bydore_pyro.measure import Problem
from bydore_pyro.methods.experts import expert_losses
from bydore_pyro.methods.fit import Fit
from bydore_pyro.tables import Details

__all__ = ["fit_mixmin", "mixmin_gradient", "mixmin_weights"]

# The authors' step size, most steps, and where they stop: no entry of the gradient is larger.
RATE, STEPS, LEVEL = 1.0, 100, 1e-4


def mixmin_gradient(weights: np.ndarray, text_losses: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Returns the gradient ``(K,)`` of the loss of the experts' mixture, text by text.

        loss(p) = - sum_x share_x log sum_k p_k P_k(x),      convex in p

    Args:
        weights: p ``(K,)``, on the simplex.
        text_losses: ``-log P_k(x)`` of K experts on N whole texts ``(K, N)``, nats.
        shares: Of every text in the target ``(N,)``, a token's: 1 by the text's number of tokens
            times its share.
    """
    relative = np.exp(text_losses.min(0) - text_losses)  # (K, N); so that nothing underflows
    return -(relative / (weights @ relative)) @ shares


def mixmin_weights(text_losses: np.ndarray, shares: np.ndarray, steps: int = STEPS) -> np.ndarray:
    """Minimises MixMin's loss by entropic descent from uniform weights; returns p ``(K,)``.

    p <- p exp(-rate gradient) / sum
    """
    weights = np.full(len(text_losses), 1 / len(text_losses))
    for _ in range(steps):
        gradient = mixmin_gradient(weights, text_losses, shares)
        if np.abs(gradient).max() < LEVEL:
            break
        raised = weights * np.exp(-RATE * (gradient - gradient.min()))
        weights = raised / raised.sum()
    return weights


def fit_mixmin(problem: Problem) -> Fit:
    """Trains an expert on every domain and mixes their probabilities of the target's sequences.

    A text is a held-out sequence of the problem's length.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("mixmin", len(problem.names))
    losses, shares = expert_losses(problem, steps, "mixmin: experts")
    weights = mixmin_weights(losses.sum(2), shares / losses.shape[2])
    return Fit(mixture=problem.mixture(weights), details=Details(steps=steps))
