"""The picture of the weights over the lengths of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bydore_pyro.analysis.colours import domain_colours
from bydore_pyro.analysis.plots import plain
from bydore_pyro.mixture import Mixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_lengths"]

MOST_BANDS = 4  # intervals of the largest weights; more would hide one another


def plot_lengths(runs: Sequence[tuple[float, Mixture, Mapping[str, float]]]) -> Figure:
    """Draws weights, and epochs beside them, over the lengths of runs.

    The largest weights have their intervals around them.

    Args:
        runs: For each length its tokens, the mixture for it, and how often it reads each domain.
    """
    import matplotlib.pyplot as plt

    runs = sorted(runs, key=lambda run: run[0])
    names = runs[0][1].names
    tokens = np.array([length for length, _, _ in runs])
    weights = np.array([mixture.weights for _, mixture, _ in runs])  # (L, K)
    epochs = np.array([[read[name] for name in names] for _, _, read in runs])
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    colours = domain_colours(names)
    for place, k in enumerate(np.argsort(-weights.max(0))):
        name = names[k]
        left.plot(tokens, weights[:, k], "o-", color=colours[name], markersize=4, label=plain(name))
        ends = [mixture.hdi[k] for _, mixture, _ in runs if mixture.hdi is not None]
        if place < MOST_BANDS and len(ends) == len(runs):
            low, high = np.array(ends).T
            left.fill_between(tokens, low, high, color=colours[name], alpha=0.12, linewidth=0)
        read = np.where(epochs[:, k] > 0, epochs[:, k], np.nan)
        right.plot(tokens, read, "o-", color=colours[name], markersize=4)
    for times in (1, 4):
        right.axhline(times, color="0.6", linestyle=":", zorder=0)
        right.annotate(
            "read once" if times == 1 else "4 times", (0, times), color="0.4", fontsize=9,
            xycoords=("axes fraction", "data"), xytext=(4, 3), textcoords="offset points",
        )  # fmt: skip
    right.set_yscale("log")
    bottom, top = right.get_ylim()
    right.set_ylim(max(bottom, 1e-3), max(top, 8))
    titles = "Weights, the largest with their intervals", "Epochs of each domain"
    for axes, title in zip((left, right), titles, strict=True):
        axes.set_xscale("log")
        axes.set_xlabel("length of the run (tokens)")
        axes.set_title(title, fontsize=11)
    left.set_ylabel("weight (share of training tokens)")
    left.set_ylim(bottom=0)
    right.set_ylabel("times that the run reads the domain")
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    return figure
