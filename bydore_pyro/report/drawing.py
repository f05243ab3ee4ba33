"""What all figures of the report are made of: looks of domains, traces, a layout.

A trace's `meta` tells what is shown under the pointer (`told`), and the page's script what the
trace belongs to: its `keys` (of a domain) and the `width` of its line. A trace without
keys belongs to all. A trace with the `role` "band" is empty until a domain is singled out, and then
holds the band around its line, whose half-width stands in the line's `customdata`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bydore_pyro.analysis import domain_colours
from bydore_pyro.report.words import clean, shortened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "INK",
    "MOST_DRAWN",
    "MOST_POINTS",
    "ROW",
    "Look",
    "band_trace",
    "domain_looks",
    "escaped",
    "figure_of",
    "labelled_rows",
    "line_trace",
    "marked_x",
    "plain_numbers",
    "point_trace",
    "thinned",
    "word_trace",
]

MOST_DRAWN = 40  # domains in a figure; the tables hold all
MOST_POINTS = 500  # of a line
ROW = 26  # pixels
SHORT = 18  # characters beside an axis: a phone has room for them
DASHES = ("solid", "dash", "dot", "dashdot")
INK, FAINT, GRID = "#1f2328", "#6b7280", "#e6e8eb"
AXIS = {
    "gridcolor": GRID,
    "zeroline": False,
    "linecolor": FAINT,
    "ticks": "outside",
    "tickcolor": FAINT,
    "automargin": True,
}
LAYOUT = {
    "template": "none",
    "margin": {"l": 12, "r": 14, "t": 26, "b": 56},
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
    "hovermode": "closest",
    "hoverdistance": 30,
    "hoverlabel": {"bgcolor": "white", "font": {"color": INK}, "align": "left"},
    "showlegend": False,
    "paper_bgcolor": "white",
    "plot_bgcolor": "white",
}


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a domain is drawn wherever it stands; `key` ties table, legend and figures."""

    key: str
    name: str
    colour: str
    dash: str = "solid"


def domain_looks(names: Sequence[str]) -> dict[str, Look]:
    """Returns a look a domain: the colours of all pictures, and other dashes for every ten."""
    ordered = sorted(names)
    colours = domain_colours(ordered)
    return {
        name: Look(
            key=f"d{i}",
            name=clean(name),
            colour=colours[name],
            dash=DASHES[i // 10 % len(DASHES)],
        )
        for i, name in enumerate(ordered)
    }


def thinned(steps: int) -> np.ndarray:
    """Returns the places of at most `MOST_POINTS` steps, evenly apart; the last is among them."""
    return np.arange(steps - 1, -1, -max(1, math.ceil(steps / MOST_POINTS)))[::-1]


def plain_numbers(values: Sequence[float] | np.ndarray) -> list[float | None]:
    """Returns numbers with five digits, None for what is none."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in map(float, values)]


def escaped(text: str, most: int = 40) -> str:
    """Returns a name for a label, in which plotly would read some HTML, and mathematics in $."""
    return html.escape(shortened(text, most), quote=False).replace("$", "&#36;")


def line_trace(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    *,
    keys: Sequence[str] = (),
    colour: str,
    width: float,
    dash: str = "solid",
    text: str,
    hover: str = "%{meta.told}",
) -> dict[str, Any]:
    """Returns a line that shows `text`, through the template `hover`, under the pointer."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": plain_numbers(x),
        "y": plain_numbers(y),
        "line": {"color": colour, "width": width, "dash": dash},
        "meta": {"keys": list(keys), "width": width, "told": text},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def point_trace(
    x: float,
    y: float,
    *,
    keys: Sequence[str] = (),
    colour: str,
    symbol: str = "circle",
    size: int = 10,
    text: str,
) -> dict[str, Any]:
    """Returns a point that shows `text` under the pointer."""
    return {
        "type": "scatter",
        "mode": "markers",
        "cliponaxis": False,
        "x": plain_numbers([x]),
        "y": plain_numbers([y]),
        "marker": {
            "color": colour,
            "symbol": symbol,
            "size": size,
            "line": {"color": colour if symbol.endswith("-open") else "white", "width": 1},
        },
        "meta": {"keys": list(keys), "told": text},
        "hovertemplate": "%{meta.told}<extra></extra>",
    }


def word_trace(x: float, y: float, *, keys: Sequence[str] = (), text: str) -> dict[str, Any]:
    """Returns a word that ends at a point, above it."""
    return {
        "type": "scatter",
        "mode": "text",
        "x": plain_numbers([x]),
        "y": plain_numbers([y]),
        "text": [escaped(text, SHORT)],
        "textposition": "top left",
        "textfont": {"size": 12},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "meta": {"keys": list(keys)},
    }


def band_trace() -> dict[str, Any]:
    """Returns the empty band that a domain's spread is drawn in when it is singled out."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [],
        "y": [],
        "fill": "toself",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "meta": {"role": "band"},
    }


def labelled_rows(labels: Sequence[str]) -> dict[str, Any]:
    """Returns a vertical axis of labelled rows, the first on top."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [escaped(label, SHORT) for label in labels],
        "range": [len(labels) - 0.4, -0.6],
        "showgrid": False,
    }


def marked_x(x: float, text: str) -> dict[str, list[dict[str, Any]]]:
    """Returns the parts of a layout that draw an upright line with a word on top."""
    line = {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "line": {"color": FAINT, "width": 1.5, "dash": "dot"},
        "layer": "between",  # above the grid, below the lines
    }
    word = {
        "x": x,
        "y": 1,
        "xref": "x",
        "yref": "paper",
        "text": text,
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 12, "color": FAINT},
    }
    return {"shapes": [line], "annotations": [word]}


def figure_of(
    traces: Sequence[Mapping[str, Any]],
    *,
    height: int,
    xaxis: Mapping[str, Any],
    yaxis: Mapping[str, Any],
    **layout: Any,
) -> Figure:
    """Returns a figure in the report's style, of a height in pixels and as wide as there is room.

    Raises:
        ImportError: When plotly is not installed.
    """
    from plotly.graph_objects import Figure

    axes = {"xaxis": {**AXIS, **xaxis}, "yaxis": {**AXIS, **yaxis}}
    return Figure(data=list(traces), layout={**LAYOUT, "height": height, **axes, **layout})
