"""MixMin: the mixture of experts that gives the target's texts the most probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.proxy_runs import expert_losses, target_shares
from bydore_pyro.utils import option, require_fields

__all__ = ["MixMinConfig", "fit_mixmin", "mixmin_loss", "mixmin_weights"]

LEVEL = 1e-4  # the authors stop where no entry of the gradient is larger


@dataclass(frozen=True, kw_only=True)
class MixMinConfig:
    """MixMin's settings; the defaults are its authors'."""

    mixmin_rate: float = option(1.0, "Step size of MixMin's descent.", above=0)
    mixmin_steps: int = option(100, "Maximum number of steps of MixMin's descent.", least=1)

    def __post_init__(self) -> None:
        require_fields(self)


def mixmin_loss(
    weights: np.ndarray, text_losses: np.ndarray, lengths: np.ndarray, shares: np.ndarray
) -> tuple[float, np.ndarray]:
    """Returns the loss of the experts' mixture, text by text, and its gradient ``(K,)``.

        loss(p) = - sum_x share_x / n(x) log sum_k p_k P_k(x),      nats per token, convex in p

    Args:
        weights: p ``(K,)``, on the simplex.
        text_losses: ``-log P_k(x)`` of K experts on N whole texts ``(K, N)``, nats.
        lengths: Tokens n of each text ``(N,)``.
        shares: Of every text in the target ``(N,)``, summing to 1.

    References:
        Thudi et al., MixMin, arXiv 2502.10510.
    """
    best = text_losses.min(0)  # (N,); the likeliest expert's, so that nothing underflows
    relative = np.exp(best - text_losses)  # (K, N)
    mixed = weights @ relative  # (N,)
    per_token = shares / lengths
    return float(per_token @ (best - np.log(mixed))), -(relative / mixed) @ per_token


def mixmin_weights(
    text_losses: np.ndarray, lengths: np.ndarray, shares: np.ndarray, rate: float, steps: int
) -> np.ndarray:
    """Minimises `mixmin_loss` by entropic descent from uniform weights; returns p ``(K,)``.

    p <- p exp(-rate gradient) / sum
    """
    weights = np.full(len(text_losses), 1 / len(text_losses))
    for _ in range(steps):
        _, gradient = mixmin_loss(weights, text_losses, lengths, shares)
        if np.abs(gradient).max() < LEVEL:
            break
        raised = weights * np.exp(-rate * (gradient - gradient.min()))
        weights = raised / raised.sum()
    return weights


def fit_mixmin(problem: Problem, config: MixMinConfig) -> Fit:
    """Trains an expert on every domain and mixes their probabilities of the target's sequences.

    A text is a held-out sequence of the problem's length.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("mixmin", len(problem.names))
    found = expert_losses(problem, steps, "mixmin: experts")
    texts = np.concatenate([of.sum(2) for of in found.values()], 1).astype(float)  # (K, N)
    lengths = np.full(texts.shape[1], problem.sequence_length - 1.0)
    shares = target_shares(problem.target, {name: of.shape[1] for name, of in found.items()})
    of_texts = (lengths, shares)
    weights = mixmin_weights(texts, *of_texts, config.mixmin_rate, config.mixmin_steps)
    return Fit(
        mixture=problem.mixture(weights),
        details={
            "steps_of_each_proxy": steps,
            "loss_of_mixed_experts": mixmin_loss(weights, texts, *of_texts)[0],
        },
    )
