"""Runs whose losses are known: random mixtures of four domains, two of which help."""

from __future__ import annotations

import numpy as np


def planted(count: int, noise: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixtures of four domains, and losses that fall with the log of the first and third weight."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(4), count)
    return weights, truth(weights) + noise * rng.standard_normal(count)


def truth(weights: np.ndarray) -> np.ndarray:
    return 5 - 0.3 * np.log(weights[:, 0] + 1e-3) - 0.1 * np.log(weights[:, 2] + 1e-3)
