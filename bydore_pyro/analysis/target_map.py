"""Which text teaches what: domains by targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_map"]

TOLD = 0.005  # weights below it have no number


def plot_map(domains: Sequence[str], columns: Mapping[str, Sequence[float]]) -> Figure:
    """Draws the weights of several mixtures, a column each, the domain of most weight on top.

    Args:
        domains: Names, ``K``.
        columns: Weights ``(K,)`` by what they are for.
    """
    import matplotlib.pyplot as plt

    weights = np.array(list(columns.values())).T  # (K, T)
    order = np.argsort(-weights.max(1), kind="stable")
    size = (2.4 + 0.75 * len(columns), 1.6 + 0.3 * len(domains))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    axes.imshow(weights[order], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), list(columns), rotation=40, ha="right")
    axes.set_yticks(range(len(domains)), [domains[k] for k in order])
    for row, k in enumerate(order):
        for column, weight in enumerate(weights[k]):
            if weight >= TOLD:
                colour = "white" if weight > 0.55 else "black"
                axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color=colour,
                          fontsize=8)  # fmt: skip
    axes.set_title("weight of each domain (rows) for each target (columns)", fontsize=9)
    return figure
