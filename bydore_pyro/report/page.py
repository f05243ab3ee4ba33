"""Runs' folders as one self-contained HTML page: what `bydore report` writes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from bydore_pyro.report.comparison_page import comparison_page
from bydore_pyro.report.page_frame import templates
from bydore_pyro.report.run_page import run_page
from bydore_pyro.report.run_record import read_run
from bydore_pyro.utils import DataError, RunFolder, require

__all__ = ["add_html_report", "html_report"]

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
        return templates().get_template("run.html").render(run_page(records[0]))
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
