"""DoReMi beside Algorithm 1: the weights over the steps, on the same text, proxy and budget.

Shows what `experiments/compare.py` left (the paper's Fig. 2). DoReMi's result is the
average of its path, Algorithm 1's that of the second half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from study_figure import figure_main, weight_panels

TARGETS = {"planted": "planted", "all": "all domains"}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws DoReMi, which knows no target, and Algorithm 1 for two of them."""
    found = {label: results["targets"][name]["methods"] for name, label in TARGETS.items()}
    rows = [("DoReMi", next(iter(found.values()))["doremi"])]
    rows += [
        (f"Algorithm 1, {label}", methods["bydore_linear"]) for label, methods in found.items()
    ]
    return weight_panels(
        [(f"{label}\njitter {row['jitter_second_half']:.4f}", row) for label, row in rows]
    )


if __name__ == "__main__":
    figure_main(draw, "trajectories", "compare.json")
