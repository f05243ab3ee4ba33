"""Pictures of a mixture: every weight with its interval, and draws of three weights in a triangle;
and the domains' colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bydore_pyro import terminal
from bydore_pyro.mixture import Mixture, Sums, interval_of, shown_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORT = 36  # characters of a name
SUM = "0.25"  # of the sums of several domains, grey

CORNERS = np.array([[0.5, 0.75**0.5], [0.0, 0.0], [1.0, 0.0]])  # where one weight of three is 1
MOST_POINTS = 500  # of one kind of draws in a triangle
TICKS = (0.2, 0.4, 0.6, 0.8)

# Matplotlib's ten, then those that lie farthest from all before them in Oklab, colour weighing
# more than lightness, among those that are neither too pale for white paper nor near black.
PALETTE = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
    "#0000ff",
    "#003c00",
    "#4b005a",
    "#d200ff",
    "#a50078",
    "#b4b4f0",
    "#00e100",
    "#5a0f00",
    "#d2b496",
    "#001e87",
)


def domain_colours(names: Sequence[str]) -> dict[str, str]:
    """Returns a colour (``#rrggbb``) for each name, in sorted order; beyond ``len(PALETTE)`` names
    colours come twice."""
    return {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(sorted(names))}


def picture_label(name: str, most: int = SHORT) -> str:
    """Returns a user's name as pictures show it: without mathematics or what turns text around, and
    at most so many characters, cut in the middle: paths differ at their ends."""
    text = terminal.visible(name)
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[1 - most // 2 :]}"
    return text.replace("$", r"\$")


def plot_weights(mixture: Mixture, sums: Sums | None = None) -> Figure:
    """Draws the weight of every domain and its interval, the largest on top; of many domains the
    largest, and as squares the sums of branches and of the rest (`shown_rows`).

    All of a row has one gid, its numbers in words, which a page shows under the mouse.

    Args:
        mixture: The weights, shares of training tokens; intervals are drawn where it has any, and
            weights free of caps, hollow.
        sums: Intervals of the sums, where they are known.
    """
    from matplotlib.figure import Figure

    names, colours = mixture.names, domain_colours(mixture.names)
    rows = shown_rows(names, mixture.weights)
    figure = Figure(figsize=(7, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes, most = figure.subplots(), 0.0
    axes.set_yticks(range(len(rows)), [picture_label(row.name) for row in rows])
    interval = f"{100 * mixture.hdi_probability:.0f} % interval"
    for height, (row, label) in enumerate(zip(rows, axes.get_yticklabels(), strict=True)):
        single, ends = row.kind == "domain", interval_of(mixture, row, sums)
        colour = colours[row.name] if single else SUM
        total = sum(mixture.weights[k] for k in row.places)
        free = mixture.free_weights and sum(mixture.free_weights[k] for k in row.places)
        caption = f"{terminal.visible(row.name)}: {total:.4f}"
        caption += "" if free is None else f", free of caps {free:.4f}"
        caption += "" if ends is None else f", {interval} {ends[0]:.4f} to {ends[1]:.4f}"
        if ends is not None:
            axes.plot(
                ends,
                [height] * 2,
                color=colour,
                gid=caption,
                linewidth=5,
                alpha=0.5,
                solid_capstyle="butt",
            )
        for values, face in ((free, "white"), (total, colour)):
            if values is not None:
                axes.plot(
                    values,
                    height,
                    "o" if single else "s",
                    color=colour,
                    gid=caption,
                    markersize=6,
                    markerfacecolor=face,
                )
        label.set(gid=caption, fontweight="normal" if single else "bold")
        if row.kind != "rest":
            most = max(most, total, free or 0.0, *(ends or ()))
    axes.axvline(1 / len(names), color="0.6", linestyle=":", zorder=0)
    axes.set_ylim(len(rows) - 0.2, -0.8)
    right = min(1.01, 1.05 * most)
    axes.set_xlim(-0.01 * most, right)
    if total > right:  # the rest, drawn last, which would make all others small
        axes.text(right, height, f"{total:.2f} ▶", ha="right", va="center", color=SUM, gid=caption)
    axes.set_xlabel("weight, share of training tokens")
    intervals = "" if mixture.hdi is None else f", with {interval}s"
    signs = ["dotted: equal shares"]
    signs += [] if mixture.free_weights is None else ["hollow: free of caps"]
    signs += ["squares: sums"] if any(row.kind != "domain" for row in rows) else []
    figure.suptitle(f"The weights{intervals}\n{'; '.join(signs)}", fontsize=10)
    return figure


def plot_triangle(
    draws: Mapping[str, np.ndarray],
    names: Sequence[str],
    marks: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Draws three weights as points of a triangle: at a corner, the weight of its domain is 1.

    The grid's lines are equal weights of one domain. Their ticks stand, in its colour, at the side
    that leads to its corner. Of many draws every so manieth is shown.

    Args:
        draws: Weights ``(D, 3)``, each row of sum 1, by what they are.
        names: The three domains.
        marks: Single weights ``(3,)``, likewise.

    Raises:
        ValueError: When there are not three names.
    """
    if len(names) != 3:
        raise ValueError(f"Expected three names, actual {len(names)}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.6), layout="constrained")
    axes, colours = figure.subplots(), domain_colours(names)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.fill(*CORNERS.T, facecolor="none", edgecolor="0.4", linewidth=0.8)
    for place, name in enumerate(names):
        corner, after, before = (CORNERS[(place + k) % 3] for k in range(3))
        for tick in TICKS:
            ends = tick * corner + (1 - tick) * np.stack([after, before])
            axes.plot(*ends.T, color="0.9", linewidth=0.8, zorder=0)
            axes.annotate(
                f"{tick:g}",
                ends[0],
                _away(ends[0] - ends[1], 8),
                ha="center",
                va="center",
                textcoords="offset points",
                fontsize=7,
                color=colours[name],
            )
        axes.annotate(
            picture_label(name),
            corner,
            _away(corner - CORNERS.mean(0), 14),
            ha="center",
            va="center",
            textcoords="offset points",
            color=colours[name],
            gid=terminal.visible(name),
        )
    for place, (kind, values) in enumerate(draws.items()):
        points = values[:: -(-len(values) // MOST_POINTS)] @ CORNERS
        colour = PALETTE[len(names) + place]  # those before are the domains'
        axes.scatter(
            points[:, 0], points[:, 1], s=6, alpha=0.4, linewidths=0, color=colour, label=kind
        )
    for sign, (kind, weights) in zip("*XPD", (marks or {}).items(), strict=False):
        shares = ", ".join(
            f"{terminal.visible(n)} {x:.4f}" for n, x in zip(names, weights, strict=True)
        )
        axes.plot(
            *(np.asarray(weights) @ CORNERS),
            sign,
            color="black",
            markersize=9,
            markeredgecolor="white",
            label=kind,
            gid=f"{kind}: {shares}",
        )
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def _away(direction: np.ndarray, points: float) -> tuple[float, float]:
    """Returns an offset of so many points in a direction."""
    x, y = points * direction / np.linalg.norm(direction)
    return float(x), float(y)
