"""Curves that rise again, and pairs whose order turns round: what the data show of either.

Shows what `experiments/assumptions.py` left (the paper's Fig. 5).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from study_figure import PAGE, domain_lines, figure_main, label_ends, panel

SHOWN = 3  # curves, pairs


def draw(results: Mapping[str, Any]) -> Any:
    """Draws the curves that rise most from their least, and the widest reversals."""
    import matplotlib.pyplot as plt

    tokens, small = np.array(results["tokens"], float), results["small_scale_measurements"]
    names, losses = results["domains"], results["losses"]
    rises = results["rise_from_the_least"]
    lines = domain_lines(names)
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 2.8), layout="constrained")

    rising = sorted(names, key=lambda name: -rises[name])[:SHOWN]
    show(left, tokens, losses, rising, lines)
    for name in rising:
        least = int(np.argmin(losses[name]))
        if least < len(tokens) - 1:
            left.plot(tokens[least], losses[name][least], "v", ms=6, color=lines[name]["color"])
    risen = sum(rises[name] > 0.01 for name in names)
    panel(left, "a", f"{risen} of {len(names)} curves end over 0.01 above their least")

    turned = reversals(names, losses, small)
    pairs = dict.fromkeys(name for pair in turned[:SHOWN] for name in pair)
    show(right, tokens, losses, list(pairs), lines)
    right.axvline(tokens[small - 1], color="0.6", linewidth=0.8, linestyle=":")
    possible = len(names) * (len(names) - 1) // 2
    panel(right, "b", f"{len(turned)} of {possible} pairs turn round; the {SHOWN} widest")
    left.set_ylabel("validation loss (nats per token)")
    return figure


def show(axes: Any, tokens: np.ndarray, losses: Any, names: list[str], lines: Any) -> None:
    """Draws the curves of some domains, named at their ends."""
    for name in names:
        axes.plot(tokens, losses[name], marker="o", ms=2.5, **lines[name])
    axes.set_xscale("log")
    axes.set_xlabel("training tokens")
    ends = {name: losses[name][-1] for name in names}
    label_ends(axes, tokens[-1], ends, {name: lines[name]["color"] for name in names})


def reversals(
    names: list[str], losses: Mapping[str, list[float]], small: int
) -> list[tuple[str, str]]:
    """Returns the pairs of another order at the end than at a tenth, widest first."""

    def width(pair: tuple[str, str]) -> float:
        early, late = (losses[pair[0]][i] - losses[pair[1]][i] for i in (small - 1, -1))
        return min(abs(early), abs(late)) if early * late < 0 else 0.0

    pairs = [pair for pair in itertools.combinations(names, 2) if width(pair) > 0]
    return sorted(pairs, key=width, reverse=True)


if __name__ == "__main__":
    figure_main(draw, "appendix_loss", "assumptions.json")
