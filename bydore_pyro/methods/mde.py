"""MDE: the loss of a mixture of experts, one a domain, as a feature of a regression.

References:
    Belenki et al., Optimizing Pre-Training Data Mixtures with Mixtures of Data Expert Models,
    arXiv 2502.15950.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro import trials
from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import require
from bydore_pyro.methods.experts import expert_losses
from bydore_pyro.methods.fit import Details, Fit

CHUNK = 2**24  # probabilities held at once


@dataclass(frozen=True, kw_only=True)
class MDEConfig(Checked):
    """MDE's settings."""

    mde_proxies: int = option(
        25, "Number of proxies that MDE trains on mixtures, besides one expert per domain.", least=3
    )
    mde_candidates: int = option(
        20_000, "Number of mixtures from which MDE chooses the best prediction.", least=1
    )


def mixture_of_experts_loss(
    token_losses: np.ndarray, weights: np.ndarray, shares: np.ndarray
) -> np.ndarray:
    """Returns MDE's feature: the loss of the experts' probabilities, mixed token by token.

        feature(w) = - sum_x share_x log sum_k w_k p_k(x)

    Args:
        token_losses: ``-log p_k(x)`` of K experts on N held-out tokens ``(K, N)``, nats.
        weights: Mixtures ``(S, K)``, rows on the simplex.
        shares: Of every token in the target's loss ``(N,)``; of plain text they sum to 1.

    Returns:
        ``(S,)``, in the unit of the target's loss.
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


def fit_mde(problem: trials.Problem, config: MDEConfig) -> Fit:
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
    tokens, shares = losses.reshape(count, -1), shares.flatten()
    proxies = trials.train_mixtures(problem, drawn, steps, "mde: proxies")
    candidates = draw_mixtures(config.mde_candidates, count, rng)

    def features(weights: np.ndarray) -> np.ndarray:
        return np.column_stack([weights, mixture_of_experts_loss(tokens, weights, shares)])

    targets = [run.target_loss(problem.target) for run in proxies]
    predicted = regression.fit(features(drawn), targets).predict(features(candidates))
    best = np.argsort(predicted)[: max(1, len(candidates) // 200)]
    return Fit(mixture=problem.mixture(candidates[best].mean(0)), details=Details(steps=steps))
