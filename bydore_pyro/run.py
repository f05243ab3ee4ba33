"""A search from its options to its run folder: data, checkpoints, progress, results."""

from __future__ import annotations

import dataclasses
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from bydore_pyro.checkpoint import load_checkpoint, save_checkpoint
from bydore_pyro.command_line import parse_options, progress_bar, resumed_run
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokens import load_tokens
from bydore_pyro.diagnostics import (
    domain_summary,
    jitter,
    mixture_of,
    posterior_of,
    search_guide_fit,
    trajectory_of,
)
from bydore_pyro.domains import Domains
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.files import remove_half_written
from bydore_pyro.mixture import Mixture
from bydore_pyro.options import SMOKE, Options
from bydore_pyro.proxy import Proxy
from bydore_pyro.run_folder import RunFolder, provenance
from bydore_pyro.search import SearchState, StepRecord, averaged_window, init_search, run_search

if TYPE_CHECKING:
    import pandas

__all__ = [
    "Found",
    "begin_run",
    "domains_of",
    "is_finished",
    "largest_weights",
    "load_domains",
    "options_or_resumed",
    "peak_memory_megabytes",
    "resumed_options",
    "run_epochs",
    "search",
    "search_in",
    "search_metrics",
    "tell",
    "uniform_weights",
]

CHECKPOINTS = "checkpoints"
T = TypeVar("T", bound=Options)


@dataclass(frozen=True)
class Found:
    """A finished search and its mixture; `summary` is None where it learned no posterior."""

    state: SearchState
    mixture: Mixture
    summary: pandas.DataFrame | None


def tell(line: str) -> None:
    """Prints a line of progress."""
    print(line, file=sys.stderr)


def load_domains(options: Options) -> Domains:
    """Checks everything that can be checked before anything long starts, and loads the data.

    Raises:
        DataError: When data, domains, validation set or proxy are not what the run needs.
    """
    run = options.run
    if run.log == "tensorboard":
        _summary_writer()
    validation = run.validation_shares()
    model = options.language_model(vocabulary=300, seed=0)  # a wrong config folder shows here
    longest = getattr(model.config, "max_position_embeddings", run.sequence_length)
    if run.sequence_length > longest:
        raise DataError(
            f"Expected sequence_length <= {longest}, the most that {run.proxy} takes, "
            f"found {run.sequence_length}"
        )
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=options.device))
    with progress_bar() as bar:
        corpus = load_tokens(
            run.data,
            options.corpus,
            options.tokenizer,
            options.rows,
            needed=(*validation, *(run.domains or ())),
            cache=Path(run.cache) if run.cache else None,
            progress=tell,
            bar=bar,
        )
    domains = domains_of(options, corpus, run.seed)
    largest_weights(options, domains)
    return domains


def domains_of(options: Options, corpus: TokenStore, seed: int) -> Domains:
    """Returns the options' domains and validation set, in the orders of a seed."""
    return Domains(
        corpus,
        options.run.validation_shares(),
        names=options.run.domains,
        sequence_length=options.run.sequence_length,
        validation_sequences=options.run.validation_sequences,
        seed=seed,
        device=options.device,
    )


def largest_weights(options: Options, domains: Domains) -> dict[str, float] | None:
    """Returns the largest weights that `max_epochs` allows, None without it.

    Raises:
        DataError: When the domains hold too little text for a run within them.
    """
    epochs = options.run.max_epochs
    if epochs is None:
        return None
    most = domains.most_weights(epochs, options.run_tokens)
    Mixture(names=domains.names, weights=tuple(uniform_weights(domains).values())).capped(most)
    return most


def uniform_weights(domains: Domains) -> dict[str, float]:
    """Returns ``1 / K`` for every domain."""
    return dict.fromkeys(domains.names, 1 / domains.num_domains)


