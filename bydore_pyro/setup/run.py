"""A run in its folder: how it begins, takes steps, is saved, breaks off and goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro import files, pieces, terminal
from bydore_pyro.answer import Answer, plot_weights
from bydore_pyro.command_line import resume_command
from bydore_pyro.data import Domains, TokenStore
from bydore_pyro.errors import DataError, RunFolderError, expecting
from bydore_pyro.mixture import Mixture, require_own
from bydore_pyro.proxy import Cost, Parallel, Proxy
from bydore_pyro.setup.domains import processes
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.record import Metrics

# A progress bar without the time that the rest takes: for rounds nobody knows it.
WITHOUT_REST = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
CHECKPOINTS = "checkpoints"
TRIM_EVERY = 20  # steps
# Of the options of a run: where things lie (the data's hash decides) and how often it is saved.
FREE = ("data", "cache", "out", "device", "cluster", "checkpoint_every")


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        answer: The weights, and what they rest on.
        metrics: The run's record.
        proxy: At the end of the search; its counter has the cost of finding the weights.
        path: The weights over the search ``(R, K)``: by round, or by step by linear evidence.
        validation_losses: Of the same rounds or steps, nats per token.
    """

    answer: Answer
    metrics: Metrics
    proxy: Proxy
    path: np.ndarray
    validation_losses: tuple[float, ...]

    @property
    def mixture(self) -> Mixture:
        """The weights to train on."""
        return self.answer.mixture


def leave_answer(folder: files.RunFolder, answer: Answer, metrics: Metrics) -> None:
    """Writes mixture, draws, picture, guide, record; warns of a proxy that has not learned."""
    folder.write_text("mixture.json", answer.mixture.to_json() + "\n")
    if answer.sites:
        folder.write_posterior("posterior.nc", answer.to_inference_data())
        folder.write_figure("posterior.png", plot_weights(answer.mixture, answer.sums))
    if answer.posterior is not None and answer.posterior.guide is not None:
        folder.write_tensors("guide.safetensors", answer.posterior.guide.state_dict())
    folder.write_json("metrics.json", files.plain(metrics))
    if warning := metrics.learning.warning:
        terminal.tell(f"warning: {warning}")


def begin_run(options: Options, name: str, resume: Path | None) -> files.RunFolder:
    """Returns the folder of a run, or of the run that `resume` continues: checked, not made, the
    same in every process. Joins the options' cluster."""
    pieces.join_cluster(options.run.cluster)
    parallel = processes(options)
    if resume is not None:
        return files.RunFolder(resume, resume=True, writes=parallel.is_main)
    now = time.strftime("%Y%m%d-%H%M%S")
    path = parallel.agree(options.run.out or f"runs/{name}-{now}")
    return files.RunFolder(Path(path), writes=parallel.is_main)


def write_inputs(folder: files.RunFolder, options: Options, corpus: TokenStore, name: str) -> None:
    """Writes the inputs of a run and prints its options; `config.json` makes the folder a run.

    Raises:
        DataError: When the run that is continued was begun on other tokens.
        RunFolderError: When it does not say on which, or was begun with other options.
    """
    if folder.resumed:
        path, asked = (folder.path / name for name in ("manifest.json", "config.json"))
        told = "Expected the run's manifest and options, found"
        with expecting(f"{told} {path}:", as_error=RunFolderError):
            begun = str(json.loads(path.read_text(encoding="utf-8"))["sha256"])
        with expecting(f"{told} {asked}:", as_error=RunFolderError):
            parts = _deciding(json.loads(asked.read_text(encoding="utf-8")))
        files.check_belongs(asked, parts, _deciding(options.as_dict()))
        if begun != corpus.sha256:
            raise DataError(
                f"Expected the data with which {folder.path} was started ({begun[:12]}), found "
                f"other data ({corpus.sha256[:12]})"
            )
        return
    write_text_index(folder, corpus)
    folder.write_config(name, options.as_dict())


def write_text_index(folder: files.RunFolder, corpus: TokenStore) -> None:
    """Notes which text a mixture is for: its tokenizer, and what its store's index counts."""
    tokenizer = corpus.tokenizer / "tokenizer.json"
    folder.write_text("tokenizer.json", tokenizer.read_text(encoding="utf-8"))
    folder.write_json("manifest.json", corpus.index)


