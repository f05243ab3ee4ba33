"""What all figures of the report are made of: looks of domains and runs, lines, points, a layout.

A trace's `meta` tells the page's script what it belongs to: `keys` (of a domain, of a run) and the
`width` of its line. A trace without keys belongs to all. A trace with the `role` "band" is empty
until a domain is singled out, and then holds its line and its standard deviation, which stands in
the line's `customdata`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.report_page.words import clean, shortened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "GRID",
    "INK",
    "MOST_DRAWN",
    "MOST_POINTS",
    "ROW",
    "RUN_COLOURS",
    "Look",
    "band",
    "domain_looks",
    "escaped",
    "figure_of",
    "labelled_rows",
    "line",
    "note",
    "plain_numbers",
    "points",
    "run_looks",
    "smooth",
    "thinned",
    "upright",
]

MOST_DRAWN = 40  # domains in a figure; the tables hold all
MOST_POINTS = 500  # of a line
SMOOTHED = 10  # steps of the losses' running mean
ROW = 26  # pixels
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "triangle-down", "star", "cross")
# Okabe and Ito's, which differ for the colour-blind too, in an order of falling contrast.
RUN_COLOURS = ("#0072b2", "#d55e00", "#000000", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
INK, FAINT, GRID = "#1f2328", "#6b7280", "#e6e8eb"


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a domain or a run is drawn wherever it stands."""

    key: str
    name: str
    colour: str
    dash: str = "solid"
    symbol: str = "circle"


def domain_looks(names: Sequence[str]) -> dict[str, Look]:
    """Returns a look a domain, by the colours of all pictures; beyond ten the dashes differ too."""
    from bydore_pyro.plots import domain_colours

    ordered = sorted(names)
    colours = domain_colours(ordered)
    return {
        name: Look(
            key=f"d{i}",
            name=clean(name),
            colour="#" + "".join(f"{round(255 * part):02x}" for part in colours[name][:3]),
            dash=DASHES[i // 10 % len(DASHES)],
        )
        for i, name in enumerate(ordered)
    }


def run_looks(labels: Sequence[str]) -> list[Look]:
    """Returns a look a run."""
    return [
        Look(
            key=f"r{i}",
            name=clean(label),
            colour=RUN_COLOURS[i % len(RUN_COLOURS)],
            symbol=SYMBOLS[i % len(SYMBOLS)],
        )
        for i, label in enumerate(labels)
    ]


def thinned(steps: int) -> np.ndarray:
    """Returns the places of at most about `MOST_POINTS` steps, evenly apart, the last among them."""
    stride = max(1, math.ceil(steps / MOST_POINTS))
    return np.arange(steps - 1, -1, -stride)[::-1]


def smooth(values: np.ndarray) -> np.ndarray:
    """Returns the mean of the last `SMOOTHED` values that are numbers, of fewer at the start."""
    values = values.astype(float)
    known = np.isfinite(values)
    total = np.cumsum(np.insert(np.where(known, values, 0.0), 0, 0.0))
    counts = np.cumsum(np.insert(known.astype(int), 0, 0))
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - SMOOTHED, 0)
    seen = counts[end] - counts[start]
    return np.where(seen > 0, (total[end] - total[start]) / np.maximum(seen, 1), np.nan)


def line(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    colour: str,
    width: float,
    meta: Mapping[str, Any],
    *,
    text: str,
    hover: str,
    dash: str = "solid",
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": plain_numbers(x),
        "y": plain_numbers(y),
        "text": text,
        "line": {"color": colour, "width": width, "dash": dash},
        "meta": {**meta, "width": width},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def points(
    x: Sequence[float],
    y: Sequence[float],
    marker: Mapping[str, Any],
    meta: Mapping[str, Any],
    text: str,
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": plain_numbers(x),
        "y": plain_numbers(y),
        "text": text,
        "marker": {"line": {"color": "white", "width": 1}, **marker},
        "meta": dict(meta),
        "hovertemplate": "%{text}<extra></extra>",
    }


def band() -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "x": [], "y": [], "fill": "toself",
        "line": {"width": 0}, "hoverinfo": "skip", "meta": {"role": "band"},
    }  # fmt: skip


def plain_numbers(values: Sequence[float] | np.ndarray) -> list[float | None]:
    """Returns numbers with five digits, None for what is none."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in map(float, values)]


def labelled_rows(labels: Sequence[str]) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [html.escape(label, quote=False) for label in labels],
        "range": [len(labels) - 0.4, -0.6],
        "showgrid": False,
        "automargin": True,
    }


def upright(x: float) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
        "line": {"color": FAINT, "width": 1, "dash": "dot"}, "layer": "below",
    }  # fmt: skip


def note(x: float, text: str) -> dict[str, Any]:
    return {
        "x": x, "y": 1, "xref": "x", "yref": "paper", "text": text, "showarrow": False,
        "xanchor": "left", "yanchor": "bottom", "font": {"size": 12, "color": FAINT},
    }  # fmt: skip


def escaped(text: str) -> str:
    """Returns a name for a label, in which plotly would read some HTML."""
    return html.escape(shortened(text, 40), quote=False)


def figure_of(
    traces: Sequence[Mapping[str, Any]],
    *,
    height: int,
    xaxis: Mapping[str, Any],
    yaxis: Mapping[str, Any],
    **layout: Any,
) -> Figure:
    from plotly.graph_objects import Figure

    axis = {
        "gridcolor": GRID, "zeroline": False, "linecolor": FAINT, "ticks": "outside",
        "tickcolor": FAINT, "automargin": True,
    }  # fmt: skip
    style = {
        "template": "none",
        "height": height,
        "margin": {"l": 12, "r": 14, "t": 26, "b": 44},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "hovermode": "closest",
        "hoverdistance": 30,
        "hoverlabel": {"bgcolor": "white", "font": {"color": INK}, "align": "left"},
        "showlegend": False,
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "xaxis": {**axis, **xaxis},
        "yaxis": {**axis, **yaxis},
    }
    return Figure(data=list(traces), layout={**style, **layout})
