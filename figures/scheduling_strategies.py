"""The four scheduling strategies: validation loss over the steps of a search.

Shows what `experiments/scheduling.py` left (the paper's Fig. 4b).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import COLUMN, DASHES, figure_main

COLOURS = ("#0072b2", "#d55e00", "#000000", "#009e73")
LABELS = {
    "intra_sampling": "(i) intra-batch sampling",
    "inter_sampling": "(ii) inter-batch sampling",
    "intra_weighting": "(iii) intra-batch weighting",
    "inter_weighting": "(iv) inter-batch weighting",
}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws the running means of a twentieth of the run."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(COLUMN * 1.25, 2.9), layout="constrained")
    for (name, label), dashes, colour in zip(LABELS.items(), DASHES, COLOURS, strict=True):
        row = results["strategies"][name]
        losses = np.array(row["validation_losses"])
        window = max(1, len(losses) // 20)
        smooth = np.convolve(losses, np.ones(window) / window, "valid")
        end = row["validation_loss_of_the_proxy"]
        steps = np.arange(len(smooth)) + window
        axes.plot(steps, smooth, color=colour, linestyle=dashes, label=f"{label}: {end:.2f}")
    axes.set_xlabel("step of the search")
    axes.set_ylabel("validation loss (nats per token)")
    axes.legend(title="strategy: loss on the whole set at the end", title_fontsize=7.5)
    return figure


if __name__ == "__main__":
    figure_main(draw, "scheduling_strategies", "scheduling.json")
