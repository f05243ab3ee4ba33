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
    x, y = np.array(results["bias"]["epsilon"]), np.array(results["bias"]["relative_error"])
    left.loglog(x, y, "o-", ms=3, color=INK, label=f"measured, slope {results['bias_slope']:.2f}")
    anchor = int(np.argmin(np.abs(np.log(y) - np.log(1e-4))))
    left.loglog(x, y[anchor] * (x / x[anchor]) ** 2, ":", color=FAINT, label="theory, slope 2")
    left.set_ylim(y.min() / 3, 3)
    left.set_xlabel("step eps of the finite difference")
    left.set_ylabel("relative error of g")
    panel(left, "a", "finite difference, float64")
    x = np.array(results["stationarity"]["steps"])
    y = np.array(results["stationarity"]["mean_squared_gradient"])
    slope = results["stationarity_slope"]
    right.loglog(x, y, "o-", ms=3, color=INK, label=f"measured, slope {slope:.2f}")
    right.loglog(x, y[0] * (x / x[0]) ** -0.5, ":", color=FAINT, label="theory's bound, slope -1/2")
    right.set_xlabel("steps T, of size 1 / sqrt(T)")
    right.set_ylabel("mean squared gradient")
    panel(right, "b", "approach to a stationary point")
    for axes in (left, right):
        axes.legend()
    return figure


if __name__ == "__main__":
    figure_main(draw, "convergence_rates", "convergence.json")
