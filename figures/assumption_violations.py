"""Do small runs tell what large ones find? Ranks and power laws, on two scales.

Shows what `experiments/assumptions.py` left (the paper's Fig. 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter
from study_figure import FAINT, PAGE, domain_legend, domain_lines, figure_main, panel

LAWS = 3  # of the domains where a law errs most


def draw(results: Mapping[str, Any]) -> Any:
    """Draws losses of models trained on one domain each, and power laws fitted to their starts."""
    import matplotlib.pyplot as plt

    tokens, small = np.array(results["tokens"], float), results["small_scale_measurements"]
    names, losses = results["domains"], results["losses"]
    errors, laws = results["extrapolation_error"], results["foretold_by_the_laws"]
    ranks = results["ranks"]["domains alone"]
    lines = domain_lines(names)
    fitted = [name for name in names if errors[name] is not None]
    worst = sorted(fitted, key=lambda name: -abs(errors[name]))[:LAWS]
    figure, panels = plt.subplots(2, 2, figsize=(PAGE, 5.0), layout="constrained", sharex="row")
    (a, b), (c, d) = panels
    for axes, until in ((a, small), (c, len(tokens))):
        for name in names:
            axes.plot(tokens[:until], losses[name][:until], **lines[name])
    for axes, until in ((b, small), (d, len(tokens))):
        for name in worst:
            colour = lines[name]["color"]
            axes.plot(tokens[:until], losses[name][:until], "o", ms=3, color=colour)
            axes.plot(tokens[:until], laws[name][:until], "--", color=colour)
            if axes is d:
                axes.annotate(
                    f"{errors[name]:+.2f}",
                    (tokens[-1], losses[name][-1]),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    color=colour,
                    fontsize=7.5,
                    annotation_clip=False,
                )
    panel(a, "a", "ranks at a tenth of the tokens")
    panel(b, "b", "power laws fitted to that tenth (dashed)")
    panel(c, "c", f"all tokens: {ranks['reversed_pairs']} of {ranks['pairs']} pairs reversed")
    panel(d, "d", "the same laws, extrapolated; their errors")
    for axes in (a, b, c, d):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    for axes in (c, d):
        axes.axvline(tokens[small - 1], color=FAINT, linewidth=0.8, linestyle=":")
        axes.set_xlabel("training tokens")
    for axes in (a, c):
        axes.set_ylabel("validation loss (nats per token)")
    domain_legend(figure, names)
    return figure


if __name__ == "__main__":
    figure_main(draw, "assumption_violations", "assumptions.json")
