"""The ablation: weights of the posterior beside points on the simplex, over the steps of a search.

Shows what `experiments/probabilistic.py` left (the paper's Figs. "motivation" and
"weight_sensitivity").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import PAGE, domain_legend, draw_weights, figure_main, panel

LABELS = {
    "bayesian": "the posterior's mean",
    "point": "a point, same network",
    "exponentiated": "a point, DoReMi's update",
}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws a panel for each learner."""
    import matplotlib.pyplot as plt

    learners = results["learners"]
    figure, panels = plt.subplots(
        1, len(LABELS), figsize=(PAGE, 2.9), sharey=True, layout="constrained"
    )
    panels[0].set_ylim(0, 1)
    for axes, letter, (name, label) in zip(panels, "abc", LABELS.items(), strict=True):
        row = learners[name]
        draw_weights(axes, np.array(row["trajectory"]), list(row["weights"]), labelled=1.0)
        fresh = row["validation_loss_of_a_fresh_model"]
        told = f"jitter {row['jitter_second_half']:.4f}\nfresh model {fresh:.3f}"
        panel(axes, letter, f"{label}\n{told}")
    panels[0].set_ylabel("weight (share of training tokens)")
    domain_legend(figure, list(learners["bayesian"]["weights"]))
    return figure


if __name__ == "__main__":
    figure_main(draw, "point_estimate", "probabilistic.json")
