"""Methods that train one expert a domain: MDE and MixMin.

References:
    Belenki et al., Optimizing Pre-Training Data Mixtures with Mixtures of Data Expert Models,
    arXiv 2502.15950 (MDE). Thudi et al., MixMin, arXiv 2502.10510.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro.baselines.fit import Details, Fit
from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.proxy_runs import train_mixtures
from bydore_pyro.utils import option, require, require_fields

__all__ = ["MDEConfig", "draw_mixtures", "expert_losses", "fit_mde", "fit_mixmin",
           "mixmin_gradient", "mixmin_weights", "mixture_of_experts_loss"]  # fmt: skip

CHUNK = 2**24  # probabilities held at once
# MixMin's authors' step size, most steps, and where they stop: no entry of the gradient is larger.
RATE, STEPS, LEVEL = 1.0, 100, 1e-4


@dataclass(frozen=True, kw_only=True)
class MDEConfig:
    """MDE's settings."""

    mde_proxies: int = option(
        25, "Number of proxies that MDE trains on mixtures, besides one expert per domain.", least=3
    )
    mde_candidates: int = option(
        20_000, "Number of mixtures from which MDE chooses the best prediction.", least=1
    )

    def __post_init__(self) -> None:
        require_fields(self)


def mixture_of_experts_loss(
    token_losses: np.ndarray, weights: np.ndarray, shares: np.ndarray
) -> np.ndarray:
    """Returns MDE's feature: the loss of the experts' probabilities, mixed token by token.

        feature(w) = - sum_x share_x log sum_k w_k p_k(x)

    Args:
        token_losses: ``-log p_k(x)`` of K experts on N held-out tokens ``(K, N)``, nats.
        weights: Mixtures ``(S, K)``, rows on the simplex.
        shares: Of every token in the target ``(N,)``, summing to 1.

    Returns:
        ``(S,)``, nats per token.
    """
    best = token_losses.min(0)  # (N,); the most likely expert's, so that nothing underflows
    relative = np.exp(best - token_losses)  # (K, N), in (0, 1]
    rows = max(1, CHUNK // max(1, token_losses.shape[1]))
    parts = []
    with np.errstate(divide="ignore"):  # no expert with weight gives the token any probability
        for start in range(0, len(weights), rows):
            mixed = weights[start : start + rows] @ relative  # (s, N)
            parts.append((best - np.log(mixed)) @ shares)
    return np.concatenate(parts)


def draw_mixtures(count: int, domains: int, rng: np.random.Generator) -> np.ndarray:
    """Returns mixtures ``(S, K)`` from even to concentrated on few domains.

    Each is drawn from a symmetric Dirichlet of its own concentration, log-uniform in [0.1, 1].
    """
    concentration = 10 ** rng.uniform(-1, 0, count)
    return np.stack([rng.dirichlet(np.full(domains, a)) for a in concentration])


def fit_mde(problem: Problem, config: MDEConfig) -> Fit:
    """Trains an expert on every domain and some proxies on mixtures; predicts the best mixture.

    The predicted loss is a linear regression of the proxies' losses on their weights and MDE's
    feature. The result is the mean of the best half per cent of `mde_candidates` drawn mixtures.

    Raises:
        DataError: When the budget does not reach, or scikit-learn is not installed.
        NonFiniteError: When a loss is NaN or infinite.
    """
    regression = require("sklearn.linear_model", "baselines").LinearRegression()
    count = len(problem.names)
    steps = problem.steps_for("mde", count + config.mde_proxies)
    rng = np.random.default_rng([problem.seed, 4])
    drawn = draw_mixtures(config.mde_proxies, count, rng)
    losses, shares = expert_losses(problem, steps, "mde: experts")
    tokens = losses.reshape(count, -1)
    shares = np.repeat(shares, losses.shape[2]) / losses.shape[2]
    proxies = train_mixtures(problem, drawn, steps, "mde: proxies")
    candidates = draw_mixtures(config.mde_candidates, count, rng)

    def features(weights: np.ndarray) -> np.ndarray:
        return np.column_stack([weights, mixture_of_experts_loss(tokens, weights, shares)])

    targets = [run.target_loss(problem.target) for run in proxies]
    predicted = regression.fit(features(drawn), targets).predict(features(candidates))
    best = np.argsort(predicted)[: max(1, len(candidates) // 200)]
    return Fit(mixture=problem.mixture(candidates[best].mean(0)), details=Details(steps=steps))


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


def expert_losses(problem: Problem, steps: int, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Trains an expert on every domain, so many steps each.

    Returns:
        The experts' losses of the target's held-out tokens ``(K, N, T - 1)``, nats, and the share
        of each sequence in the target ``(N,)``, summing to 1.

    Raises:
        NonFiniteError: When a loss is NaN or infinite.
    """
    experts = train_mixtures(problem, np.eye(len(problem.names)), steps, label)
    found = [expert.token_losses() for expert in experts]
    losses = np.stack([np.concatenate([of[name] for name in problem.target]) for of in found])
    shares = [
        np.full(len(found[0][name]), share / len(found[0][name]))
        for name, share in problem.target.items()
    ]
    return losses.astype(float), np.concatenate(shares) / sum(problem.target.values())
