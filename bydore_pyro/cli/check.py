"""``bydore check``: predictions of a finished search beside what fresh proxies reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from bydore_pyro import report, setup, terminal
from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options

# What `--help` lists.
COMMON = ("mixture", "baseline", "seeds", "tokens", "decay", "cluster", "out")


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """Which search is checked."""

    run: str = option(MISSING, "Folder of a search by matching.", positional="RUN")


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """All options of `bydore check`."""

    check: setup.CheckConfig
    searched: RunConfig


@one_line_errors("bydore check")
def check_command(arguments: Sequence[str]) -> None:
    """Trains the proxy on mixtures, and compares its losses with the predicted ones. Runs that are
    as long as the search then count for bydore ask RUN too. Finished runs are kept; the same
    command continues a check that was stopped."""
    about = check_command.__doc__ or ""
    options = parse_options(arguments, "bydore check", about, CheckOptions, common=COMMON)
    from bydore_pyro.check import check, results_file

    kept = "Finished and begun runs are kept. Go on with the same command"
    with terminal.told_if_stopped(kept):
        found = check(Path(options.searched.run), options.check)
    print(report.check_text(found))
    print(f"\nIn {results_file(found, options.check)}")
