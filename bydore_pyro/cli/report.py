"""``bydore report``: what runs found, as text and as an HTML page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bydore_pyro.command_line import one_line_errors
from bydore_pyro.files import appearing_file


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"Expected the folders of runs, and --out FILE at most: {message}")


@one_line_errors("bydore report")
def report_command(arguments: Sequence[str]) -> None:
    """Prints the results of runs and writes an HTML page."""
    parser = _Parser(
        "bydore report",
        description="Prints the results of runs and writes them as one HTML page that needs "
        "neither network nor server. Several runs are compared.",
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", "--help-all", action="help", help="Show this help.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="File for the page. Default: report.html, in the folder of one run, or in the working "
        "directory.",
    )
    given = parser.parse_args(arguments)
    folders: list[Path] = given.runs
    from bydore_pyro.report import comparison_text, html_report, report_text

    print(comparison_text(folders) if len(folders) > 1 else report_text(folders[0]))
    page = given.out or (folders[0] if len(folders) == 1 else Path()) / "report.html"
    with appearing_file(page) as aside:
        aside.write_text(html_report(folders), encoding="utf-8")
    print(f"\nIn a browser: {page}")
