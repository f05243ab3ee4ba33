"""``bydore report``: what runs found, as text and as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options
from bydore_pyro.files import appearing_file

COMMON = ("out",)  # what `--help` lists


@dataclass(frozen=True, kw_only=True)
class PageConfig(Checked):
    """Which runs are reported, and where the page goes."""

    folders: list[str] = option(
        MISSING, "Folders of runs. Several runs are compared.", positional="RUN"
    )
    out: str | None = option(
        None,
        "File for the page. Default: report.html, in the folder of one run, or in the working "
        "directory.",
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """All options of `bydore report`."""

    page: PageConfig


@one_line_errors("bydore report")
def report_command(arguments: Sequence[str]) -> None:
    """Prints the results of runs and writes an HTML page. The page needs neither network nor
    server."""
    about = report_command.__doc__ or ""
    given = parse_options(arguments, "bydore report", about, ReportOptions, common=COMMON).page
    folders = [Path(run) for run in given.folders]
    from bydore_pyro.report import comparison_text, html_report, report_text

    print(comparison_text(folders) if len(folders) > 1 else report_text(folders[0]))
    page = Path(given.out or (folders[0] if len(folders) == 1 else Path()) / "report.html")
    with appearing_file(page) as aside:
        aside.write_text(html_report(folders), encoding="utf-8")
    print(f"\nIn a browser: {page}")
