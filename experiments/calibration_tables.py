"""What a calibration counted, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from calibration_targets import KINDS
from common import markdown

SHOWN = (0.5, 0.8, 0.94)


def results_table(results: Mapping[str, Any]) -> str:
    """Returns the coverage of posteriors and of other draws, and a line on the guide."""
    cells = results["cells"]
    header = ["shares", "text", "taken", "witnesses", *(f"{level:.0%}" for level in SHOWN),
              "shares above 0", "shares of 0", "width", "TV", "moments",
              "ranks", "joint"]  # fmt: skip
    text = markdown(header, [posterior_row(cell, len(results["domains"])) for cell in cells])
    header = ["shares", "text", "taken", *(f"{level:.0%}" for level in SHOWN), "shares above 0",
              "shares of 0", "width", "TV"]  # fmt: skip
    rows = [
        [*(cell[name] for name in ("kind", "regime", "design")), *held(cell["flat_prior"])]
        for cell in cells
        if "flat_prior" in cell
    ]
    text += f"\nUnder the prior Dirichlet(1), by document:\n\n{markdown(header, rows)}"
    return text + about_guide(results["guide"]["targets"])


def posterior_row(cell: Mapping[str, Any], domains: int) -> list[str]:
    """Returns a cell's posteriors as a row; ranks are told of targets of the prior alone."""
    row = [cell[name] for name in ("kind", "regime", "design", "counting")]
    row += [*held(cell), f"{cell['moments']:.2f}"]
    if cell["kind"] != KINDS[0]:
        return [*row, "", ""]
    joint = "yes" if cell["joint_ranks_within_bands"] else "no"
    return [*row, f"{cell['ranks_within_bands']} of {domains}", joint]


def held(counted: Mapping[str, Any]) -> Iterator[str]:
    """Yields the coverage at the levels shown; then of shares above 0 and of 0, width and TV."""
    at = [counted["coverage"][str(level)] for level in SHOWN]
    yield from (f"{one['published']:.1%} ± {one['error']:.1%}" for one in at)
    above, zero = at[-1]["of_shares_above_0"], at[-1]["of_shares_of_0"]
    yield f"{above:.1%}"
    yield "" if zero is None else f"{zero:.1%}"
    yield from (f"{counted[name]:.3f}" for name in ("width", "total_variation"))


def about_guide(rows: list[Mapping[str, Any]]) -> str:
    """Returns a line on the guide's posteriors beside the exact ones; "" without any."""
    if not rows:
        return ""
    mean = {
        name: np.mean([float(row[name]) for row in rows]) for name in rows[0] if name[0] in "cmd"
    }
    return (
        f"\nBy the guide, {len(rows)} targets, {mean['corrected']:.0%} corrected: means "
        f"differ by {mean['means']:.2f} standard deviations, standard deviations are "
        f"{mean['deviations']:.2f} of the exact ones, {mean['covered']:.1%} of the shares are "
        f"covered, {mean['covered_exactly']:.1%} by exact draws.\n"
    )
