"""The framework: from losses to weights to batches, and back by the hypergradient.

Drawn by code, from no results (the paper's Fig. "framework_overview").
"""

from __future__ import annotations

from typing import Any

from study_figure import PAGE, figure_main

BOX, NET, DATA = "#e8eef7", "#fdf0e1", "#eaf5ea"
BACK = "#b3400a"


def draw(_: None) -> Any:
    """Draws boxes for what is computed, and arrows for what feeds it."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(PAGE, 3.0), layout="constrained")
    axes.set(xlim=(0, 14), ylim=(0.3, 6.1))
    axes.axis("off")

    upper, lower, height = 3.9, 0.6, 1.5
    words = {
        (0.1, upper, 2.2, DATA): "signals s: losses\nof the K domains,\nnats per token",
        (3.1, upper, 2.5, NET): "prior network\nTransformer over\nthe K domains, Φ",
        (6.4, upper, 2.5, BOX): "$\\beta_k \\sim$ Gamma$(a_k, b_k)$\nconcentrations",
        (9.7, upper, 2.5, BOX): "$w \\sim$ Dirichlet$(\\beta)$\nthe K weights",
        (9.7, lower, 2.5, DATA): "n sequences,\n$n_k \\approx n\\, w_k$ of domain k",
        (6.4, lower, 2.5, NET): "proxy model: one\ntraining step of $\\theta$",
        (3.1, lower, 2.5, BOX): "hypergradient\n$g = -\\,\\partial L_{val} / \\partial w$",
        (0.1, lower, 2.2, DATA): "validation text\n(what the model\nis to be good at)",
    }
    for (x, y, width, colour), text in words.items():
        box(axes, x, y, width, height, text, colour)

    for start, end in (((2.3, 4.65), (3.1, 4.65)), ((8.9, 4.65), (9.7, 4.65)),
                       ((9.7, 1.35), (8.9, 1.35)), ((6.4, 1.35), (5.6, 1.35)),
                       ((2.3, 1.35), (3.1, 1.35)), ((3.4, 2.1), (1.3, 3.9))):  # fmt: skip
        arrow(axes, start, end)
    arrow(axes, (5.6, 4.65), (6.4, 4.65), "a, b")
    arrow(axes, (10.95, 3.9), (10.95, 2.1), "draw")
    step = "step of SVI on\n$-g \\cdot E_q[w] + \\lambda\\, KL(q\\,\\|\\,p)$"
    arrow(axes, (4.35, 2.1), (4.35, 3.9), step, BACK)
    axes.text(0.1, 2.95, "losses of\nthe domains", va="center", color="0.25")
    axes.text(12.35, 4.65, "out:\nweights with\nuncertainty\n(mean, HDI)", va="center")
    axes.text(7.65, 5.75, "guide q(w)", ha="center", style="italic")
    axes.plot([3.0, 3.0, 12.3, 12.3], [5.45, 5.6, 5.6, 5.45], color="0.4", linewidth=0.9)
    return figure


def box(axes: Any, x: float, y: float, width: float, height: float, text: str, colour: str) -> None:
    """Draws a box with its text."""
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.12")
    shape.set(facecolor=colour, edgecolor="0.35", linewidth=0.9)
    axes.add_patch(shape)
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center")


def arrow(
    axes: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    colour: str = "0.25",
) -> None:
    """Draws an arrow, with words beside its middle."""
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", end, start, arrowprops=style)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    if start[0] == end[0]:
        axes.text(x + 0.12, y, text, ha="left", va="center", color=colour)
    else:
        axes.text(x, y + 0.12, text, ha="center", va="bottom", color=colour)


if __name__ == "__main__":
    figure_main(draw, "framework")
