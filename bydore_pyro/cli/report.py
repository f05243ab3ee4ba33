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
    """Prints the results of runs; of one run it writes an HTML page too."""
    parser = _Parser(
        "bydore report",
        description="Prints the results of a run and writes them as an HTML page that needs "
        "neither network nor server. Several runs are compared in a table, without a page.",
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", "--help-all", action="help", help="Show this help.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="File for the page of one run. Default: report.html in its folder.",
    )
    given = parser.parse_args(arguments)
    runs: list[Path] = given.runs
    from bydore_pyro.report import html_report, report_text

    if given.out is not None and len(runs) > 1:
        raise ValueError(f"Expected one run with --out, found {len(runs)}")
    print(report_text(*runs))
    if len(runs) == 1:
        page = given.out or runs[0] / "report.html"
        with appearing_file(page) as aside:
            aside.write_text(html_report(runs[0]), encoding="utf-8")
        print(f"\nIn a browser: {page}")
