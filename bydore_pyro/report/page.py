"""Runs' folders as one self-contained HTML page: what `bydore report` writes."""

from __future__ import annotations

import base64
import gzip
import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bydore_pyro.report.comparison import comparison_page
from bydore_pyro.report.run_page import run_page
from bydore_pyro.report.run_record import read_run
from bydore_pyro.report.words import clean
from bydore_pyro.utils import DataError, RunFolder, require

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["add_html_report", "html_report", "packed_library", "templates"]

logger = logging.getLogger(__name__)


def html_report(folders: Sequence[Path]) -> str:
    """Returns one HTML page on a run, or on several beside each other.

    Args:
        folders: Of runs: searches, cases, other methods' fits, searches with several seeds.

    Raises:
        ValueError: When there are none.
        RunFolderError: When a folder holds no weights.
        DataError: When plotly or jinja2 is not installed.
    """
    if not folders:
        raise ValueError("Expected the folders of runs, found none")
    records = [read_run(folder) for folder in folders]
    require("jinja2", "report")
    if len(records) == 1 and records[0].mixture is not None:
        require("plotly", "report")
        page = run_page(records[0]) | {"library": packed_library()}
        return templates().get_template("run.html").render(page)
    return templates().get_template("comparison.html").render(comparison_page(records))


def add_html_report(folder: RunFolder) -> str:
    """Writes `report.html` into a run's folder; returns a line: where it lies, or why it does not.

    Nothing is raised: a search of hours must not fail for want of its page.
    """
    try:
        if folder.writes:
            folder.write_text("report.html", html_report([folder.path]))
    except DataError as error:
        return f"No report.html: {error}"
    except Exception as error:
        logger.warning("No report.html", exc_info=True)
        return f"No report.html: {type(error).__name__}: {error}"
    return f"In a browser: {folder.path / 'report.html'}"


@cache
def packed_library() -> Markup:
    """Returns plotly.js, packed to two fifths of its size; the page's script unpacks it.

    Raises:
        ImportError: When plotly is not installed.
    """
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode("ascii"))


def templates() -> Environment:
    """Returns the templates. What they show is cleaned and, unless it is our own HTML, escaped.

    As JSON (`tojson`) nothing can end the script element that it stands in; NaN is refused.

    Raises:
        ImportError: When jinja2 is not installed.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment
