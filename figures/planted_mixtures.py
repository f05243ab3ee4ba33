"""Planted mixtures: what is learned against what was planted.

Shows what `experiments/plants.py` left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import FAINT, PAGE, domain_legend, figure_main, panel

from bydore_pyro.answer import domain_colours

MARKS = "osDv^<>PX*"


def draw(content: Mapping[str, Any]) -> Any:
    """Draws a mark for every domain of every plant, and the plants' distances."""
    import matplotlib.pyplot as plt

    results = content["plants"]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(PAGE, 2.9), layout="constrained", width_ratios=(1, 1.1)
    )
    names = sorted({name for row in results for name in row["weights"]})
    colours = domain_colours(names)
    for place, row in enumerate(results):
        for name in names:
            planted, learned = row["shares"].get(name, 0.0), row["weights"][name]
            mark = MARKS[place % len(MARKS)]
            size = 22 if planted else 8
            left.scatter(planted, learned, s=size, marker=mark, color=colours[name], linewidth=0)
    left.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, zorder=0)
    top = 1.08 * max(max(r[key].values()) for r in results for key in ("shares", "weights"))
    left.set(xlim=(-0.02, top), ylim=(-0.02, top))
    left.set_xlabel("planted weight")
    left.set_ylabel("learned weight")
    panel(left, "a", "every domain; a mark for each plant")
    x = np.arange(len(results))
    bars = (
        ("total_variation", "learned", {"color": "0.35"}),
        (
            "total_variation_alike_merged",
            "alike domains taken together",
            {"color": "white", "edgecolor": "0.35", "hatch": "////"},
        ),
    )
    for place, (key, label, style) in enumerate(bars):
        right.bar(x + 0.4 * (place - 0.5), [r[key] for r in results], 0.37, label=label, **style)
    right.set_xticks(x, [str(row["plant"]) for row in results], fontsize=min(8, 100 / len(x)))
    right.set_xlabel("plant")
    right.set_ylabel("total variation")
    right.margins(y=0.45)
    right.legend(loc="upper left")
    panel(right, "b", "distance of the weights")
    domain_legend(figure, names)
    return figure


if __name__ == "__main__":
    figure_main(draw, "planted_mixtures", "plants.json")
