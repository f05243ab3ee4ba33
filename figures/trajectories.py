"""DoReMi beside ByDoRe: the weights over the steps, on the same text, proxy and budget.

Shows what `experiments/compare.py` left (the paper's Fig. "motivation"). DoReMi's result is the
average of its path, ByDoRe's that of the second half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import PAGE, domain_legend, draw_weights, figure_main, panel

TARGETS = {"case1": "Case 1", "planted": "planted"}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws DoReMi, which knows no target, and ByDoRe for two of them."""
    import matplotlib.pyplot as plt

    found = {name: results["targets"][name]["methods"] for name in TARGETS}
    first = next(iter(found.values()))
    rows = [("DoReMi", first["doremi"])]
    rows += [(f"ByDoRe, {TARGETS[name]}", methods["bydore"]) for name, methods in found.items()]
    figure, panels = plt.subplots(
        1, len(rows), figsize=(PAGE, 2.8), sharey=True, layout="constrained"
    )
    panels[0].set_ylim(0, 1)
    for axes, letter, (label, row) in zip(panels, "abc", rows, strict=True):
        draw_weights(axes, np.array(row["trajectory"]), list(row["weights"]), labelled=1.0)
        panel(axes, letter, f"{label}\njitter {row['jitter_second_half']:.4f}")
    panels[0].set_ylabel("weight (share of training tokens)")
    domain_legend(figure, list(first["bydore"]["weights"]))
    return figure


if __name__ == "__main__":
    figure_main(draw, "trajectories", "compare.json")
