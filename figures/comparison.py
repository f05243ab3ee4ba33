"""Every method on the same budget: the loss of fresh models on its mixture, for every target.

Shows what `experiments/compare.py` left.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

from study_figure import OWN, PAGE, figure_main, panel

TITLES = {
    "case1": "Case 1: docstrings",
    "case2": "Case 2: two domains, docstrings",
    "planted": "planted: three domains",
    "dense": "dense: four domains",
    "all": "all domains equally",
    "scarce": "three scarce domains",
    "several": "mean of three, none to train on",
    "questions": "questions, none to train on",
}
TALL = 9.0  # inches


def draw(results: Mapping[str, Any]) -> Any:
    """Draws a panel for each target; dots are seeds, diamonds means over those that all have."""
    import matplotlib.pyplot as plt

    targets = results["targets"]
    rows = -(-len(targets) // 2)
    figure, panels = plt.subplots(
        rows, 2, figsize=(PAGE, min(2.25 * rows, TALL)), layout="constrained", squeeze=False
    )
    for axes in panels.flat[len(targets) :]:
        axes.remove()
    for axes, letter, (name, result) in zip(
        panels.flat, ascii_lowercase, targets.items(), strict=False
    ):
        losses = result["losses"]
        fewest = min(map(len, losses.values()))  # seeds differ: the means are over those of all
        mean_of = {label: statistics.mean(values[:fewest]) for label, values in losses.items()}
        order = sorted(losses, key=lambda label: -mean_of[label])
        means = [mean_of[label] for label in order]
        most = edge(means)
        for row, (label, mean) in enumerate(zip(order, means, strict=True)):
            colour = OWN if label.startswith("bydore") else "0.25"
            if mean > most:  # off the scale: an arrow at its edge
                axes.plot(most, row, ">", color=colour, ms=4)
            else:
                axes.plot(losses[label], [row] * len(losses[label]), "o", color=colour, ms=2.5)
                axes.plot(mean, row, "D", color=colour, ms=3.8)
            axes.annotate(
                f"{mean:.3f}",
                (most if mean > most else max(losses[label]), row),
                fontsize=6.5,
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                color=colour,
                annotation_clip=False,
            )
        names = [label.removeprefix("the ") for label in order]
        axes.set_yticks(range(len(order)), names, fontsize=6.5)
        axes.grid(axis="x", color="0.92")
        axes.margins(x=0.14)
        panel(axes, letter, TITLES.get(name) or f"{name.partition(':')[2]}, none to train on")
    for axes in panels.flat[: len(targets)][-2:]:
        axes.set_xlabel("validation loss (nats per token)")
    return figure


def edge(means: Sequence[float]) -> float:
    """Returns where the scale ends: the largest loss that is not three times as far off as the
    others lie apart."""
    rising = sorted(means)
    if len(rising) > 2 and rising[-1] - rising[-2] > 3 * (rising[-2] - rising[0]):
        return rising[-2] + 0.3 * (rising[-2] - rising[0])
    return rising[-1]


if __name__ == "__main__":
    figure_main(draw, "comparison", "compare.json")
