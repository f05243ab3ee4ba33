"""The first rate of the convergence theorem, measured: the error of g over its step.

Shows what `experiments/convergence.py` left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import COLUMN, FAINT, INK, figure_main


def draw(results: Mapping[str, Any]) -> Any:
    """Draws the error of g over eps, and the theory's slope."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(COLUMN * 1.2, 2.6), layout="constrained")
    for (name, found), marker, colour in zip(
        results["problems"].items(), ("o", "s"), (INK, "tab:orange"), strict=True
    ):
        x, y = (np.array(found["bias"][key]) for key in ("epsilon", "relative_error"))
        label = f"{name}, slope {found['bias']['slope']:.2f}"
        axes.loglog(x, y, f"{marker}-", label=label, color=colour, ms=3, lw=1)
        x, y = x[np.argmin(y) :], y[np.argmin(y) :]  # where truncation errs, not round-off
        anchor = int(np.argmin(np.abs(np.log(y / 1e-3))))
        axes.loglog(x, y[anchor] * (x / x[anchor]) ** 2, ":", color=FAINT)
    axes.plot([], [], ":", color=FAINT, label="theory, slope 2")
    axes.set_ylim(top=1e4)  # room for the legend
    axes.set_xlabel("step eps of the finite difference")
    axes.set_ylabel("relative error of g")
    axes.legend(loc="upper left")
    return figure


if __name__ == "__main__":
    figure_main(draw, "convergence_rates", "convergence.json")
