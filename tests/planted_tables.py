"""Runs whose losses are known: random mixtures of four domains, two of which help."""

from __future__ import annotations

import numpy as np

from bydore_pyro.tables.columns import Columns
from bydore_pyro.tables.tables import RunsTable


def planted(count: int, noise: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixtures of four domains, and losses that fall with the log of the first and third weight."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(4), count)
    return weights, truth(weights) + noise * rng.standard_normal(count)


def truth(weights: np.ndarray) -> np.ndarray:
    return 5 - 0.3 * np.log(weights[:, 0] + 1e-3) - 0.1 * np.log(weights[:, 2] + 1e-3)


def planted_table(runs: int) -> RunsTable:
    """A table of such runs with noise, of the metric t."""
    weights, losses = planted(runs, noise=0.05)
    return RunsTable(
        runs=tuple(f"run {n}" for n in range(runs)),
        domains=("a", "b", "c", "d"),
        weights=weights,
        targets=("t",),
        losses=losses[:, None],
        columns=Columns(weights=("a", "b", "c", "d"), metrics=("t",)),
    )
