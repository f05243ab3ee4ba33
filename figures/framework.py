"""The framework: rounds of gradient matching, and below them a step of the paper's Algorithm 1.

Drawn by code, from no results (the paper's Fig. 3 shows the second).
"""

from __future__ import annotations

from typing import Any

from study_figure import PAGE, figure_main

BOX, NET, DATA = "#e8eef7", "#fdf0e1", "#eaf5ea"
BACK = "#b3400a"
HEIGHT = 1.5  # of a box


def draw(_: None) -> Any:
    """Draws boxes for what is computed, and arrows for what feeds it."""
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(PAGE, 5.9), layout="constrained", height_ratios=(5.4, 6.1)
    )
    for axes, lowest, highest in ((above, 0.3, 5.8), (below, 0.3, 6.4)):
        axes.set(xlim=(0, 14.4), ylim=(lowest, highest))
        axes.axis("off")
    draw_rounds(above)
    draw_step(below)
    return figure


def draw_rounds(axes: Any) -> None:
    """Draws a round of a search by gradient matching."""
    upper, lower = 3.3, 0.6
    words = {
        (0.1, upper, 2.5, NET): "proxy model trains\non equal weights,\nknowing no target",
        (3.5, upper, 2.7, DATA): "gradients at fixed $\\theta$:\n$m_k$ of each domain;\n"
        "$m$ of a target, later",
        (7.1, upper, 2.7, BOX): "the match, $u = s\\,w$:\n"
        "min$_{u \\geq 0}\\,\\|\\,m - \\sum_k u_k m_k\\|^2$",
        (10.7, upper, 2.9, BOX): "how surely? scatter\nof the documents:\n$\\Lambda = A\\,B^{-1}A$",
        (10.7, lower, 2.9, NET): "branches, at the end:\nmore steps on one\ndomain; responses",
        (7.1, lower, 2.7, BOX): "exact draws of $w$, $s$;\na GammaDirichlet\nis fitted to them",
        (3.5, lower, 2.7, NET): "the law of losses\ndecides; check\non fresh text",
    }
    for (x, y, width, colour), text in words.items():
        box(axes, x, y, width, HEIGHT, text, colour)
    middle, bottom = upper + HEIGHT / 2, lower + HEIGHT / 2
    arrow(axes, (2.6, middle), (3.5, middle))
    arrow(axes, (6.2, middle), (7.1, middle))
    arrow(axes, (9.8, middle), (10.7, middle))
    arrow(axes, (12.15, upper), (12.15, lower + HEIGHT))
    arrow(axes, (10.7, bottom), (9.8, bottom))
    axes.text(12.3, 2.7, "the evidence of all\nrounds is added", va="center", color="0.25")
    arrow(axes, (7.1, bottom), (6.2, bottom), "end")
    corner(axes, (4.85, upper), (4.85, 2.7), (1.35, 2.7), (1.35, upper), colour=BACK)
    axes.text(3.1, 2.8, "next round: train on", va="bottom", ha="center", color=BACK)
    arrow(axes, (3.5, bottom), (2.75, bottom))
    axes.text(
        0.1,
        bottom,
        "out: weights with\nintervals, share of the\ntarget unexplained",
        va="center",
    )
    axes.text(0.1, 5.35, "(a) gradient matching, in a few rounds", va="center", style="italic")


def draw_step(axes: Any) -> None:
    """Draws a step of Algorithm 1."""
    upper, lower = 3.9, 0.6
    words = {
        (0.1, upper, 2.2, DATA): "signals: losses\nof the K domains,\nnats per token",
        (3.1, upper, 2.5, NET): "prior network\nTransformer over\nthe K domains, Φ",
        (6.4, upper, 2.5, BOX): "$\\beta_k \\sim$ Gamma$(a_k, b_k)$\nconcentrations",
        (9.7, upper, 2.5, BOX): "$w \\sim$ Dirichlet$(\\beta)$\nthe K weights",
        (9.7, lower, 2.5, DATA): "n sequences:\n$n_k \\approx n\\, w_k$\nof domain k",
        (6.4, lower, 2.5, NET): "proxy model: one\ntraining step of $\\theta$",
        (3.1, lower, 2.5, BOX): "hypergradient\n$g = -\\,\\partial L_{val} / \\partial w$",
        (0.1, lower, 2.2, DATA): "validation text\n(what the model\nis to be good at)",
    }
    for (x, y, width, colour), text in words.items():
        box(axes, x, y, width, HEIGHT, text, colour)

    for start, end in (
        ((2.3, 4.65), (3.1, 4.65)),
        ((8.9, 4.65), (9.7, 4.65)),
        ((9.7, 1.35), (8.9, 1.35)),
        ((6.4, 1.35), (5.6, 1.35)),
        ((2.3, 1.35), (3.1, 1.35)),
        ((3.4, 2.1), (1.3, 3.9)),
    ):
        arrow(axes, start, end)
    arrow(axes, (5.6, 4.65), (6.4, 4.65), "a, b")
    arrow(axes, (10.95, 3.9), (10.95, 2.1), "draw")
    step = "step of SVI on\n$-g \\cdot E_q[w] + \\lambda\\, KL(q\\,\\|\\,p)$"
    arrow(axes, (4.35, 2.1), (4.35, 3.9), step, BACK)
    axes.text(0.1, 2.95, "losses of\nthe domains", va="center", color="0.25")
    axes.text(12.35, 4.65, "out: average\nover the\nsecond half", va="center")
    axes.text(7.65, 5.75, "guide q(w)", ha="center", style="italic")
    axes.plot([3.0, 3.0, 12.3, 12.3], [5.45, 5.6, 5.6, 5.45], color="0.4", linewidth=0.9)
    axes.text(
        0.1,
        6.2,
        "(b) linear evidence, a step at a time: the paper's Algorithm 1",
        va="center",
        style="italic",
    )


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


def corner(axes: Any, *points: tuple[float, float], colour: str = "0.25") -> None:
    """Draws an arrow round corners."""
    xs, ys = zip(*points[:-1], strict=True)
    axes.plot(xs, ys, color=colour, linewidth=1.1, solid_capstyle="butt")
    arrow(axes, points[-2], points[-1], colour=colour)


if __name__ == "__main__":
    figure_main(draw, "framework")
