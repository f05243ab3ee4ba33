"""Live mixtures beside fixed ones: how much higher the loss of the live model is, by target.

Shows what runs of `experiments/live.py` left: one file of results, or a folder of several.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from study_figure import FAINT, PAGE, figure_main, panel

RIVALS = {
    "search": ("the mixture of a search with trial runs", "o", "tab:blue"),
    "matching": ("that of its matching alone", "s", "tab:orange"),
    "odm": ("ODM's", "^", "tab:green"),
    "ado": ("ADO's", "v", "tab:red"),
}


def draw(results: Mapping[str, Any] | Path) -> Any:
    """Draws a panel for each length: means over seeds and standard errors, by target."""
    import matplotlib.pyplot as plt

    lengths = by_length(results)
    most = max(map(len, lengths.values()))
    size = (PAGE, 1.2 + 0.33 * most)
    figure, panels = plt.subplots(
        1, len(lengths), figsize=size, sharex=True, layout="constrained", squeeze=False
    )
    for axes, letter, steps in zip(panels[0], ascii_lowercase, sorted(lengths), strict=False):
        targets = lengths[steps]
        axes.axvline(0, color=FAINT, linewidth=0.8)
        for row, models in enumerate(targets.values()):
            for place, (label, (told, marker, colour)) in enumerate(RIVALS.items()):
                apart = [m["live"]["loss"] - m[label]["loss"] for m in models if label in m]
                if len(apart) < 2:
                    continue
                error = np.std(apart, ddof=1) / np.sqrt(len(apart))
                axes.errorbar(
                    np.mean(apart), row + 0.2 * (place - 1.5), xerr=error, fmt=marker, ms=3.5,
                    color=colour, elinewidth=1, label=told,
                )  # fmt: skip
        axes.set_yticks(range(len(targets)), [titled(name) for name in targets])
        axes.set_ylim(len(targets) - 0.5, -0.5)
        axes.locator_params(axis="x", nbins=6)
        axes.grid(axis="x", color="0.92")
        panel(axes, letter, f"{steps} steps")
    handles, labels = panels[0][0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    title = "loss of the live model, in nats per token, less that of a model on"
    figure.legend(once.values(), once, loc="outside lower center", ncols=len(once), title=title)
    return figure


def titled(name: str) -> str:
    """Returns a target's name in words."""
    domain = name.removeprefix("withheld:")
    return domain.replace("_", " ") + (", withheld" if domain != name else "")


def by_length(results: Mapping[str, Any] | Path) -> dict[int, dict[str, list[dict[str, Any]]]]:
    """Returns the models that were trained beside live ones, by steps and target."""
    paths = sorted(results.glob("*.json")) if isinstance(results, Path) else []
    files = [json.loads(path.read_text(encoding="utf-8")) for path in paths] or [results]
    found: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for file in files:
        for name, target in file["targets"].items():
            if "live" in target["models"][0]:
                own = found.setdefault(file["config"]["live"]["model_steps"], {})
                own.setdefault(name, target["models"])
    return found


if __name__ == "__main__":
    figure_main(draw, "live_mixtures", "live")
