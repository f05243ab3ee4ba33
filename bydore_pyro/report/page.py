"""A report as one HTML page on a run, which needs neither network nor server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from bydore_pyro import files, terminal
from bydore_pyro.report.explorer import Explored, script, script_hash
from bydore_pyro.report.figures import as_svg
from bydore_pyro.report.run import read_run
from bydore_pyro.report.sections import run_sections

logger = logging.getLogger(__name__)


def html_report(folder: Path, domain_tokens: Sequence[str] = ()) -> str:
    """Returns the page on a run, with the epochs of `domain_tokens` if these are stated.

    Raises:
        RunFolderError: When the folder holds no finished run.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup
    from matplotlib.figure import Figure

    record, places = read_run(folder, domain_tokens=domain_tokens), count()  # of figures

    def block_of(block: Any) -> dict[str, Any]:
        if isinstance(block, Figure):
            return {"kind": "Figure", "it": Markup(as_svg(block, f"figure {next(places)}"))}
        if isinstance(block, Explored):
            return {"kind": "Explored", "it": block.content}
        return {"kind": type(block).__name__, "it": block}

    def shown(value: Any) -> Any:
        return (
            terminal.visible(value)
            if isinstance(value, str) and not isinstance(value, Markup)
            else value
        )

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # What a reader's script reads stays in its order, and is numbers.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("page.html").render(
        label=record.label,
        path=str(record.path),
        sections=[(one, list(map(block_of, one.blocks))) for one in run_sections(record)],
        config=record.config,
        script=Markup(script()),
        script_hash=script_hash(),
    )


def add_html_report(folder: files.RunFolder) -> str:
    """Writes `report.html` into a run's folder; returns its path in a line, or the reason for none.

    Nothing is raised: a search of hours must not fail for want of its page.
    """
    try:
        if folder.writes:
            folder.write_text("report.html", html_report(folder.path))
    except Exception as error:
        logger.warning("No report.html", exc_info=True)
        return f"No report.html: {type(error).__name__}: {error}"
    return f"In a browser: {folder.path / 'report.html'}"
