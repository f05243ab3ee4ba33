"""How many runs the adaptive design needs, beside the fixed one.

Shows what `experiments/adaptive.py` left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import COLUMN, FAINT, INK, figure_main, panel

OWN = "tab:orange"
LOOKS: dict[str, dict[str, Any]] = {
    "adaptive": {"color": OWN, "marker": "o"},
    "fixed": {"color": INK, "marker": "s"},
    "fixed, best measured": {"color": FAINT, "linestyle": ":"},
}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws the mean regret over the number of runs for each target, with standard errors."""
    import matplotlib.pyplot as plt

    targets = results["targets"]
    figure, panels = plt.subplots(
        *(1, len(targets)),
        figsize=(COLUMN * len(targets), 2.5),
        layout="constrained",
        squeeze=False,
    )
    for axes, letter, (target, found) in zip(panels[0], "abcdefgh", targets.items(), strict=False):
        curves = {name: found["curves"][name] for name in LOOKS}
        last = max(n for name in ("adaptive", "fixed") for n in curves[name]["runs"])
        first = curves["adaptive"]["runs"][0]
        for name, curve in curves.items():
            runs, mean = np.array(curve["runs"]), np.array(curve["mean"])
            shown = (first <= runs) & (runs <= last)
            axes.plot(runs[shown], mean[shown], label=name, markersize=2.5, **LOOKS[name])
            if "standard_error" in curve:
                error = np.array(curve["standard_error"])
                band = (np.maximum(mean - error, 0), mean + error)
                axes.fill_between(runs, *band, color=LOOKS[name]["color"], alpha=0.2, linewidth=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("measured runs")
        panel(axes, letter, target)
    panels[0][0].set_ylabel("regret (nats per token)")
    panels[0][0].legend()
    return figure


if __name__ == "__main__":
    figure_main(draw, "adaptive_design", "adaptive.json")
