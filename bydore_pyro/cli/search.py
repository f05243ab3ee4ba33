"""``bydore search``: the posterior over the weights."""

from __future__ import annotations

from collections.abc import Sequence

from bydore_pyro.command_line import one_line_errors
from bydore_pyro.setup import Options, options_or_resumed

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
    options, resume = options_or_resumed(arguments, "bydore search", about, Options, common=COMMON)
    from bydore_pyro.report import add_html_report, report_text
    from bydore_pyro.search import search
    from bydore_pyro.setup import begin_run, load_domains
    from bydore_pyro.terminal import tell

    folder = begin_run(options, "search", resume)
    search(options, load_domains(options), folder, "search")
    if folder.writes:
        tell(add_html_report(folder))
        print(report_text(folder.path))
