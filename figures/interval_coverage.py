"""Do the intervals hold the truth?

Shows what `experiments/calibration.py` left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import FAINT, INK, PAGE, figure_main, panel

COLOURS = {"same documents": "tab:blue", "other documents": "tab:orange"}
DASHES = {"by document": "-", "shares known": (0, (5, 1.5)), "by sequence": (0, (1.2, 1.2))}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws coverage against its nominal level, and ranks less their uniform distribution."""
    import matplotlib.pyplot as plt

    figure, (left, *others) = plt.subplots(
        1, 3, figsize=(PAGE, 3.2), layout="constrained", width_ratios=(1.15, 1, 1)
    )
    cells = {
        (cell["regime"], cell["counting"]): cell
        for cell in results["cells"]
        if (cell["kind"], cell["design"]) == ("prior", "in its shares")
    }
    levels = results["levels"]
    left.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
    for regime, colour in COLOURS.items():
        for counting, dashes in DASHES.items():
            at = cells[regime, counting]["coverage"]
            found = [at[str(level)]["published"] for level in levels]
            look = {"color": colour, "linestyle": dashes, "marker": "o", "ms": 2}
            left.plot(levels, found, label=f"{regime}, {counting}", **look)
    left.set(xlim=(0, 1), ylim=(0, 1))
    left.set_xlabel("nominal level of the intervals")
    left.set_ylabel("share of the weights inside")
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=2, handlelength=4
    )
    panel(left, "a", "targets of the prior")
    points, lower, upper = (np.array(results["bands"][n]) for n in ("points", "lower", "upper"))
    for axes, letter, regime in zip(others, "bc", COLOURS, strict=True):
        axes.fill_between(points, lower - points, upper - points, color="0.88", linewidth=0)
        cell = cells[regime, "by document"]
        for own in cell["central_ranks"]:
            axes.plot(points, np.array(own) - points, color=COLOURS[regime], linewidth=0.6)
        known = np.mean(cells[regime, "shares known"]["central_ranks"], axis=0)
        mean = np.mean(cell["central_ranks"], axis=0)
        axes.plot(points, mean - points, color=INK)
        axes.plot(points, known - points, color=INK, linestyle=DASHES["shares known"])
        axes.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
        axes.set(xlim=(0, 1))
        axes.set_xlabel("mass of the central interval")
        panel(axes, letter, regime)
    ends = [axes.get_ylim() for axes in others]
    for axes in others:
        axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
    others[0].set_ylabel("share inside, less the mass")
    return figure


if __name__ == "__main__":
    figure_main(draw, "interval_coverage", "calibration.json")
