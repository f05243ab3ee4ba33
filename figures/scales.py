"""Does a small proxy's mixture serve a larger model? Each mixture's loss above the best, by size.

Shows what `experiments/scales.py` left.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from string import ascii_lowercase
from typing import Any

from study_figure import INK, PAGE, figure_main, label_ends, panel

OWN = "#d55e00"
SHIFT = 0.003  # nats per token: the axis is logarithmic above it
TICKS = (0, 0.01, 0.03, 0.1, 0.3, 1, 3)


def draw(results: Mapping[str, Any]) -> Any:
    """Draws a panel for each target: a line for each mixture, from the small model to the largest;
    lower is better."""
    import matplotlib.pyplot as plt

    losses, sizes = results["losses"], results["sizes"]
    figure, panels = plt.subplots(
        1, len(losses), figsize=(PAGE, 3.4), layout="constrained", squeeze=False, sharey=True
    )
    for axes, letter, (target, of) in zip(panels[0], ascii_lowercase, losses.items(), strict=False):
        models = list(of)
        means = {m: {k: statistics.mean(v) for k, v in own.items()} for m, own in of.items()}
        best = {m: min(own.values()) for m, own in means.items()}
        ends, colours = {}, {}
        for label in means[models[0]]:
            above = [height(means[m][label] - best[m]) for m in models]
            colours[label] = OWN if label.startswith("bydore") else INK
            axes.plot(range(len(models)), above, "o-", ms=3, color=colours[label])
            ends[label] = above[-1]
        axes.set_yticks([height(tick) for tick in TICKS], [f"{tick:g}" for tick in TICKS])
        axes.set_xticks(range(len(models)), [f"x {sizes[m]['times']:.3g}" for m in models])
        axes.grid(axis="y", color="0.92")
        axes.set_xlabel("size of the model")
        last = results["ranks"][target][models[-1]]["spearman"]
        told = "" if last is None else f", rank correlation {last:.2f}"
        panel(axes, letter, f"{target.replace('_', ' ')}{told}")
        label_ends(axes, len(models) - 1, ends, colours)
    panels[0][0].set_ylabel("loss above the best mixture's\n(nats per token)")
    return figure


def height(above: float) -> float:
    """Where a loss above the best is drawn: near zero linear, then logarithmic."""
    return math.log1p(above / SHIFT)


if __name__ == "__main__":
    figure_main(draw, "scales", "scales.json")
