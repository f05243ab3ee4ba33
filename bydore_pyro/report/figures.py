"""The pictures of how a run learned its weights, and any picture as SVG for a page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from bydore_pyro.answer import PALETTE, domain_colours, picture_label
from bydore_pyro.mixture import MOST_SHOWN
from bydore_pyro.report.run import RunRecord
from bydore_pyro.terminal import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW_LINES = 8  # of rounds, and of the steps of many domains; the tables hold all
MOST_POINTS, MOST_TICKS = 300, 10
NEEDLESS = re.compile(r"font-family: [^;]*;? ?|(\d+\.\d\d)\d+")  # less than hundredths of a point


def trajectory_figure(record: RunRecord) -> Figure | None:
    """Draws the mean weights over the steps and where the average begins; of many domains the
    largest.

    None of a search by matching, which learns its weights after the last step.
    """
    trajectory = record.trajectory
    if trajectory is None or record.by_matching:
        return None
    start, steps = record.average_start, trajectory["step"].values
    names = [str(name) for name in trajectory["domain"].values]
    means = dict(zip(names, trajectory["mean"].values.T.astype(float), strict=True))
    averages = {name: float(values[start:].mean()) for name, values in means.items()}
    order = sorted(names, key=lambda name: -averages[name])
    order = order if len(order) <= MOST_SHOWN else order[:FEW_LINES]
    kept = np.arange(len(steps) - 1, -1, -max(1, -(-len(steps) // MOST_POINTS)))[::-1]
    note = {name: f"{averages[name]:.4f} in the mean of the averaged steps" for name in order}
    figure = _lines("step", steps[kept], {name: means[name][kept] for name in order}, note, names)
    (axes,) = figure.axes
    axes.set_ylim(bottom=0)
    place = steps[min(start, len(steps) - 1)]
    axes.axvline(place, color="0.6", linestyle=":", zorder=0)
    axes.annotate("averaged from here", (place, 1), (0, 3), xycoords=("data", "axes fraction"),
                  textcoords="offset points", fontsize=9)  # fmt: skip
    return figure


def rounds_figure(record: RunRecord) -> Figure | None:
    """Draws the largest weights at every round: each round's own as dots, those by all so far as
    lines.

    None where a run has no two rounds to compare.
    """
    rounds = record.metrics.matching.rounds
    if len(rounds) < 2:
        return None
    last, places = rounds[-1].weights, np.arange(1, len(rounds) + 1)
    order = sorted(last, key=lambda name: -last[name])[:FEW_LINES]
    together = {name: np.array([one.weights.get(name, np.nan) for one in rounds]) for name in order}
    note = {name: f"{last[name]:.4f} by all rounds" for name in order}
    figure = _lines("round", places, together, note, list(last))
    (axes,) = figure.axes
    for name, line in zip(order, axes.get_lines(), strict=True):
        for place, one in zip(places, rounds, strict=True):
            weight = one.alone.get(name, np.nan)
            gid = f"{visible(name)}: {weight:.4f} by round {place}"
            axes.plot(place, weight, "o", color=line.get_color(), gid=gid)
    axes.set_ylim(bottom=0)
    ticks = places[:: -(-len(places) // MOST_TICKS)]
    axes.set_xticks(ticks, [str(place) for place in ticks])
    return figure


def as_svg(figure: Figure, salt: str) -> str:
    """Returns a picture as the SVG element of a page, in the page's own font; the same picture is
    the same text.

    What has a gid is titled by it: a browser shows it under the mouse.

    Args:
        figure: The picture; gids are words, with spaces, and can be printed.
        salt: Differs among the pictures of a page, so that their ids do.
    """
    import matplotlib

    file = io.BytesIO()
    named = {gid for artist in figure.findobj() if (gid := artist.get_gid()) is not None}
    settings = {"svg.fonttype": "none", "svg.hashsalt": salt}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        # The browser has them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=unsaid)
    picture = ElementTree.fromstring(file.getvalue())
    for element in [*picture.iter()]:
        gid = element.attrib.pop("id", "") if element.tag.endswith("}g") else ""
        # Within HTML, SVG needs no namespaces.
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: NEEDLESS.sub(r"\1", value)
                          for key, value in element.attrib.items()}  # fmt: skip
        element.text, element.tail = ((text or "").strip() for text in (element.text, element.tail))
        if gid in named:
            title = ElementTree.Element("title")
            title.text = gid
            element.insert(0, title)
    return ElementTree.tostring(picture, encoding="unicode")


def _lines(
    name: str, x: np.ndarray, y: Mapping[str, np.ndarray], note: Mapping[str, str], names: list[str]
) -> Figure:
    """Draws weights over the quantity `name`, each with its note, in the colours of all names."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes, gids = figure.subplots(), [f"{visible(one)}: {note[one]}" for one in y]
    colours = domain_colours(names if len(names) <= len(PALETTE) else list(y))
    for one, gid in zip(y, gids, strict=True):
        axes.plot(x, y[one], color=colours[one], gid=gid)
    legend = figure.legend(axes.get_lines(), map(picture_label, y), loc="outside right upper",
                           fontsize=9, frameon=False)  # fmt: skip
    for text, gid in zip(legend.get_texts(), gids, strict=True):
        text.set_gid(gid)
    axes.set(xlabel=name, ylabel="weight")
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
