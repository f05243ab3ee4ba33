"""A search in its run folder: data, checkpoints, progress, results."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bydore_pyro.analysis import plot_weights, trajectory_of
from bydore_pyro.data import Domains, TokenStore
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Proxy
from bydore_pyro.runs.answers import Answer, TrialPlan, answer_of, trial_plan
from bydore_pyro.runs.domains import (
    belongs_of,
    language_model,
    processes,
    search_domains,
    tell_of_few_documents,
)
from bydore_pyro.runs.metrics import learning_of, search_metrics, spent
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.record import Metrics, plain, read_as
from bydore_pyro.search import (
    MatchingSearch,
    SearchState,
    StepRecord,
    init_search,
    keep_measurement,
    load_checkpoint,
    run_search,
    save_checkpoint,
)
from bydore_pyro.utils import (
    DataError,
    Interrupted,
    RunFolder,
    RunFolderError,
    check_belongs,
    deferred,
    join_cluster,
    remove_half_written,
    resume_command,
    return_freed_memory,
    tell,
    versions,
)

__all__ = ["begin_run", "is_finished", "search", "search_in", "write_inputs"]

# Of a progress bar that does not tell how long the rest takes.
WITHOUT_REST = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
CHECKPOINTS, TRIALS = "checkpoints", "trials"
# Of the options of a run: where things lie (the data's hash decides) and how they are told.
FREE = ("data", "cache", "out", "device", "cluster", "checkpoint_every")


def begin_run(options: Options, name: str, resume: Path | None) -> RunFolder:
    """Returns the run's folder, checked but not made, the same one in every process; with `resume`
    the one that is continued. Joins the cluster that the options name."""
    join_cluster(options.run.cluster)
    parallel = processes(options)
    if resume is not None:
        return RunFolder(resume, resume=True, writes=parallel.is_main)
    now = time.strftime("%Y%m%d-%H%M%S")
    path = parallel.agree(options.run.out or f"runs/{name}-{now}")
    return RunFolder(Path(path), writes=parallel.is_main)


def write_inputs(folder: RunFolder, options: Options, corpus: TokenStore, name: str) -> None:
    """Writes what goes into a run (`config.json` makes the folder one) and prints the options.

    Raises:
        DataError: When the run that is continued was begun on other tokens.
        RunFolderError: When it does not tell on which, or was begun with other options.
    """
    if folder.resumed:
        path, asked = (folder.path / name for name in ("manifest.json", "config.json"))
        try:
            begun = str(json.loads(path.read_text(encoding="utf-8"))["sha256"])
            path = asked
            parts = _deciding(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            told = f"Expected the run's manifest and options, found {path}: {error}"
            raise RunFolderError(told) from None
        check_belongs(asked, parts, _deciding(options.as_dict()), tell)
        if begun != corpus.sha256:
            raise DataError(
                f"Expected the data with which {folder.path} was started ({begun[:12]}), found "
                f"other data ({corpus.sha256[:12]})"
            )
        return
    tokenizer = corpus.tokenizer / "tokenizer.json"
    folder.write_text("tokenizer.json", tokenizer.read_text(encoding="utf-8"))
    folder.write_json("manifest.json", corpus.index)
    folder.write_config(name, options.as_dict(), tell)


def search(
    options: Options,
    domains: Domains,
    folder: RunFolder,
    name: str,
    plan: TrialPlan | None = None,
    *,
    keep: bool = True,
) -> Answer:
    """Runs the search behind a progress bar, with checkpoints, and writes what it found.

    Where it breaks off, the steps until then are written, no mixture, and the run can be continued.
    The trials after it are those of the plan; without one, those that the options ask for. With
    `keep` the folder keeps what the rounds measured, for `bydore ask`.

    Raises:
        DataError: When the tokens change while they are read.
        Interrupted: When a signal asked for the end; a checkpoint of the last step was saved.
        OSError: When the disk is full; the last checkpoint stays.
        RunFolderError: When the run that is continued has other options than it was begun with, or
            the folder is deleted, moved or replaced meanwhile.
    """
    seed = options.run.seed
    model = language_model(options, domains.corpus.vocabulary, seed)  # nothing is written without
    write_inputs(folder, options, domains.corpus, name)
    tell_of_few_documents(domains)
    run = {**_deciding(options.as_dict()), "versions": versions()}
    if plan is None:
        plan = trial_plan(options, domains, folder.path / TRIALS)
    proxy = Proxy(model, options.proxy, parallel=processes(options))
    state = init_search(domains, proxy, options.search, seed=seed)
    if isinstance(state, MatchingSearch):
        state.cluster = options.run.cluster
        if keep and folder.writes:
            belongs = belongs_of(options, domains)
            state.keep = partial(keep_measurement, folder.path, belongs=belongs)
    checkpoints = folder.path / CHECKPOINTS
    if folder.resumed:
        saved = load_checkpoint(state, checkpoints, tell, run, writes=folder.writes)
        if folder.writes:
            remove_half_written(folder.path)
        if saved:
            tell(f"going on from {saved}")
        elif checkpoints.is_dir():
            tell("no sound checkpoint: beginning anew")
    try:
        with deferred() as asked:
            _train(state, options, folder, run, asked)
        trials = "" if plan is None else f", {plan.count} trial runs of {plan.steps} steps each"
        tell(
            f"the last step is done; next: the posterior (it may take minutes){trials}, the answer"
        )
        found = answer_of(state, options, plan)
        folder.write_text("mixture.json", found.mixture.to_json() + "\n")
        if found.posterior is not None:
            folder.write_posterior("posterior.nc", found.posterior)
            folder.write_figure("posterior.png", plot_weights(found.mixture))
        folder.write_dataset("trajectory.nc", trajectory_of(state))
        return_freed_memory()
    except (Exception, KeyboardInterrupt) as error:
        try:
            _write_broken_off(state, folder, error)
        finally:
            if isinstance(error, Interrupted):  # all of them were: none ends before it is saved
                proxy.parallel.wait()
        raise
    if warning := learning_of(state, options.run.checkpoint).warning:
        tell(f"warning: {warning}")
    return found


def _deciding(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that decide what a run finds, by part."""
    kept = {name: value for name, value in parts["run"].items() if name not in FREE}
    return {**parts, "name": None, "run": kept}


