"""The ablation: weights of the posterior beside points on the simplex, over the steps of a search.

Shows what `experiments/probabilistic.py` left (the paper's Figs. 2 and 4a).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from study_figure import figure_main, weight_panels

LABELS = {
    "bayesian": "the posterior's mean",
    "point": "a point, same network",
    "exponentiated": "a point, DoReMi's update",
}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws a panel for each learner."""
    rows = []
    for name, label in LABELS.items():
        row = results["learners"][name]
        fresh = row["validation_loss_of_a_fresh_model"]
        told = f"jitter {row['jitter_second_half']:.4f}\nfresh model {fresh:.3f}"
        rows.append((f"{label}\n{told}", row))
    return weight_panels(rows)


if __name__ == "__main__":
    figure_main(draw, "point_estimate", "probabilistic.json")
