"""``bydore search``: the posterior over the weights."""

from __future__ import annotations

from collections.abc import Sequence

from bydore_pyro import report, search, setup, terminal
from bydore_pyro.command_line import one_line_errors

# What `--help` lists; `--help-all` adds the rest.
COMMON = (
    *("data", "validation", "objective", "guard", "at_least", "proxy", "tokens", "target_tokens"),
    *("device", "out", "smoke"),
)


@one_line_errors("bydore search")
def search_command(arguments: Sequence[str]) -> None:
    """Finds the domain weights that suit a validation set, and writes a run folder. --resume RUN
    continues a run that was stopped."""
    about = search_command.__doc__ or ""
    options, resume = setup.options_or_resumed(
        arguments, "bydore search", about, setup.Options, common=COMMON
    )

    folder = setup.begin_run(options, "search", resume)
    search.search(options, setup.load_domains(options), folder, "search")
    if folder.writes:
        terminal.tell(report.add_html_report(folder))
        print(report.report_text(folder.path))
