"""Responses of domains and of three tasks to branches; and what was predicted of proposed mixtures
beside what fresh models lose.

Shows what `experiments/task_decisions.py` left, of its first search and of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import FAINT, OWN, PAGE, figure_main, panel, plain

TASKS = ("mbpp", "gsm8k", "sciq")  # else the first three targets
WAYS = {"law": ("proposed", OWN), "natural": ("natural weights", FAINT)}


def draw(results: Mapping[str, Any]) -> Any:
    """Draws a map of responses, and predicted beside measured changes."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(PAGE, 3.7), layout="constrained", width_ratios=(1.1, 1)
    )
    draw_responses(left, results["searches"][0]["responses"])
    draw_predictions(right, results)
    return figure


def draw_responses(axes: Any, found: Mapping[str, Any]) -> None:
    """Draws the responses of all domains and of three targets, a row each."""
    targets = found["targets"]
    chosen = [name for name in TASKS if name in targets] or [*targets][:3]
    rows = {**found["domains"], **{name: targets[name] for name in chosen}}
    values = np.array([*rows.values()])
    most = float(np.abs(values).max())
    image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
    axes.figure.colorbar(image, ax=axes, shrink=0.8, label="fall of the loss")
    axes.axhline(len(found["domains"]) - 0.5, color="black", linewidth=1.2)
    names = [plain(name) for name in rows]
    axes.set_yticks(range(len(names)), names)
    branches = [plain(name) for name in found["branches"]]
    axes.set_xticks(range(len(branches)), branches, rotation=90)
    axes.set_xlabel("branch: more steps on")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    panel(axes, "a", "responses of domains and of tasks")


def draw_predictions(axes: Any, results: Mapping[str, Any]) -> None:
    """Draws every target of every group: predicted change from uniform weights, with its 94 %
    interval, beside the measured one."""
    rows = [row for one in results["searches"] for row in one["rows"]]
    ends: list[float] = []
    for way, (label, colour) in reversed(WAYS.items()):
        own = [row for row in rows if row["way"] == way]
        if way == "natural":  # the same for every group
            own = [row for row in own if row["group"] == own[0]["group"]]
        x, y = ([row[name] for row in own] for name in ("predicted", "measured"))
        low, high = ([row[name] for row in own] for name in ("low", "high"))
        axes.hlines(y, low, high, color=colour, linewidth=0.5, alpha=0.35)
        held = 100 * results["held"][way]["share"]
        axes.plot(*(x, y, "o"), color=colour, markersize=2.5, label=f"{label}: {held:.0f} % held")
        ends += [*x, *y]
    span = [min(ends), max(ends)]
    axes.plot(span, span, color="black", linewidth=0.8)
    axes.axhline(0, color=FAINT, linewidth=0.5)
    axes.axvline(0, color=FAINT, linewidth=0.5)
    axes.set_xlabel("predicted change, bits per byte")
    axes.set_ylabel("measured change")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2))
    panel(axes, "b", "targets, minus uniform weights")


if __name__ == "__main__":
    figure_main(draw, "task_responses", "task_decisions.json")
