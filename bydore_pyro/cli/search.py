"""``bydore search``: the posterior over the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bydore_pyro import data, files, report, search, setup, terminal
from bydore_pyro.command_line import one_line_errors

# What `--help` lists; `--help-all` adds the rest.
COMMON = (
    *("data", "validation", "objective", "at_least", "proxy", "tokens", "target_tokens", "device"),
    *("out", "smoke"),
)


@one_line_errors("bydore search")
def search_command(arguments: Sequence[str]) -> None:
    """Finds the domain weights that suit a validation set, and writes a run folder. --resume RUN
    continues a run that was stopped."""
    about = search_command.__doc__ or ""
    options, resume = setup.options_or_resumed(
        arguments, "bydore search", about, setup.Options, common=COMMON
    )

    folder = run_search(options, resume).folder
    if folder.writes:
        print(report.report_text(folder.path))


@dataclass(frozen=True)
class Searched:
    """A search that has ended: its folder, its text, and what it found."""

    folder: files.RunFolder
    domains: data.Domains
    found: setup.Found


def run_search(options: setup.Options, resume: Path | None = None) -> Searched:
    """Runs a search, or continues that of a folder, and writes its page.

    Raises:
        DataError: See `load_domains`; for the rest see `search`.
    """
    folder = setup.begin_run(options, "search", resume)
    domains = setup.load_domains(options)
    found = search.search(options, domains, folder, "search")
    if folder.writes:
        terminal.tell(report.add_html_report(folder))
    return Searched(folder, domains, found)
