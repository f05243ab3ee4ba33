"""Pictures of weights, which nothing here saves, and one colour a domain in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bydore_pyro.data import KINDS
from bydore_pyro.mixture import HDI_PROBABILITY, PILE_DOMAINS

if TYPE_CHECKING:
    import arviz
    import xarray
    from matplotlib.figure import Figure

__all__ = [
    "PALETTE",
    "domain_colours",
    "plain",
    "plot_map",
    "plot_posterior",
    "plot_trajectory",
]

# Matplotlib's ten, then those that lie farthest from all before them in Oklab, colour weighing
# more than lightness, among those that are neither too pale for white paper nor near black.
PALETTE = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#0000ff", "#003c00", "#4b005a", "#d200ff", "#a50078", "#b4b4f0",
    "#00e100", "#5a0f00", "#d2b496", "#001e87",
)  # fmt: skip
PLACES = {name: place for place, name in enumerate(sorted(KINDS))}
for _place, _name in enumerate(sorted(PILE_DOMAINS, key=PILE_DOMAINS.__getitem__)):
    PLACES[_name] = PLACES[PILE_DOMAINS[_name]] = _place
TOLD = 0.005  # weights below it have no number on a map


def domain_colours(names: Sequence[str]) -> dict[str, str]:
    """Returns a colour (``#rrggbb``) for each name.

    The kinds of the environment's text have colours of their own, and so have the Pile's domains;
    the two share them, and where both stand together the second takes another. Other names take
    the colours that are left, in sorted order; beyond ``len(PALETTE)`` names colours come twice.
    """
    taken: dict[int, str] = {}
    for name in sorted(names):
        if name in PLACES:
            taken.setdefault(PLACES[name], name)
    known = {name: place for place, name in taken.items()}
    free = [place for place in range(len(PALETTE)) if place not in taken]
    others = [name for name in sorted(names) if name not in known]
    for number, name in enumerate(others):
        known[name] = free[number] if number < len(free) else number % len(PALETTE)
    return {name: PALETTE[known[name]] for name in sorted(names)}


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


def plain(name: str) -> str:
    """Returns a name in which matplotlib does not read dollar signs as mathematics."""
    return name.replace("$", r"\$")
