"""How a figure of the study is read, drawn and saved; what the figures share."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import matplotlib
import numpy as np
from scipy.optimize import isotonic_regression

from bydore_pyro.answer import domain_colours
from bydore_pyro.command_line import fail, one_line_errors
from bydore_pyro.errors import DataError
from bydore_pyro.files import appearing_file

matplotlib.use("Agg")

HERE = Path(__file__).parent
COLUMN, PAGE = 3.4, 7.0  # inches: the widths of a column and of a page
DOTS_PER_INCH = 200
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # letters stay letters
}
INK, FAINT = "0.15", "0.55"
OWN = "#d55e00"  # ByDoRe beside other methods
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))  # for greyscale


def plain(name: str) -> str:
    """Returns a name in which matplotlib does not read dollar signs as mathematics."""
    return name.replace("$", r"\$")


def figure_main(draw: Callable[[Any], Any], name: str, results: str | None = None) -> None:
    """Draws a figure as the command line asks, and saves it as PDF and PNG.

    Args:
        draw: Takes the content of the results' file (the path itself where it is a folder, nothing
            where there are no results) and returns a figure.
        name: The figure's name, of its script and of the files that are written.
        results: The file or folder in `results/` that is read where the command line names none.
    """
    import matplotlib.pyplot as plt

    options = figure_options(name, sys.modules["__main__"].__doc__ or "", results)
    with one_line_errors(name), plt.rc_context(STYLE):
        figure = draw(None) if results is None else drawn(draw, options.results)
        for path in save(figure, options.folder / name):
            print(path)
        plt.close(figure)


def figure_options(name: str, about: str, results: str | None) -> argparse.Namespace:
    """Returns `results`, the path to read, and `folder`, the one to write to."""

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            fail(name, message)

    parser = Parser(prog=name, description=about, allow_abbrev=False)
    if results is not None:
        help = f"what an experiment left (default: FOLDER/results/{results})"
        parser.add_argument("results", type=Path, nargs="?", help=help)
    parser.add_argument(
        "--folder", type=Path, default=HERE, help="folder to write to (default: beside the script)"
    )
    options = parser.parse_args()
    if results is not None and options.results is None:
        options.results = options.folder / "results" / results
    return options


def drawn(draw: Callable[[Any], Any], path: Path) -> Any:
    """Returns the figure of a results file, or of a run folder.

    Raises:
        DataError: When it cannot be read or is not what the figure shows.
    """
    content: Any = path
    if not path.is_dir():
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"Expected an experiment's results, found {path}: {reason}") from None
    try:
        return draw(content)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        raise DataError(
            f"Expected the results that this figure shows, found others in {path} ({reason})"
        ) from None


def save(figure: Any, path: Path) -> list[Path]:
    """Writes a figure as PDF and PNG; returns their paths. Same results, same bytes."""
    written = []
    for suffix, metadata in ((".pdf", {"CreationDate": None}), (".png", {"Software": None})):
        place = path.with_name(path.name + suffix)
        with appearing_file(place) as aside:
            figure.savefig(aside, dpi=DOTS_PER_INCH, metadata=metadata)
        written.append(place)
    return written


def domain_lines(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns colour and dashes of every domain's line."""
    colours = domain_colours(names)
    return {
        name: {"color": colour, "linestyle": DASHES[place % len(DASHES)]}
        for place, (name, colour) in enumerate(colours.items())
    }


def draw_weights(axes: Any, path: np.ndarray, names: Sequence[str], labelled: float = 0.05) -> None:
    """Draws weights ``(T, K)`` over the steps; the largest at the end are named there."""
    lines = domain_lines(names)
    for place in np.argsort(path[-1]):
        axes.plot(path[:, place], linewidth=1.1, **lines[names[place]])
    ends = {names[k]: float(path[-1, k]) for k in range(len(names)) if path[-1, k] >= labelled}
    label_ends(axes, len(path) - 1, ends, {name: lines[name]["color"] for name in ends})
    axes.set_xlim(0, len(path) - 1)
    axes.set_xlabel("step")


def weight_panels(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Any:
    """Draws a panel of weights over the steps for each row, with one legend.

    Args:
        rows: Titles, and results with `trajectory` ``(T, K)`` and `weights` by domain.
    """
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(rows), figsize=(PAGE, 2.9), sharey=True, layout="constrained"
    )
    panels[0].set_ylim(0, 1)
    for axes, letter, (title, row) in zip(panels, "abcdefgh", rows, strict=False):
        draw_weights(axes, np.array(row["trajectory"]), list(row["weights"]), labelled=math.inf)
        panel(axes, letter, title)
    panels[0].set_ylabel("weight (share of training tokens)")
    domain_legend(figure, list(rows[0][1]["weights"]))
    return figure


def label_ends(axes: Any, x: float, ends: Mapping[str, float], colours: Mapping[str, str]) -> None:
    """Writes names to the right of the ends of their lines, as near as they fit without overlap."""
    low, high = axes.get_ylim()
    order = sorted(ends, key=lambda name: ends[name])
    shifts = (high - low) * 0.055 * np.arange(len(order))
    heights = np.array([ends[name] for name in order])
    # The nearest heights, by least squares, that rise by a line each; they keep below the top.
    places = isotonic_regression(heights - shifts).x + shifts
    excess = places[-1] - max(high - (high - low) * 0.0275, heights[-1]) if order else 0
    for name, place in zip(order, places, strict=True):
        axes.annotate(
            plain(name),
            (x, place - max(excess, 0)),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=colours[name],
            annotation_clip=False,
        )


def domain_legend(figure: Any, names: Sequence[str]) -> None:
    """Puts a legend of the domains at the right of a figure."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=plain(n), **look) for n, look in domain_lines(names).items()]
    figure.legend(handles=handles, loc="outside right upper", handlelength=2.4)


def panel(axes: Any, letter: str, title: str) -> None:
    """Titles a panel."""
    axes.set_title(f"({letter}) {title}", loc="left")
