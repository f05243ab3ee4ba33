"""What the experiments share: a command line, fresh models on mixtures, variants of a search."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from inspect import get_annotations
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
import torch
from scipy.stats import spearmanr

from bydore_pyro.command_line import one_line_errors, parse_options, resumed_options, resumed_run
from bydore_pyro.data import Domains, TokenStore, held_out_sequences
from bydore_pyro.files import RunFolder
from bydore_pyro.mixture import jitter
from bydore_pyro.pieces import run_pieces
from bydore_pyro.proxy import Cost, Proxy, number_of_processes
from bydore_pyro.search import plain_problem, search
from bydore_pyro.setup import (
    SMOKE,
    Found,
    Options,
    begin_run,
    domains_of,
    is_finished,
    load_domains,
    results_of,
)
from bydore_pyro.trials import FinishedRun, PlannedRun, Problem, train_runs

T = TypeVar("T", bound=Options)
# Added to a seed: fresh models share neither weights nor batches with a search.
FRESH_SEED = 1_000_003
JUDGED = 512  # sequences of a domain by which models are judged, where it has so many
# What --help lists beside an experiment's own options.
FIRST = (
    *("data", "domains", "validation", "proxy", "steps", "budget", "device", "seed", "out"),
    "smoke",
)


def run_main(
    experiment: Callable[..., None],
    name: str,
    about: str,
    kind: type = Options,
    pile: dict[str, Any] | None = None,
    smoke: Mapping[str, Any] | None = None,
    resumable: bool = False,
    **defaults: Any,
) -> None:
    """Parses the command line and runs an experiment; what a user can mend ends with exit code 2.

    Args:
        experiment: Takes the options; a resumable one also the folder of the run that it is to go
            on with, or None.
        name: The experiment's name, also that of its run folder.
        about: The text of `--help`.
        kind: The class of the options: a dataclass whose fields are dataclasses of options.
        pile: Its defaults on top of those where the data is the Pile.
        smoke: What `--smoke` presets beside the others.
        resumable: Whether it takes `--resume RUN`.
        defaults: The experiment's own defaults of options.
    """
    arguments = sys.argv[1:]
    if any(value.startswith(("pile:", "--data=pile:")) for value in arguments):
        defaults |= pile or {}
    with one_line_errors(name):
        if number_of_processes() > 1:
            raise ValueError("Expected one process, found several; bydore search runs on them")
        if resumable:
            about += " --resume RUN goes on with a run that was stopped."
            resume = resumed_run(arguments)
            if resume is not None:
                experiment(resumed_options(resume, name, kind), resume)
                return
        options: Any = parse_options(
            arguments,
            name,
            about,
            kind,
            defaults,
            {**SMOKE, **(smoke or {})},
            common=common_options(kind),
        )
        if isinstance(options, Options):
            options = options.resolved()
        experiment(options, None) if resumable else experiment(options)


def common_options(kind: type) -> list[str]:
    """Returns what an experiment's `--help` lists: its own options, and the first of a search's."""
    parts = {name: [f.name for f in fields(part)] for name, part in get_type_hints(kind).items()}
    known = {name for names in parts.values() for name in names}
    own = [] if kind is Options else [n for part in get_annotations(kind) for n in parts[part]]
    return list(dict.fromkeys([*own, *(name for name in FIRST if name in known)]))


def verify(
    options: Options,
    domains: Domains,
    mixtures: Mapping[str, Mapping[str, float]],
    cost: Cost,
    runs: Path,
) -> dict[str, float]:
    """Trains a fresh model on each mixture, all from the same start, with the search's tokens.

    Args:
        options: Model, batches, steps, target, seed.
        domains: The text.
        mixtures: Weights by label.
        cost: Counts what the models spend.
        runs: Folder of finished models.

    Returns:
        The loss on judged text (`judged_loss`) by the mixture's label.
    """
    problem = plain_problem(options, domains, runs)
    found = fresh_models(problem, mixtures, 1, "fresh models")
    cost.add(problem.cost.report()["parts"], prefix="verify_")
    return {label: run.target_loss(problem.target) for label, (run,) in found.items()}


def require_judged(options: Options, corpus: TokenStore) -> None:
    """Refuses a target without judged text, before anything long starts.

    Raises:
        DataError: Names its first domain that has none.
    """
    domains = domains_of(options, corpus, options.run.seed)
    for name in domains.validation_shares:
        held_out_sequences(domains.corpus, name, domains.sequence_length, 0, 1, "judged")


def judged_loss(proxy: Proxy, domains: Domains, most: int = JUDGED) -> float:
    """Returns a model's loss on a target's judged text, which nothing else reads, nats per token.

    It is the mean of the target's domains by their shares. Of each the first `most` of its judged
    sequences are read, which are the same for every seed, or all where it has fewer.

    Raises:
        DataError: When a domain has none.
    """
    length, loss = domains.sequence_length, 0.0
    with proxy.cost.part("evaluate"):
        for name, share in domains.validation_shares.items():
            text = held_out_sequences(domains.corpus, name, length, 0, most, "judged")
            found = proxy.evaluate_tokens(text.tokens.to(domains.device), "evaluate").cpu()
            loss += share * float(text.losses(text.of_sequences(found)).mean())
    return loss


def fresh_models(
    problem: Problem,
    mixtures: Mapping[str, Mapping[str, float]],
    count: int,
    label: str,
    most: int = JUDGED,
) -> dict[str, list[FinishedRun]]:
    """Returns `count` models trained on each mixture, which tell their losses, by its name.

    They are read on the sequences that `judged_loss` reads, `most` of each domain. All mixtures get
    the same seeds, which no search uses. Finished models are kept, as proxies are; the problem's
    counter counts them too.
    """
    held_out = dict.fromkeys(problem.target, most)
    problem = dataclasses.replace(problem, side="judged", held_out=held_out)
    planned = [
        PlannedRun(
            weights={n: w / sum(weights.values()) for n, w in weights.items() if w > 0},
            steps=problem.steps,
            seed=problem.seed + FRESH_SEED + number,
        )
        for weights in mixtures.values()
        for number in range(count)
    ]
    runs = train_runs(problem, planned, label)
    return {name: runs[count * i : count * (i + 1)] for i, name in enumerate(mixtures)}


def searched(options: T, path: Path, seed: int, validation: Sequence[str]) -> tuple[T, Domains]:
    """Searches for targets, where that has not been done.

    Args:
        options: Of the search.
        path: Its folder; a search that was stopped there is gone on with.
        seed: Of the search.
        validation: The targets, as `--validation` takes them.

    Returns:
        The options of this search, and its domains.
    """
    run = dataclasses.replace(options.run, seed=seed, out=str(path))
    question = dataclasses.replace(options.question, validation=list(validation))
    own = dataclasses.replace(options, run=run, question=question)
    domains = load_domains(own)
    if not is_finished(path):
        resume = (path / "config.json").exists()
        search(own, domains, RunFolder(path, resume=resume), "search")
    return own, domains


def run_variants(
    options: Options,
    corpus: TokenStore,
    resume: Path | None,
    name: str,
    search: Callable[[Options, TokenStore, Path, str], Found],
    values: Sequence[str],
    cost: Cost,
) -> tuple[RunFolder, dict[str, dict[str, Any]]]:
    """Runs a search for each of several values, each in a folder of its own.

    Args:
        options: Of all of them.
        corpus: The tokens.
        resume: The run that is gone on with, or None.
        name: Of the experiment.
        search: Runs one search in a folder, for a value.
        values: Of what varies.
        cost: Counts what the searches cost.

    Returns:
        The folder of all of them, and by value: weights, their path and its jitter, the cost, which
        `cost` counts too, the validation losses of the steps, and the judged loss of the proxy at
        the end; losses in nats per token. Searches that were finished before are not run again.
    """
    require_judged(options, corpus)
    folder = begin_run(options, name, resume)
    if resume is None:
        folder.write_config(name, options.as_dict())
    compute = partial(variant_results, options, corpus, folder.path.absolute(), search)
    pieces = {f"{value}/variant": value for value in values}
    found = all_once(folder, compute, pieces, options)
    for one in found:
        cost.add(one["cost"]["parts"])
    return folder, dict(zip(values, found, strict=True))


def all_once(
    folder: RunFolder,
    compute: Callable[[Any, Callable[[int], object]], Mapping[str, Any]],
    pieces: Mapping[str, Any],
    options: Options,
) -> list[dict[str, Any]]:
    """Returns what is computed of each piece, on the options' cluster, or kept under its name."""
    known = {name: folder.kept(name).get() for name in pieces}
    left = [name for name, found in known.items() if found is None]
    on_gpu = options.device.type != "cpu"
    given: Any = {"label": "searches", "unit": "search", "gpus": int(on_gpu)}
    todo = [pieces[name] for name in left]
    for number, found in run_pieces(compute, todo, options.run.cluster, **given):
        folder.kept(left[number]).put(found)
        known[left[number]] = found
    return list(known.values())


