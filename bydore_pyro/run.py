"""A search in its run folder: data, checkpoints, progress, results."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bydore_pyro.checkpoint import load_checkpoint, save_checkpoint
from bydore_pyro.command_line import tell
from bydore_pyro.data.store import TokenStore
from bydore_pyro.domains import Domains
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.files import remove_half_written
from bydore_pyro.matching_search import MatchingSearch
from bydore_pyro.options import Options
from bydore_pyro.proxy import Proxy
from bydore_pyro.run_data import load_domains
from bydore_pyro.run_folder import RunFolder
from bydore_pyro.search import init_search, run_search
from bydore_pyro.search_results import Found, search_metrics, write_search
from bydore_pyro.search_state import SearchState, StepRecord

__all__ = ["is_finished", "search", "search_in", "write_inputs"]

CHECKPOINTS = "checkpoints"


def write_inputs(folder: RunFolder, options: Options, corpus: TokenStore, name: str) -> None:
    """Writes what goes into a run (`config.json` makes the folder one) and prints the options.

    Raises:
        DataError: When the run that is continued was begun on other tokens.
        RunFolderError: When it does not tell on which.
    """
    if folder.resumed:
        path = folder.path / "manifest.json"
        try:
            begun = str(json.loads(path.read_text(encoding="utf-8"))["sha256"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunFolderError(f"Expected the run's manifest, found {path}: {error}") from None
        if begun != corpus.sha256:
            raise DataError(
                f"Expected the data that {folder.path} was begun on ({begun[:12]}), found other "
                f"data ({corpus.sha256[:12]})"
            )
        return
    manifest = corpus.manifest()
    tokenizer = corpus.tokenizer / "tokenizer.json"
    folder.write_text("tokenizer.json", tokenizer.read_text(encoding="utf-8"))
    folder.write_json("manifest.json", manifest)
    folder.write_config(name, options.as_dict(), tell)


def search(options: Options, domains: Domains, folder: RunFolder, name: str) -> Found:
    """Runs the search behind a progress bar, with checkpoints, and writes what it found.

    Where it breaks off, what it found until then is written too, and the run can be continued.

    Raises:
        NonFiniteError: See `search_step`.
        OSError: When the disk is full; the last checkpoint stays.
    """
    write_inputs(folder, options, domains.corpus, name)
    seed, checkpoints = options.run.seed, folder.path / CHECKPOINTS
    model = options.language_model(domains.corpus.vocabulary, seed)
    proxy = Proxy(model, options.proxy, parallel=options.parallel())
    state = init_search(domains, proxy, options.search, options.network, seed=seed)
    if folder.resumed:
        if folder.writes:
            remove_half_written(folder.path)
        found = load_checkpoint(state, checkpoints, tell)
        if found:
            tell(f"going on from {found}")
        elif checkpoints.is_dir():
            tell("no sound checkpoint: beginning anew")
    every = options.run.checkpoint_every if folder.writes else 0
    try:
        with _progress(options, state, folder) as show:
            for record in run_search(state):
                show(record)
                if every and len(state.records) % every == 0:
                    save_checkpoint(state, checkpoints)
    except (Exception, KeyboardInterrupt) as error:
        _write_broken_off(state, options, folder, error)
        raise
    if every:
        save_checkpoint(state, checkpoints)
    tell("the last step is done: the posterior is weighed, drawn from and written")
    return write_search(state, options, folder)


def _write_broken_off(
    state: SearchState, options: Options, folder: RunFolder, error: BaseException
) -> None:
    stopped = {"stopped": str(error) or type(error).__name__, "steps": len(state.records)}
    wanted = options.run.checkpoint_every and folder.writes
    if isinstance(error, KeyboardInterrupt) and wanted and state.records:
        save_checkpoint(state, folder.path / CHECKPOINTS)
        tell(f"Go on with --resume {folder.path}")
    folder.write_json("metrics.json", {**stopped, "search": state.proxy.cost.report()})
    if state.records:
        write_search(state, options, folder)
        tell(f"The {len(state.records)} steps before it are in {folder.path}")


@contextmanager
def _progress(
    options: Options, state: SearchState, folder: RunFolder
) -> Iterator[Callable[[StepRecord], None]]:
    """Gives the block a function that shows and logs a step."""
    from tqdm import tqdm

    done, names = len(state.records), state.domains.names
    writer = None
    if options.run.log == "tensorboard" and folder.writes:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(folder.path / "tensorboard"), purge_step=done + 1)

    def show(record: StepRecord) -> None:
        leading = sorted(zip(-record.mean, names, strict=True))[:3]
        shown = ", ".join(f"{name} {-weight:.2f}" for weight, name in leading)
        told = ""
        if math.isfinite(record.validation_loss):
            told = f"validation {record.validation_loss:.3f}, "
        bar.set_postfix_str(told + shown, refresh=False)
        bar.update()
        if writer is not None:
            step = len(state.records)
            for loss in ("train_loss", "validation_loss", "loss", "kl_weight"):
                if math.isfinite(value := getattr(record, loss)):
                    writer.add_scalar(f"nats_per_token/{loss}", value, step)
            for k, name in enumerate(names):
                writer.add_scalar(f"weight/{name}", record.mean[k], step)
                if math.isfinite(record.g[k]):
                    writer.add_scalar(f"g/{name}", record.g[k], step)
            last = state.rounds[-1] if isinstance(state, MatchingSearch) and state.rounds else None
            if last is not None and last.step == step:
                writer.add_scalar("round/unexplained", last.unexplained, step)
                writer.add_scalar("round/scale", last.scale, step)

    steps = options.search.trained_steps
    with tqdm(total=steps, initial=done, desc="search", unit="step", mininterval=0.5) as bar:
        try:
            yield show
        finally:
            if writer is not None:
                writer.close()


def search_in(options: Options, path: Path, name: str, domains: Domains | None = None) -> Found:
    """Runs a search in a folder below another run's, or goes on with the one that is there.

    Args:
        options: Of the search.
        path: The folder.
        name: Of the run.
        domains: Where they are not those that the options name.
    """
    parallel = options.parallel()
    folder = RunFolder(path, resume=(path / "config.json").exists(), writes=parallel.is_main)
    parallel.wait()  # nobody writes before everybody has seen what is there
    found = search(options, domains or load_domains(options), folder, name)
    folder.write_json("metrics.json", search_metrics(options, found))
    parallel.wait()  # until everybody can read it
    return found


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a search that has run to its end."""
    try:
        return "stopped" not in json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False