def begin_run(options: Options, name: str, resume: Path | None) -> RunFolder:
    """Returns the run's folder, checked but not made; with `resume` the one that is continued."""
    writes = options.parallel().is_main
    if resume is not None:
        return RunFolder(resume, resume=True, writes=writes)
    path = Path(options.run.out or f"runs/{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    return RunFolder(path, writes=writes)


def resumed_options(folder: Path, kind: type[T]) -> T:
    """Returns the options, of a class of `Options`, that a run was begun with.

    Raises:
        RunFolderError: When the folder holds no run.
    """
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return kind.from_dict(content)
    except (OSError, ValueError, TypeError) as error:
        raise RunFolderError(f"Expected a run in {folder}, found none: {error}") from None


def options_or_resumed(
    arguments: Sequence[str],
    name: str,
    about: str,
    kind: type[T],
    smoke: Mapping[str, Any] = SMOKE,
) -> tuple[T, Path | None]:
    """Returns the options of a command line, and the folder of the run that `--resume` names.

    Args:
        arguments: Of the command line.
        name: The command.
        about: The text of `--help`.
        kind: The class of the options.
        smoke: What `--smoke` presets.

    Raises:
        RunFolderError: When `--resume` names no run.
        ValueError: When other options stand beside `--resume`.
    """
    resume = resumed_run(arguments)
    if resume is not None:
        return resumed_options(resume, kind), resume
    options = parse_options(arguments, name, about, kind, presets={"--smoke": smoke})
    return options.resolved(), None


def write_inputs(folder: RunFolder, options: Options, corpus: TokenStore, name: str) -> None:
    """Writes what goes into a run (`config.json` makes the folder one) and prints the options.

    Raises:
        DataError: When the run that is continued was begun on other tokens.
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
        tell(f"going on from {found}" if found else "no sound checkpoint: beginning anew")
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
        writer = _summary_writer()(str(folder.path / "tensorboard"), purge_step=done + 1)

    def show(record: StepRecord) -> None:
        leading = sorted(zip(-record.mean, names, strict=True))[:3]
        shown = ", ".join(f"{name} {-weight:.2f}" for weight, name in leading)
        bar.set_postfix_str(f"validation {record.validation_loss:.3f}, {shown}", refresh=False)
        bar.update()
        if writer is not None:
            step = len(state.records)
            for loss in ("train_loss", "validation_loss", "loss", "kl_weight"):
                writer.add_scalar(f"nats_per_token/{loss}", getattr(record, loss), step)
            for k, name in enumerate(names):
                writer.add_scalar(f"weight/{name}", record.mean[k], step)
                writer.add_scalar(f"g/{name}", record.g[k], step)

    steps = options.search.steps
    with tqdm(total=steps, initial=done, desc="search", unit="step", mininterval=0.5) as bar:
        try:
            yield show
        finally:
            if writer is not None:
                writer.close()


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "Expected the package tensorboard for --log tensorboard, found none: "
            "pip install 'bydore-pyro[target]'"
        ) from None
    return SummaryWriter


def write_search(state: SearchState, options: Options, folder: RunFolder) -> Found:
    """Writes mixture, trajectory and pictures; of a posterior its draws and their summary too."""
    import matplotlib

    matplotlib.use("Agg")
    from bydore_pyro.plots import plot_losses, plot_posterior, plot_trajectory

    corpus, trajectory, summary = state.domains.corpus, trajectory_of(state), None
    posterior = posterior_of(state) if state.config.learner == "bayesian" else None
    mixture = mixture_of(
        state, posterior, tokenizer=corpus.tokenizer_sha256, data_sha256=corpus.sha256
    )
    most = largest_weights(options, state.domains)
    if most is not None:
        mixture = mixture.capped(most)
    folder.write_text("mixture.json", mixture.to_json() + "\n")
    if posterior is not None:
        folder.write_posterior("posterior.nc", posterior)
        summary = domain_summary(posterior)
        folder.write_text("summary.csv", summary.to_csv(index_label="domain"))
        folder.write_figure("posterior.png", plot_posterior(posterior))
    folder.write_dataset("trajectory.nc", trajectory)
    folder.write_figure("trajectory.png", plot_trajectory(trajectory, averaged_window(state).start))
    folder.write_figure("losses.png", plot_losses(trajectory))
    return Found(state, mixture, summary)


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
    return found


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a search that has run to its end."""
    try:
        return "stopped" not in json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def search_metrics(options: Options, found: Found) -> dict[str, Any]:
    """Returns what a search cost and what it reached, as plain values for `metrics.json`."""
    state = found.state
    names, last = state.domains.names, state.records[-1]
    means = np.stack([record.mean for record in state.records])
    metrics: dict[str, Any] = {
        "seed": options.run.seed,
        "steps": len(state.records),
        "search": state.proxy.cost.report(),
        "jitter_second_half": jitter(means[len(means) // 2 :]),
        "last_weights": dict(zip(names, means[-1].tolist(), strict=True)),
        "epochs": state.domains.epochs(),
        "run_tokens": options.run_tokens,
        "run_epochs": run_epochs(options, state.domains, found.mixture),
        "validation_sequences": len(state.domains.validation),
        "peak_memory_megabytes": peak_memory_megabytes(),
        "device": str(options.device),
        "threads": torch.get_num_threads(),
        **provenance(),
    }
    if state.config.hypergradient == "finite_difference" and state.measure.error is not None:
        metrics["hypergradient_relative_error"] = state.measure.error
    if found.summary is not None:
        fit = search_guide_fit(state)
        khat = fit.khat if math.isfinite(fit.khat) else "infinite"
        metrics["guide_fit"] = {**dataclasses.asdict(fit), "khat": khat}
        metrics["last_concentration_sum"] = float((last.concentration / last.rate).sum())
    return metrics


def run_epochs(options: Options, domains: Domains, mixture: Mixture) -> dict[str, float]:
    """Returns how many times a run on a mixture reads the text of each domain."""
    once = domains.most_weights(1.0, options.run_tokens)
    return {name: weight / once[name] for name, weight in mixture.as_dict().items()}


def peak_memory_megabytes() -> int:
    """Returns the most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB, bytes on macOS
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024))