def _deciding(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that decide what a run finds, by part."""
    kept = {name: value for name, value in parts["run"].items() if name not in FREE}
    return {**parts, "name": None, "run": kept}


@dataclass(kw_only=True)
class Drive:
    """A search that takes its steps in a folder.

    Attributes:
        folder: Where checkpoints are written.
        options: Of the run; they say how often to save, and what a checkpoint belongs to.
        domains: Where batches come from.
        parallel: The processes that share the steps.
        total: Steps of the search.
        content: Returns what the next step depends on.
        done: Steps that were taken.
    """

    folder: files.RunFolder
    options: Options
    domains: Domains
    parallel: Parallel
    total: int
    content: Callable[[], Mapping[str, Any]]
    done: int = 0

    @property
    def belongs(self) -> dict[str, Any]:
        """The values that a checkpoint and the search that goes on from it share."""
        data = {"data_sha256": self.domains.corpus.sha256, "names": list(self.domains.names)}
        return {**_deciding(self.options.as_dict()), **data, "versions": files.versions()}

    def restored(self) -> dict[str, Any] | None:
        """Returns the content of the newest sound checkpoint, None when there is none.

        Raises:
            RunFolderError: When it belongs to another search.
        """
        if not self.folder.resumed:
            return None
        place, writes = self.folder.path / CHECKPOINTS, self.folder.writes
        found = files.load_checkpoint(place, self.belongs, writes=writes)
        if writes:
            files.remove_half_written(self.folder.path)
        return found

    def take(self, steps: Iterator[str], round_is_next: Callable[[int], str]) -> None:
        """Takes the steps that are left, and saves: every so often, before a round, at the end and
        when asked to. Where a round is broken off, the checkpoint before it is the last.

        Args:
            steps: One a step; each says what to show beside the bar.
            round_is_next: Returns what to show where the step behind so many ends with a round,
                which takes as long as many steps; "" elsewhere.

        Raises:
            DataError: When the files of the domains' tokens change while they are read.
            Interrupted: On Ctrl-C or SIGTERM; a checkpoint of the last step was saved, within a
                round that of the step before it.
            RunFolderError: When the folder is no more the run's.
        """
        from tqdm import tqdm

        every = self.options.run.checkpoint_every
        matching = self.options.run.evidence == "matching"

        def save() -> None:
            if every and self.folder.writes:
                files.save_checkpoint(
                    self.folder.path / CHECKPOINTS, self.done, self.content(), self.belongs
                )

        with terminal.deferred() as asked:
            about: Any = {"desc": "search", "unit": "step", "mininterval": 0.5}
            about |= {"bar_format": WITHOUT_REST} if matching else {}
            with tqdm(total=self.total, initial=self.done, **about) as bar:
                bar.set_postfix_str(round_is_next(self.done))
                for shown in steps:
                    self.done += 1
                    last = self.done == self.total
                    # What a step reads is looked at before; this also finds what changed since.
                    if last or self.done % TRIM_EVERY == 0:
                        self.domains.corpus.require_unchanged()
                        terminal.return_freed_memory()
                    self.folder.require()
                    bar.set_postfix_str(shown, refresh=False)
                    bar.update()
                    if number := self.parallel.largest(asked()):
                        save()
                        raise terminal.Interrupted(number)
                    # Who is stopped or killed in a round does not lose the steps before it.
                    soon = "" if last else round_is_next(self.done)
                    if every and (self.done % every == 0 or soon):
                        save()
                    if soon:
                        bar.set_postfix_str(soon)
            save()


@contextmanager
def broken_off(drive: Drive, cost: Cost) -> Iterator[None]:
    """Prints, if the block breaks off, how to go on with the run."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        folder, asked = drive.folder, isinstance(error, terminal.Interrupted)
        try:
            if folder.writes:
                reason = str(error) or type(error).__name__
                left = Metrics(stopped=reason, steps=drive.done, search=cost.spent())
                folder.write_json("metrics.json", files.plain(left))
            if folder.writes and asked:
                path = folder.path / CHECKPOINTS / f"step-{drive.done:06d}"
                saved = f"Saved {path}" if path.is_dir() else "No step is saved"
                terminal.tell(f"{saved}. Go on with: {resume_command(folder.path)}")
        finally:
            if asked:  # all of them were: none ends before it is saved
                drive.parallel.wait()
        raise


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a search that ended, with the mixture that it wrote."""
    try:
        metrics = files.read_as(Metrics, folder / "metrics.json")
        Mixture.from_json(folder / "mixture.json")
        require_own(folder)
    except (OSError, ValueError):
        return False
    return bool(metrics.mixture_sha256) and not metrics.stopped
