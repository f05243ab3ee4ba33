"""What every page of the report shows, and the templates that escape it."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bydore_pyro.report.words import clean

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from plotly.graph_objects import Figure

__all__ = ["drawn_frame", "frame", "packed_library", "plot", "script_json", "templates"]

FOLDER = Path(__file__).parent


def frame(title: str, subtitle: str, version: str) -> dict[str, Any]:
    """Returns what every page shows.

    Args:
        title: Its heading.
        subtitle: The line below.
        version: Of bydore-pyro that found the weights, "" where it is not known.
    """
    from markupsafe import Markup

    return {
        "title": title,
        "subtitle": subtitle,
        "css": Markup((FOLDER / "page.css").read_text(encoding="utf-8").strip()),
        "made_by": f"Found by bydore-pyro {version}." if version else "Written by bydore-pyro.",
        "library": "",
    }


def drawn_frame(told: Mapping[str, str]) -> dict[str, Any]:
    """Returns what every page with figures shows besides: the script, and plotly for it.

    Args:
        told: Text about a domain that is singled out, by its look's key.

    Raises:
        ImportError: When plotly is not installed.
    """
    from markupsafe import Markup

    return {
        "told": script_json({key: clean(text) for key, text in told.items()}),
        "library": Markup(packed_library()),
        "script": Markup((FOLDER / "page.js").read_text(encoding="utf-8").strip()),
    }


def plot(name: str, label: str, figure: Figure | None) -> dict[str, Any] | None:
    """Returns a figure as the templates show it, None where there is none."""
    if figure is None:
        return None
    return {
        "id": f"figure-{name}",
        "label": label,
        "height": figure.layout.height,
        "json": script_json(figure.to_plotly_json()),
    }


def script_json(content: Any) -> Markup:
    """Returns JSON for a script element, which nothing in it can end.

    Raises:
        ValueError: When a number is NaN or infinite.
    """
    from markupsafe import Markup

    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def packed_library() -> str:
    """Returns plotly.js, packed to two fifths of its size; the page's script unpacks it.

    Raises:
        ImportError: When plotly is not installed.
    """
    from plotly.offline import get_plotlyjs

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def templates() -> Environment:
    """Returns the templates. What they show is cleaned and, unless it is our own HTML, escaped.

    Raises:
        ImportError: When jinja2 is not installed.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    return Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
