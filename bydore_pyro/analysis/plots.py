"""Pictures of a search: labelled data in, a matplotlib figure out; nothing is saved here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bydore_pyro.analysis.colours import domain_colours
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture

if TYPE_CHECKING:
    import arviz
    import xarray
    from matplotlib.figure import Figure


__all__ = [
    "plain",
    "plot_lengths",
    "plot_posterior",
    "plot_trajectory",
]

MOST_BANDS = 4  # intervals of the largest weights over lengths; more would hide one another


def plot_posterior(
    posterior: arviz.InferenceData, weights: Mapping[str, float] | None = None
) -> Figure:
    """Draws median, quartiles and HDI of every weight, and its mean or another value.

    Args:
        posterior: Draws of ``w``.
        weights: What is marked instead of the means, by domain: the result, where that is another
            point. The largest stand on top.
    """
    import arviz
    import matplotlib.pyplot as plt

    class Labeller(arviz.labels.BaseLabeller):
        def make_label_flat(self, var_name, sel, isel):  # type: ignore[no-untyped-def]
            return plain(str(sel["domain"]))

    means = posterior["posterior"]["w"].mean(("chain", "draw"))
    if weights is not None:
        means = means.copy(data=[weights[str(name)] for name in means["domain"].values])
    order = [str(name) for name in means["domain"].values[np.argsort(-means.values)]]
    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.33 * len(order)), layout="constrained")
    arviz.plot_forest(
        posterior,
        var_names=["w"],
        coords={"domain": order},
        combined=True,
        hdi_prob=HDI_PROBABILITY,
        labeller=Labeller(),
        textsize=10,
        ax=axes,
        markersize=5,
    )
    uniform = 1 / len(order)
    axes.axvline(uniform, color="0.6", linestyle=":", zorder=0)
    axes.annotate(
        "uniform", (uniform, 1), xycoords=("data", "axes fraction"), xytext=(4, -4),
        textcoords="offset points", color="0.4", fontsize=9, va="top",
    )  # fmt: skip
    axes.plot(
        np.sort(means.values)[::-1],
        np.sort(axes.get_yticks())[::-1],
        "D", color="black", markersize=4, zorder=5,
        label="mean" if weights is None else "the result",
    )  # fmt: skip
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.set_xlim(left=-0.01)
    axes.set_xlabel("weight (share of training tokens)")
    axes.set_title(
        f"Draws of the weights: median, quartiles, {HDI_PROBABILITY:.0%} HDI", fontsize=11
    )
    return figure


def plot_trajectory(
    trajectory: xarray.Dataset,
    average_from: int | None = None,
    rounds: Sequence[int] | None = None,
) -> Figure:
    """Draws the mean weight of every domain over the steps with a band of one standard deviation.

    Args:
        trajectory: Of `bydore_pyro.analysis.diagnostics.trajectory_of`.
        average_from: First step of the average that the search returns; marked where given.
        rounds: Of a search by matching, the steps after which it measured. The most likely weights
            by the rounds so far stay between them, and a point marks each.
    """
    import matplotlib.pyplot as plt

    names = [str(name) for name in trajectory["domain"].values]
    colours = domain_colours(names)
    tail = trajectory["mean"].isel(step=slice(average_from or 0, None)).mean("step").values
    if rounds:
        tail = trajectory["mean"].values[-1]
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    steps = trajectory["step"].values
    spread = trajectory.get("standard_deviation")  # none by matching
    for index in np.argsort(-tail):
        mean = trajectory["mean"].values[:, index]
        colour = colours[names[index]]
        axes.plot(
            steps,
            mean,
            color=colour,
            linewidth=1.6,
            label=f"{plain(names[index])} {tail[index]:.3f}",
            drawstyle="steps-post" if rounds else "default",
        )
        if spread is not None:
            deviation = spread.values[:, index]
            low, high = np.maximum(mean - deviation, 0), np.minimum(mean + deviation, 1)
            axes.fill_between(steps, low, high, color=colour, alpha=0.1, linewidth=0)
        for place in rounds or ():
            axes.plot(steps[place], mean[place], "o", color=colour, markersize=4)
    marks = [(steps[place], f"round {i}") for i, place in enumerate(rounds or (), start=1)]
    if average_from is not None and not rounds and len(steps):
        marks = [(steps[average_from], "averaged from here")]
    for step, word in marks:
        axes.axvline(step, color="0.5", linestyle=":", linewidth=1, zorder=0)
        axes.annotate(
            word if len(marks) < 7 else "", (step, 1), xycoords=("data", "axes fraction"),
            xytext=(-4 if rounds else 4, -4), textcoords="offset points", color="0.4",
            fontsize=9, va="top", ha="right" if rounds else "left",
        )  # fmt: skip
    axes.set_xlabel("step")
    axes.set_ylabel("weight (share of training tokens)")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    told = "E_q[w] and one standard deviation of q"
    if spread is None:
        told = "The most likely weights by the rounds so far"
    axes.set_title(told, fontsize=11)
    title = "last round" if rounds else "averaged weight"
    figure.legend(loc="outside right upper", frameon=False, fontsize=9, title=title)
    return figure


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


def plain(name: str) -> str:
    """Returns a name in which matplotlib does not read dollar signs as mathematics."""
    return name.replace("$", r"\$")
