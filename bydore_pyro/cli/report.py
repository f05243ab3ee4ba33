"""``bydore report``: what runs found, as text and as an HTML page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bydore_pyro.utils import asks_for_help, one_line_errors

__all__ = ["report_command"]

USAGE = """usage: bydore report RUN ... [--out FILE]

Prints the results of runs and writes them as one HTML page that needs neither network nor server.
The page of one run is report.html in its folder. Several runs are compared; their page is
report.html in the working directory.

options:
  --out FILE  File for the page. Default: report.html, as described above."""


@one_line_errors("bydore report")
def report_command(arguments: Sequence[str]) -> None:
    """Prints the results of runs and writes an HTML page."""
    if asks_for_help(arguments):
        print(USAGE)
        return
    runs, out = _split(arguments)
    wrong = [argument for argument in runs if argument.startswith("-") or not argument]
    if not runs or wrong or out == "":
        found = " ".join(arguments) or "none"
        raise ValueError(f"Expected the folders of runs, and --out FILE at most, found {found}")
    from bydore_pyro.report import report_text

    folders = [Path(run) for run in runs]
    for folder in folders:
        if len(folders) > 1:
            print(f"\n== {folder}")
        print(report_text(folder))
    page = folders[0] / "report.html" if len(folders) == 1 else Path("report.html")
    _write_page(folders, page if out is None else Path(out))


def _split(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Returns the runs, and the file that `--out` names; "" where it names none."""
    runs, out = [], None
    given = iter(arguments)
    for argument in given:
        option, equals, value = argument.partition("=")
        if option == "--out":
            out = value if equals else next(given, "")
        else:
            runs.append(argument)
    return runs, out


def _write_page(folders: Sequence[Path], page: Path) -> None:
    """Writes the page; without plotly it says how to get it."""
    from bydore_pyro.report import html_report
    from bydore_pyro.utils import DataError, appearing_file

    try:
        content = html_report(folders)
    except DataError as error:
        print(f"No {page.name}: {error}", file=sys.stderr)
        return
    with appearing_file(page) as aside:
        aside.write_text(content, encoding="utf-8")
    print(f"\nIn a browser: {page}")
