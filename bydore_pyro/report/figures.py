"""The pictures of a run as SVG: how it learned its weights, and which losses to expect."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from bydore_pyro import answer, mixture, terminal
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.tables import THIS, TOGETHER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW_LINES = 8  # of many domains; the tables hold all
MOST_POINTS = 300
COLUMNS = 5  # of panels
OF_PANEL, OF_AXIS = 18, 30  # characters
MOST_CHANGES = 40  # targets
NEEDLESS = re.compile(r"font-family: [^;]*;? ?|(\d+\.\d\d)\d+")  # less than hundredths of a point


def trajectory_figure(record: RunRecord) -> Figure | None:
    """Draws the mean weights over the steps and where the average begins; of many domains the
    largest.

    None of a search by matching, which learns its weights after the last step.
    """
    trajectory = record.trajectory
    if trajectory is None or record.by_matching:
        return None
    from matplotlib.figure import Figure

    start, steps = record.average_start, trajectory["step"].values
    names = [str(name) for name in trajectory["domain"].values]
    means = dict(zip(names, trajectory["mean"].values.T.astype(float), strict=True))
    averages = {name: float(values[start:].mean()) for name, values in means.items()}
    order = sorted(names, key=lambda name: -averages[name])
    order = order if len(order) <= mixture.MOST_SHOWN else order[:FEW_LINES]
    kept = np.arange(len(steps) - 1, -1, -max(1, -(-len(steps) // MOST_POINTS)))[::-1]
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    colours = answer.domain_colours(names if len(names) <= len(answer.PALETTE) else order)
    gids = [
        f"{terminal.visible(name)}: {averages[name]:.4f} in the mean of the averaged steps"
        for name in order
    ]
    for name, gid in zip(order, gids, strict=True):
        axes.plot(steps[kept], means[name][kept], color=colours[name], gid=gid)
    labels = [answer.picture_label(name) for name in order]
    legend = figure.legend(
        axes.get_lines(), labels, loc="outside right upper", fontsize=9, frameon=False
    )
    for text, gid in zip(legend.get_texts(), gids, strict=True):
        text.set_gid(gid)
    axes.set(xlabel="step", ylabel="weight")
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(bottom=0)
    place = steps[min(start, len(steps) - 1)]
    axes.axvline(place, color="0.6", linestyle=":", zorder=0)
    axes.annotate(
        "averaged from here",
        (place, 1),
        (0, 3),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        fontsize=9,
    )
    return figure


def triangle_figure(record: RunRecord) -> Figure | None:
    """Draws where the weights of three domains probably lie; None of more, or without draws."""
    if record.draws is None:
        return None
    names, weights = record.mixture.names, record.mixture.weights
    return answer.plot_triangle({"draws": record.draws}, names, {"the weights": weights})


def curves_figure(outlook: answer.Outlook) -> Figure | None:
    """Draws each domain's loss over its effective tokens: the law with its interval, and the runs
    that it rests on."""
    curves = outlook.curves
    if not curves:
        return None
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator

    columns = min(COLUMNS, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(1.8 * columns, 1.5 * rows + 0.6), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (name, curve) in zip(panels, curves.items(), strict=False):
        axes.fill_between(curve.at, curve.low, curve.high, color="0.9", linewidth=0)
        axes.plot(curve.at, curve.loss, color="0.35", gid=f"{terminal.visible(name)}: the law")
        for place, loss in zip(curve.runs, curve.losses, strict=True):
            gid = f"{terminal.visible(name)}: a run, {loss:.3f} nats per token"
            axes.plot(place, loss, "o", color="C0", markersize=4, gid=gid)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(2, numticks=4))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.minorticks_off()
        axes.set_title(answer.picture_label(name, OF_PANEL), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    figure.supxlabel("effective tokens, in those of the longest run on equal weights", fontsize=9)
    figure.supylabel("nats per token", fontsize=9)
    return figure


def changes_figure(outlook: answer.Outlook) -> Figure | None:
    """Draws by how much the loss on every target changes against the baseline, with the 94 %
    interval of two runs, the largest fall on top, and last all targets; a panel for each unit.

    Of more than `MOST_CHANGES` targets of a unit those that change most. None where nothing is
    forecast.
    """
    other = outlook.baseline
    if other not in outlook.differences:
        return None
    from matplotlib.figure import Figure

    panels = _changes_by_unit(outlook, outlook.differences[other])
    heights = [len(rows) + 1.2 for rows in panels.values()]
    figure = Figure(figsize=(7.5, 0.5 + 0.22 * sum(heights)), layout="constrained")
    each = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights).flat
    for axes, (unit, rows) in zip(each, panels.items(), strict=True):
        for place, (text, one) in enumerate(rows):
            colour = "C0" if one.high < 0 else "C3" if one.low > 0 else "0.45"
            gid = f"{terminal.visible(text)}: {one.loss:+.3f} ({one.low:+.3f} to {one.high:+.3f})"
            line = {"color": colour, "gid": gid, "linewidth": 3 if text in TOGETHER else 1.5}
            axes.plot((one.low, one.high), (place, place), solid_capstyle="butt", **line)
            axes.plot(one.loss, place, "o", color=colour, markersize=5, gid=gid)
        axes.axvline(0, color="0.2", linewidth=0.8, zorder=0)
        axes.set_yticks(range(len(rows)), [answer.picture_label(text) for text, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(f"change of the loss against {answer.picture_label(other)}, {unit}")
        axes.tick_params(labelsize=9)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.92")
        axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def _changes_by_unit(
    outlook: answer.Outlook, differences: Mapping[str, answer.Difference]
) -> dict[str, list[tuple[str, answer.Difference]]]:
    """Returns the rows of each panel: targets by their change, and all of them last."""
    panels: dict[str, list[tuple[str, answer.Difference]]] = {}
    for text in outlook.importance:
        panels.setdefault(outlook.unit(text), []).append((text, differences[text]))
    for unit, rows in panels.items():
        most = sorted(rows, key=lambda row: -abs(row[1].loss))[:MOST_CHANGES]
        panels[unit] = sorted(most, key=lambda row: row[1].loss)
    for text in TOGETHER:
        if text in differences:
            unit = outlook.unit(text)
            panels.setdefault(unit, []).append((text, differences[text]))
    return panels


def frontier_figure(outlook: answer.Outlook) -> Figure | None:
    """Draws the losses of the best mixtures for two or three targets, a panel for each pair, with
    this mixture and the others."""
    pairs = list(combinations(outlook.frontier, 2))
    if not pairs:
        return None
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9 if len(pairs) > 1 else 5, 3.4), layout="constrained")
    panels = figure.subplots(1, len(pairs), squeeze=False).flat
    for axes, (x, y) in zip(panels, pairs, strict=True):
        style = "-" if len(outlook.frontier) == 2 else "o"
        axes.plot(outlook.frontier[x], outlook.frontier[y], style, color="0.75", markersize=3)
        for place, (name, losses) in enumerate(outlook.expected.items()):
            label = THIS if name == answer.ANSWER else name
            words = f"{label}: {losses[x].loss:.3f} and {losses[y].loss:.3f}"
            shown = {"color": f"C{place}", "label": label, "gid": words}
            axes.plot(losses[x].loss, losses[y].loss, "s", **shown)
        axes.set_xlabel(f"{answer.picture_label(x, OF_AXIS)}\n{outlook.unit(x)}")
        axes.set_ylabel(f"{answer.picture_label(y, OF_AXIS)}\n{outlook.unit(y)}")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92")
    shown = axes.get_legend_handles_labels()
    figure.legend(*shown, loc="outside upper center", ncols=4, fontsize=9, frameon=False)
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
        element.attrib = {
            key.rpartition("}")[2]: NEEDLESS.sub(r"\1", value)
            for key, value in element.attrib.items()
        }
        element.text, element.tail = ((text or "").strip() for text in (element.text, element.tail))
        if gid in named:
            title = ElementTree.Element("title")
            title.text = gid
            element.insert(0, title)
    return ElementTree.tostring(picture, encoding="unicode")
