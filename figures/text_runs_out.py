"""Text that runs out: the loss of each mixture above that of effective shares, by length of run.

Shows what `experiments/repetition.py` left, a file for each target.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from study_figure import DASHES, FAINT, INK, PAGE, figure_main, panel

TARGETS = {
    "scarce": "READMEs, JSON and licences",
    "python": "docstrings and Python tests",
    "wikipedia": "Wikipedia and Pile-CC",
}
REFERENCE = "effective"  # matching with --target_tokens
LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    REFERENCE: ("matching, --target_tokens", {"color": "tab:orange", "marker": "o"}),
    "matching": ("matching, for fresh text", {"color": "tab:orange", "linestyle": DASHES[2]}),
    "caps": ("matching, capped at 4 epochs", {"color": "tab:orange", "linestyle": DASHES[1]}),
    "linear": ("Algorithm 1", {"color": "tab:purple", "linestyle": DASHES[3]}),
    "own": ("the target's own shares", {"color": INK}),
    "unimax": ("UniMax", {"color": "tab:blue", "linestyle": DASHES[1]}),
    "natural": ("natural", {"color": FAINT, "linestyle": DASHES[2]}),
    "mde": ("MDE", {"color": "tab:green", "marker": "^"}),
    "mde_repeating": ("MDE, proxies repeat", {"color": "tab:green", "marker": "v"}),
    "regmix": ("RegMix", {"color": "tab:red", "marker": "^"}),
    "regmix_repeating": ("RegMix, proxies repeat", {"color": "tab:red", "marker": "v"}),
}
LEAST, MOST = -0.25, 1.25  # nats per token; a single loss above it is a mark at the edge


def draw(folder: Path) -> Any:
    """Draws a panel for each target, with standard errors; lower is better."""
    import matplotlib.pyplot as plt

    found = {
        target: json.loads(path.read_text(encoding="utf-8"))
        for target in TARGETS
        if (path := folder / f"{target}.json").is_file()
    }
    figure, panels = plt.subplots(
        1, len(found), figsize=(PAGE, 3.3), layout="constrained", squeeze=False, sharey=True
    )
    for axes, letter, (target, results) in zip(panels[0], "abc", found.items(), strict=False):
        for row, (_, look) in LOOKS.items():
            draw_row(axes, row, look, results["cells"])
        lengths = list(results["cells"])
        axes.set_xscale("log")
        axes.set_xticks([float(length) for length in lengths], lengths)
        axes.minorticks_off()
        axes.set_ylim(LEAST, MOST)
        axes.set_xlabel("epochs of the scarce text")
        panel(axes, letter, TARGETS[target])
    panels[0][0].set_ylabel("loss above --target_tokens\n(nats per token)")
    lines = [legend_line(look) for _, look in LOOKS.values()]
    names = [name for name, _ in LOOKS.values()]
    figure.legend(lines, names, loc="outside lower center", ncols=3)
    return figure


def draw_row(axes: Any, row: str, look: Mapping[str, Any], cells: Mapping[str, Any]) -> None:
    """Draws a mixture's losses where it was judged."""
    here = {float(n): cell["losses"] for n, cell in cells.items() if row in cell["losses"]}
    if not here:
        return
    above = {n: np.mean(of[row]) - np.mean(of[REFERENCE]) for n, of in here.items()}
    error = [np.std(of[row], ddof=1) / len(of[row]) ** 0.5 for of in here.values()]
    axes.errorbar(list(above), list(above.values()), error, markersize=3.5, **look)
    outside = [n for n, loss in above.items() if loss > MOST and "marker" in look]
    axes.plot(outside, [MOST - 0.02] * len(outside), "^", color=look["color"], markersize=4)


def legend_line(look: Mapping[str, Any]) -> Any:
    """Returns the line that stands in the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], markersize=3.5, **look)


if __name__ == "__main__":
    figure_main(draw, "text_runs_out", "repetition")
