"""``bydore report``: what runs found, as text and as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from bydore_pyro import files, report
from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options

COMMON = ("out", "domain_tokens")  # what `--help` lists


@dataclass(frozen=True, kw_only=True)
class PageConfig(Checked):
    """Which runs are reported, and where the page goes."""

    folders: list[str] = option(
        MISSING, "Folders of runs. Several runs are compared.", positional="RUN"
    )
    out: str | None = option(
        None,
        "File for the page of one run. Default: report.html in its folder.",
    )
    domain_tokens: list[str] = option(
        [],
        "Tokens that there are of each domain, by which the epochs of one run count: a file, such "
        "as 'web: 1.3T', or NAME=TOKENS. Default: as the run counted them.",
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """All options of `bydore report`."""

    page: PageConfig


@one_line_errors("bydore report")
def report_command(arguments: Sequence[str]) -> None:
    """Prints the results of runs. For one run it also writes an HTML page, which needs neither
    network nor server. Several runs are compared in a table, without a page."""
    about = report_command.__doc__ or ""
    given = parse_options(arguments, "bydore report", about, ReportOptions, common=COMMON).page
    runs = [Path(run) for run in given.folders]

    for name in ("out", "domain_tokens"):
        if getattr(given, name) and len(runs) > 1:
            raise ValueError(f"Expected one run with --{name}, found {len(runs)}")
    print(report.report_text(*runs, domain_tokens=given.domain_tokens))
    if len(runs) == 1:
        page = Path(given.out or runs[0] / "report.html")
        with files.appearing_file(page) as aside:
            aside.write_text(report.html_report(runs[0], given.domain_tokens), encoding="utf-8")
        print(f"\nIn a browser: {page}")
