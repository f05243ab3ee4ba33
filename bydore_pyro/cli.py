"""The command line: ``bydore COMMAND [options]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bydore_pyro.command_line import (
    fail,
    one_line_errors,
    parse_options,
    progress_bar,
    resumed_run,
)
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.prepare import prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import SPLITS, TokenStore
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.options import SMOKE, Options
from bydore_pyro.parallel import number_of_processes, quiet_unless_main

__all__ = [
    "PrepareConfig",
    "RepetitionConfig",
    "SearchOptions",
    "main",
    "prepare_command",
    "report_command",
    "search_command",
]


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """What is prepared, and where it goes."""

    data: str = field(
        metadata={
            "help": "'environment' (the text of the Python environment); a folder whose "
            "sub-folders or files are domains; a JSON or YAML file that lists domains; 'pile:' "
            "with the folder or hub name of a copy of the Pile; with --domain_column a file or "
            "folder of rows, or 'hub:' with a dataset's name."
        }
    )
    out: str = field(metadata={"help": "Folder of the token store; it must not exist yet."})
    processes: int | None = field(
        default=None,
        metadata={"help": "Processes that encode, beside the one that reads; one a core if not "
                          "given, 0 encodes in this one."},
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name in ("data", "out"):
            if not getattr(self, name):
                raise ValueError(f"Expected a value for --{name}, found an empty one")
        if self.processes is not None and not 0 <= self.processes <= 1024:
            raise ValueError(f"Expected processes in [0, 1024], actual {self.processes}")


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """All options of `bydore prepare`, by the part that they configure."""

    prepare: PrepareConfig
    corpus: CorpusConfig
    rows: RowConfig
    tokenizer: TokenizerConfig


def prepare_command(arguments: Sequence[str]) -> None:
    """Turns domains of text into a token store, which everything else reads with --data STORE.
    Stopped, the same command goes on where it was."""
    name = "bydore prepare"

    def tell(line: str) -> None:
        print(line, file=sys.stderr)

    with one_line_errors(name):
        options = parse_options(
            arguments,
            name,
            prepare_command.__doc__ or "",
            PrepareOptions,
            defaults={"domain_megabytes": 0.0},
        )
        given = options.prepare
        plan = make_plan(given.data, options.corpus, options.rows, options.tokenizer, tell)
        processes = given.processes if given.processes is not None else os.cpu_count() or 1
        with progress_bar() as bar:
            store = prepare(plan, Path(given.out), processes=processes, progress=tell, bar=bar)
        print(store_table(store))
        print(f"\nIn {store.folder}. Next: bydore search --data {store.folder} "
              "--validation DOMAIN")  # fmt: skip


def store_table(store: TokenStore) -> str:
    """Returns what a store holds as text."""
    width = max(6, *map(len, store.names))
    lines = [f"{'domain':<{width}}  {'tokens':>14}  {'held out':>12}  {'documents':>11}  "
             f"{'duplicates':>10}  {'in validation':>13}  {'skipped':>8}"]  # fmt: skip
    for name in store.names:
        entry = store.index["domains"][name]
        tokens, held_out = (entry[split]["tokens"] for split in SPLITS)
        documents = sum(entry[split]["documents"] for split in SPLITS)
        lines.append(
            f"{name:<{width}}  {tokens:>14,}  {held_out:>12,}  {documents:>11,}  "
            f"{entry['duplicates_dropped']:>10,}  {entry['in_validation_dropped']:>13,}  "
            f"{entry['skipped']:>8,}"
        )
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class RepetitionConfig:
    """How often a search is repeated."""

    seeds: int = field(
        default=1,
        metadata={"help": "Searches with so many seeds, from --seed on, and their agreement."},
    )

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= 1000:
            raise ValueError(f"Expected seeds in [1, 1000], actual {self.seeds}")


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """All options of `bydore search`."""

    repetition: RepetitionConfig


def search_command(arguments: Sequence[str]) -> None:
    """Searches the weights of domains for a validation set, and leaves a run folder. --resume RUN
    goes on with a run that was stopped; --seeds N searches N times and reports the agreement."""
    from bydore_pyro.report import report_text
    from bydore_pyro.run import begin_run, load_domains, resumed_options, search, search_metrics

    name = "bydore search"
    quiet_unless_main()
    with one_line_errors(name):
        resume = resumed_run(arguments)
        if resume is not None:
            options = resumed_options(resume, SearchOptions)
        else:
            about = search_command.__doc__ or ""
            options = parse_options(
                arguments, name, about, SearchOptions, presets={"--smoke": SMOKE}
            )
            options = options.resolved()
        if options.repetition.seeds > 1:
            if number_of_processes() > 1:
                raise ValueError("Expected --seeds 1 with several processes, found more")
            print(_search_seeds(options, resume))
            return
        folder = begin_run(options, "search", resume)
        found = search(options, load_domains(options), folder, "search")
        folder.write_json("metrics.json", search_metrics(options, found))
        if folder.writes:
            print(report_text(folder.path))


def _search_seeds(options: SearchOptions, resume: Path | None) -> str:
    """Searches with several seeds, each in a folder of its own, and returns how they agree."""
    from bydore_pyro.agreement import agreement
    from bydore_pyro.mixture import Mixture
    from bydore_pyro.report import agreement_table
    from bydore_pyro.run import begin_run, is_finished, search_in, tell

    last = options.run.seed + options.repetition.seeds - 1
    replace(options.run, seed=last)  # it must be a seed too
    folder = begin_run(options, "search", resume)
    if resume is None:
        folder.write_config("search", options.as_dict(), tell)
    mixtures = []
    for seed in range(options.run.seed, options.run.seed + options.repetition.seeds):
        path = folder.path / f"seed-{seed}"
        if not is_finished(path):
            own = replace(options, run=replace(options.run, seed=seed, out=str(path)))
            search_in(own, path, "search")
        mixtures.append(Mixture.from_json(path / "mixture.json"))
    frame = agreement(mixtures)
    folder.write_text("agreement.csv", frame.to_csv(index_label="domain"))
    return f"{agreement_table(frame, len(mixtures))}\nIn {folder.path}: agreement.csv, seed-*."


def report_command(arguments: Sequence[str]) -> None:
    """Prints what runs found: bydore report RUN ..."""
    from bydore_pyro.report import report_text

    name = "bydore report"
    if not arguments or any(argument.startswith("-") for argument in arguments):
        if set(arguments) & {"-h", "--help"}:
            print(f"usage: {name} RUN ...\n\n{report_command.__doc__}")
            return
        fail(name, f"Expected the folders of runs, found {' '.join(arguments) or 'none'}")
    with one_line_errors(name):
        for argument in arguments:
            if len(arguments) > 1:
                print(f"\n== {argument}")
            print(report_text(Path(argument)))


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "prepare": prepare_command,
    "search": search_command,
    "report": report_command,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print("usage: bydore COMMAND [options]\n")
        for name, command in COMMANDS.items():
            print(f"  {name:<10} {' '.join((command.__doc__ or '').split())}")
        print("\nbydore COMMAND --help explains a command's options.")
        return
    if given[0] not in COMMANDS:
        fail("bydore", f"Expected a command ({', '.join(COMMANDS)}), found '{given[0]}'")
    COMMANDS[given[0]](given[1:])
