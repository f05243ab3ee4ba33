"""The posterior of the weights: how it came about, and what is known of each domain.

Shows the run folder of a search, such as `experiments/case1.py` leaves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from study_figure import FAINT, INK, PAGE, domain_lines, figure_main, label_ends, panel, plain

from bydore_pyro.errors import DataError
from bydore_pyro.files import read_as
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture
from bydore_pyro.setup import Metrics

NAMED = 0.05  # weight from which on a line bears its name
TICKS = (0, 0.01, 0.05, 0.2, 0.5, 1)


def draw(run: Path) -> Any:
    """Draws the weights by the evidence of one round, two, ..., and the result's intervals."""
    import arviz
    import matplotlib.pyplot as plt
    import xarray

    try:
        rounds = read_as(Metrics, run / "metrics.json").matching.rounds
        posterior = xarray.load_dataset(run / "posterior.nc", group="posterior", engine="h5netcdf")
    except OSError as error:
        raise DataError(f"Expected a search's run folder, found {run}: {error}") from None
    if not rounds:
        raise DataError(f"Expected a search by gradient matching, found another run: {run}")
    names = list(rounds[-1].weights)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(PAGE, 3.1), layout="constrained", width_ratios=(1.25, 1)
    )
    lines = domain_lines(names)
    path = np.array([[1 / len(names)] * len(names), *(list(r.weights.values()) for r in rounds)])
    steps = [0, *(one.step for one in rounds)]
    for place, name in enumerate(names):
        left.plot(steps, path[:, place], marker="o", markersize=3, **lines[name])
    left.set_ylim(0, 1)
    left.set_xlabel("step of the proxy at the last round")
    left.set_ylabel("weight (share of training tokens)")
    ends = {name: path[-1, k] for k, name in enumerate(names) if path[-1, k] >= NAMED}
    label_ends(left, steps[-1], ends, {name: lines[name]["color"] for name in ends})
    panel(left, "a", "most likely weights by the rounds so far")

    name = "composition" if "composition" in posterior else "w"
    draws = posterior[name]
    found = Mixture.from_json(run / "mixture.json").as_dict()
    weight = np.array([found[name] for name in names])
    median = draws.median(("chain", "draw")).values
    quarters = draws.quantile((0.25, 0.75), ("chain", "draw")).values
    interval = arviz.hdi(posterior[[name]], HDI_PROBABILITY)[name].values
    order = np.argsort(weight)
    for row, place in enumerate(order):
        colour = lines[names[place]]["color"]
        right.plot(interval[place], [row, row], color=colour, linewidth=1.2)
        right.plot(quarters[:, place], [row, row], color=colour, linewidth=3.2)
        right.plot(median[place], row, "o", color="white", mec=colour, ms=4, zorder=3)
        right.plot(weight[place], row, "D", color=INK, ms=2.5, zorder=4)
    right.axvline(1 / len(names), color=FAINT, linewidth=0.8, linestyle=":")
    right.set_yticks(range(len(names)), [plain(names[place]) for place in order])
    right.set_xscale("function", functions=(np.sqrt, np.square))
    right.set_xlim(0, 1)
    right.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    right.set_xlabel("weight, root scale (dotted: uniform)")
    panel(right, "b", f"weight (diamond), {HDI_PROBABILITY:.0%} HDI")
    return figure


if __name__ == "__main__":
    figure_main(draw, "posterior", "case1")
