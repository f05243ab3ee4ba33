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
    "SHORT",
    "Look",
    "domain_looks",
    "escaped",
    "figure_of",
    "mark",
    "plain_numbers",
    "thinned",
    "trace",
    "word_trace",
]

MOST_DRAWN = 40  # domains in a figure; the tables hold all
MOST_POINTS = 500  # of a line
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
    """How a domain is drawn wherever it stands; `key` ties table, legend and figures.

    What belongs to no domain has no key.
    """

    key: str = ""
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


def trace(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    look: Look,
    *,
    told: str = "",
    hover: str = "%{meta.told}",
    mode: str = "lines",
    width: float = 1.8,
    **more: Any,
) -> dict[str, Any]:
    """Returns a line, points or both.

    Args:
        x: Where they are.
        y: As many.
        look: Of what they belong to.
        told: What stands under the pointer, as HTML that plotly reads; the name if not given.
        hover: The template that shows it.
        mode: "lines", "markers" or "lines+markers".
        width: Of the line, in pixels.
        more: Attributes of plotly's trace, instead of these.
    """
    return {
        "type": "scatter",
        "mode": mode,
        "x": plain_numbers(x),
        "y": plain_numbers(y),
        "line": {"color": look.colour, "width": width, "dash": look.dash},
        "marker": {"color": look.colour, "size": 7},
        "meta": {
            "keys": [look.key] if look.key else [],
            "width": width,
            "told": told or escaped(look.name),
        },
        "hovertemplate": f"{hover}<extra></extra>",
        **more,
    }


def word_trace(x: float, y: float, look: Look) -> dict[str, Any]:
    """Returns a domain's name, which ends at a point, above it."""
    return trace(
        [x],
        [y],
        look,
        mode="text",
        text=[escaped(look.name, SHORT)],
        textposition="top left",
        textfont={"size": 12},
        cliponaxis=False,
        hovertemplate=None,
        hoverinfo="skip",
    )


def mark(figure: Figure, x: float, text: str, side: str = "right") -> None:
    """Adds an upright line below all others, with a word on top to its side."""
    figure.add_vline(
        x,
        layer="below",
        line={"color": FAINT, "width": 1.5, "dash": "dot"},
        annotation={"text": text, "yanchor": "bottom", "font": {"size": 12, "color": FAINT}},
        annotation_position=f"top {side}",
    )


def figure_of(
    traces: Sequence[Mapping[str, Any]],
    *,
    height: int,
    xaxis: Mapping[str, Any],
    yaxis: Mapping[str, Any],
) -> Figure:
    """Returns a figure in the report's style, of a height in pixels and as wide as there is room.

    Raises:
        ImportError: When plotly is not installed.
    """
    from plotly.graph_objects import Figure

    axes = {"xaxis": {**AXIS, **xaxis}, "yaxis": {**AXIS, **yaxis}}
    return Figure(data=list(traces), layout={**LAYOUT, "height": height, **axes})