def variant_results(
    options: Options,
    corpus: TokenStore,
    path: Path,
    search: Callable[[Options, TokenStore, Path, str], Found],
    value: str,
    advance: object,
) -> dict[str, Any]:
    """Returns what `run_variants` tells of one search, which it runs in a folder."""
    found = search(options, corpus, path / value, value)
    means, domains = found.path, domains_of(options, corpus, options.run.seed)
    return {
        "weights": found.mixture.as_dict(),
        "trajectory": np.round(means.astype(float), 5).tolist(),
        "jitter_second_half": jitter(means[len(means) // 2 :]),
        "validation_losses": list(found.validation_losses),
        "cost": found.proxy.cost.report(),
        "validation_loss_of_the_proxy": judged_loss(found.proxy, domains),
    }


def leave(
    folder: RunFolder,
    options: Any,
    content: Mapping[str, Any],
    cost: Cost,
    table: str,
    figure: str | None = None,
    packages: Sequence[str] = (),
    seed: int | None = None,
) -> None:
    """Writes an experiment's results and table; prints the table, and how to draw the figure.

    Results name the versions of `packages` too; the seed is that of the options when None.
    """
    seed = options.run.seed if seed is None else seed
    results = results_of(content, options, seed, cost, packages)
    folder.write_json("results.json", results)
    folder.write_text("table.md", table)
    here = folder.path
    print(table)
    print(f"In {here}: results.json, table.md and what is behind them.")
    if figure is not None:
        print(f"Draw it: python figures/{figure}.py {here / 'results.json'} --folder {here}")


def table_run(name: str, run: Any, resume: Path | None = None) -> RunFolder:
    """Returns the folder, with its options, of a run that needs no options of a search."""
    path = resume or Path(run.out or f"runs/{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    folder = RunFolder(path, resume=resume is not None)
    if resume is None:
        folder.write_config(name, {"run": vars(run)})
    return folder


def rank_of(predicted: np.ndarray, measured: np.ndarray) -> float:
    """Returns Spearman's rank correlation, 0 if the prediction is the same for all."""
    return float(spearmanr(predicted, measured).statistic) if np.ptp(predicted) > 0 else 0.0


def with_error(values: Sequence[float] | np.ndarray, form: str = "+.3f") -> str:
    """Returns a mean as text, with its standard error where there are several values."""
    count, error = len(values), ""
    if count > 1:
        error = f" ± {np.std(values, ddof=1) / count**0.5:{form.lstrip('+')}}"
    return f"{np.mean(values):{form}}{error}"


def rounded(value: Any, digits: int) -> Any:
    """Returns results as JSON knows them, their floats with so many digits."""
    if isinstance(value, Mapping):
        return {key: rounded(part, digits) for key, part in value.items()}
    if isinstance(value, (np.ndarray, torch.Tensor)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [rounded(part, digits) for part in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