def _train(
    state: SearchState,
    options: Options,
    folder: RunFolder,
    run: Mapping[str, Any],
    asked: Callable[[], int],
) -> None:
    """Takes all steps, and saves: every so often, before a round, at the end and when asked to."""
    from tqdm import tqdm

    checkpoints = folder.path / CHECKPOINTS
    matching = isinstance(state, MatchingSearch)  # whose rounds take as long as many steps
    every, parallel = options.run.checkpoint_every, state.proxy.parallel

    def save() -> None:
        if every and folder.writes:
            save_checkpoint(state, checkpoints, run)

    try:
        total, done = state.config.trained_steps, len(state.records)
        about: Any = {"desc": "search", "unit": "step", "mininterval": 0.5}
        about |= {"bar_format": WITHOUT_REST} if matching else {}
        with tqdm(total=total, initial=done, **about) as bar:
            _announce(bar, state)
            for record in run_search(state):
                _show(bar, record, state, folder)
                done = len(state.records)
                if number := parallel.largest(asked()):
                    raise Interrupted(number)
                # A round is the longest step; who is killed in one does not lose those before.
                if every and (done % every == 0 or _round_is_next(state)):
                    save()
                _announce(bar, state)
    except Interrupted:
        save()
        raise
    save()


def _announce(bar: Any, state: SearchState) -> None:
    """Shows that a round is next: the bar stands still in it."""
    if isinstance(state, MatchingSearch) and _round_is_next(state):
        number, of = len(state.rounds) + 1, state.config.rounds
        count = state.domains.num_domains
        told = f"round {number} of {of}: measuring the gradients of {count} domains"
        bar.set_postfix_str(told)


def _round_is_next(state: SearchState) -> bool:
    rounds = state.config.measured_steps if isinstance(state, MatchingSearch) else ()
    return len(state.records) + 1 in rounds


def _write_broken_off(state: SearchState, folder: RunFolder, error: BaseException) -> None:
    """Tells where the run can be gone on from, and writes the steps until then, but no mixture."""
    if not folder.writes:
        return
    done = len(state.records)
    stopped = str(error) or type(error).__name__
    told = Metrics(stopped=stopped, steps=done, search=spent(state.proxy.cost))
    folder.write_json("metrics.json", plain(told))
    path = folder.path / CHECKPOINTS / f"step-{done:06d}"
    if isinstance(error, Interrupted):
        saved = path.is_dir()
        if saved:
            tell(f"Saved {path}. Go on with: {resume_command(folder.path)}")
        # A kill may follow soon, and the steps so far are in the checkpoint.
        if state.is_done or (saved and not error.asked_by_hand):
            return
    if state.records:
        folder.write_dataset("trajectory.nc", trajectory_of(state))
        tell(f"The {done} steps before it are in {folder.path / 'trajectory.nc'}")


def _show(bar: Any, record: StepRecord, state: SearchState, folder: RunFolder) -> None:
    """Shows a step; where the folder is no more the run's, tells what was found and raises."""
    names = state.domains.names
    if folder.is_lost:
        found = ", ".join(f"{n} {w:.4f}" for n, w in zip(names, record.mean, strict=True))
        tell(f"The weights after {len(state.records)} steps were: {found}")
    folder.require()
    leading = sorted(zip(-record.mean, names, strict=True))[:3]
    shown = ", ".join(f"{name} {-weight:.2f}" for weight, name in leading)
    if record.mean.min() == record.mean.max():
        shown = "no weights yet"
    if math.isfinite(record.validation_loss):
        shown = f"validation {record.validation_loss:.3f}, {shown}"
    bar.set_postfix_str(shown, refresh=False)
    bar.update()


def search_in(
    options: Options, corpus: TokenStore, path: Path, name: str, plan: TrialPlan | None = None
) -> Answer:
    """Runs a search in a folder below another run's, or goes on with the one that is there."""
    parallel = processes(options)
    folder = RunFolder(path, resume=(path / "config.json").exists(), writes=parallel.is_main)
    parallel.wait()  # nobody writes before everybody has seen what is there
    domains = search_domains(options, corpus, options.run.seed)
    found = search(options, domains, folder, name, plan, keep=False)
    folder.write_json("metrics.json", plain(search_metrics(options, found)))
    parallel.wait()  # until everybody can read it
    return found


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a search that has run to its end, with the mixture that it wrote."""
    try:
        metrics = read_as(Metrics, folder / "metrics.json")
        mixture = Mixture.from_json(folder / "mixture.json")
        return not metrics.stopped and metrics.mixture_sha256 == mixture.sha256
    except (OSError, ValueError):
        return False
