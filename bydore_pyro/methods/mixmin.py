"""MixMin: the mixture of experts, one a domain, that gives the target's texts the least loss.

References:
    Thudi et al., MixMin, arXiv 2502.10510.
"""

from __future__ import annotations

import numpy as np

from bydore_pyro import trials
from bydore_pyro.methods.experts import expert_losses
from bydore_pyro.methods.fit import Details, Fit

# Nats of a text above the least possible loss, and steps: 13 experts, 512 texts and most steps
# take a second.
GAP, STEPS = 1e-6, 20_000


def mixmin_weights(text_losses: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Minimises the loss of the experts' mixture, text by text; returns p ``(K,)``.

        loss(p) = - sum_x share_x log sum_k p_k P_k(x),      convex in p
        p_k <- p_k m_k,      m_k = sum_x share_x P_k(x) / sum_j p_j P_j(x)

    The step is expectation maximisation from uniform weights: m is minus the gradient, and after t
    steps the loss is at most ``log K / t`` above the least. It ends where ``max m - 1``, which
    bounds that distance too, is below `GAP`.

    Args:
        text_losses: ``-log P_k(x)`` of K experts on N whole texts ``(K, N)``, nats.
        shares: Of every text in the target ``(N,)``, by its tokens' share over their number; they
            are normalised.
    """
    relative = np.exp(text_losses.min(0) - text_losses)  # (K, N); so that nothing underflows
    shares = shares / shares.sum()
    weights = np.full(len(relative), 1 / len(relative))
    for _ in range(STEPS):
        means = relative @ (shares / (weights @ relative))  # (K,)
        if means.max() - 1 < GAP:
            break
        weights = weights * means
    return weights


def fit_mixmin(problem: trials.Problem) -> Fit:
    """Trains an expert on every domain and mixes their probabilities of the target's sequences.

    A text is a held-out sequence of the problem's length, or an answer of a task.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("mixmin", len(problem.names))
    losses, shares = expert_losses(problem, steps, "mixmin: experts")
    scored = shares > 0
    # The tokens of a text have one share of the target's loss.
    weights = mixmin_weights((losses * scored).sum(2), shares.max(1))
    return Fit(mixture=problem.mixture(weights), details=Details(steps=steps))
