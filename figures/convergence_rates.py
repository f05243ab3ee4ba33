"""The two rates of the convergence theorem, measured.

Shows what `experiments/convergence.py` left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import FAINT, INK, PAGE, figure_main, panel


def draw(results: Mapping[str, Any]) -> Any:
    """Draws the error of g over eps and the squared gradient over T, and the theory's slopes."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE * 0.86, 2.6), layout="constrained")
    for (name, found), marker, colour in zip(
        results["problems"].items(), ("o", "s"), (INK, "tab:orange"), strict=True
    ):
        shown = {"color": colour, "ms": 3, "lw": 1}
        x, y = (np.array(found["bias"][key]) for key in ("epsilon", "relative_error"))
        label = f"{name}, slope {found['bias']['slope']:.2f}"
        left.loglog(x, y, f"{marker}-", label=label, **shown)
        x, y = x[np.argmin(y) :], y[np.argmin(y) :]  # where truncation errs, not round-off
        anchor = int(np.argmin(np.abs(np.log(y / 1e-3))))
        left.loglog(x, y[anchor] * (x / x[anchor]) ** 2, ":", color=FAINT)
        x, y = (np.array(found["stationarity"][k]) for k in ("steps", "mean_squared_gradient"))
        label = f"{name}, slope {found['stationarity']['slope']:.2f}"
        right.loglog(x, y, f"{marker}-", label=label, **shown)
        right.loglog(x, y[0] * (x / x[0]) ** -0.5, ":", color=FAINT)
    left.plot([], [], ":", color=FAINT, label="theory, slope 2")
    right.plot([], [], ":", color=FAINT, label="theory's bound, slope -1/2")
    left.set_ylim(top=1e4)  # room for the legend
    left.set_xlabel("step eps of the finite difference")
    left.set_ylabel("relative error of g")
    panel(left, "a", "finite difference")
    right.set_ylim(top=3 * right.get_ylim()[1])
    right.set_xlabel("steps T, of size 1 / sqrt(T)")
    right.set_ylabel("mean squared gradient")
    panel(right, "b", "approach to a stationary point")
    for axes in (left, right):
        axes.legend(loc="upper left" if axes is left else "upper right")
    return figure


if __name__ == "__main__":
    figure_main(draw, "convergence_rates", "convergence.json")
