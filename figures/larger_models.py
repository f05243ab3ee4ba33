"""Does a small proxy's mixture serve a larger model? Each mixture's loss above the best, by size.

Shows what `experiments/scales.py` left.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from string import ascii_lowercase
from typing import Any

from comparison import title
from study_figure import INK, OWN, PAGE, figure_main, label_ends, panel


def draw(results: Mapping[str, Any]) -> Any:
    """Draws a panel for each target: a line for each mixture, from the small model to the largest;
    lower is better."""
    import matplotlib.pyplot as plt

    losses, sizes = results["losses"], results["sizes"]
    figure, panels = plt.subplots(
        1, len(losses), figsize=(PAGE, 3.6), layout="constrained", squeeze=False
    )
    for axes, letter, (target, of) in zip(panels[0], ascii_lowercase, losses.items(), strict=False):
        models = list(of)
        means = {m: {k: statistics.mean(v) for k, v in own.items()} for m, own in of.items()}
        best = {m: min(own.values()) for m, own in means.items()}
        ends, colours = {}, {}
        for label in means[models[0]]:
            above = [means[m][label] - best[m] for m in models]
            colours[label] = OWN if label.startswith("bydore") else INK
            axes.plot(above, "o-", ms=3, lw=1, color=colours[label], clip_on=False)
            ends[label] = above[-1]
        axes.set_xticks(range(len(models)), [f"x {sizes[m]['times']:.3g}" for m in models])
        axes.margins(y=0.16)  # names of the best stand below their ends
        axes.set_xlim(-0.08, len(models) - 1)
        axes.grid(axis="y", color="0.92")
        axes.set_xlabel("size of the model")
        last = results["ranks"][target][models[-1]]["spearman"]
        told = "" if last is None else f"\nrank correlation {last:.2f}"
        panel(axes, letter, f"{title(target)}{told}")
        label_ends(axes, len(models) - 1, ends, colours)
    panels[0][0].set_ylabel("loss above the best mixture's\n(nats per token)")
    return figure


if __name__ == "__main__":
    figure_main(draw, "larger_models", "scales_x16.json")
