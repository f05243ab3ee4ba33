"""``bydore search``: the posterior over the weights, with one seed or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bydore_pyro.command_line import Checked, one_line_errors, option
from bydore_pyro.data import TokenStore
from bydore_pyro.files import RunFolder
from bydore_pyro.setup import Options, options_or_resumed

# What `--help` lists; `--help-all` adds the rest.
COMMON = (
    *("data", "validation", "objective", "at_least", "proxy", "tokens", "target_tokens", "device"),
    *("out", "smoke"),
)


@dataclass(frozen=True, kw_only=True)
class RepetitionConfig(Checked):
    """How often a search is repeated."""

    seeds: int = option(
        1,
        "Number of searches, with seeds from --seed on, whose results are compared.",
        least=1,
        most=1000,
    )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """All options of `bydore search`."""

    repetition: RepetitionConfig


@one_line_errors("bydore search")
def search_command(arguments: Sequence[str]) -> None:
    """Finds the domain weights that suit a validation set, and writes a run folder. --resume RUN
    continues a run that was stopped; --seeds N searches N times and compares the results."""
    about = search_command.__doc__ or ""
    options, resume = options_or_resumed(
        arguments, "bydore search", about, SearchOptions, common=COMMON
    )
    from bydore_pyro.proxy import number_of_processes
    from bydore_pyro.report import add_html_report, report_text
    from bydore_pyro.search import search
    from bydore_pyro.setup import begin_run, load_domains
    from bydore_pyro.terminal import tell

    if options.repetition.seeds > 1:
        if number_of_processes() > 1:
            raise ValueError("Expected --seeds 1 with several processes, found more")
        folder = _search_seeds(options, resume)
    else:
        folder = begin_run(options, "search", resume)
        search(options, load_domains(options), folder, "search")
    if folder.writes:
        tell(add_html_report(folder))
        print(report_text(folder.path))


def _search_seeds(options: SearchOptions, resume: Path | None) -> RunFolder:
    """Searches with several seeds, each in a folder of its own, and notes how they agree."""
    from bydore_pyro.answer import agreement
    from bydore_pyro.mixture import Mixture
    from bydore_pyro.pieces import run_pieces
    from bydore_pyro.setup import begin_run, is_finished, load_domains

    last = options.run.seed + options.repetition.seeds - 1
    replace(options.run, seed=last)  # it must be a seed too
    folder = begin_run(options, "search", resume)
    if resume is None:
        folder.write_config("search", options.as_dict())
    domains = load_domains(options)
    seeds = range(options.run.seed, last + 1)
    paths = {seed: folder.path.absolute() / f"seed-{seed}" for seed in seeds}
    left = [(seed, path) for seed, path in paths.items() if not is_finished(path)]
    search_one, on_gpu = (
        partial(_search_seed, options, domains.corpus),
        options.device.type != "cpu",
    )
    given: Any = {"label": "seeds", "unit": "seed", "gpus": int(on_gpu)}
    for _ in run_pieces(search_one, left, options.run.cluster, **given):
        pass
    mixtures = [Mixture.from_json(path / "mixture.json") for path in paths.values()]
    rows = agreement(mixtures).to_csv(index_label="domain")
    folder.write_text("agreement.csv", rows)
    return folder


def _search_seed(
    options: SearchOptions, corpus: TokenStore, piece: tuple[int, Path], advance: object
) -> None:
    """Searches with one seed; where it is a task of a cluster, its own pieces follow in turn."""
    from bydore_pyro.search import search_in

    seed, path = piece
    run = replace(options.run, seed=seed, out=str(path), cluster=None)
    search_in(replace(options, run=run), corpus, path, "search")
