"""Trainings as a whole: killed and resumed, on one process and on two, and what they leave."""

from __future__ import annotations

import dataclasses
import json
import math
import resource
import shutil
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from processes import forked, on_two_processes
from training_runs import (
    WEIGHTS,
    SignalAt,
    StopAt,
    mixture_for,
    same_bits,
    tiny_config,
    tiny_shape,
    train,
    weights_in,
)
from transformers import AutoModelForCausalLM, AutoTokenizer

from bydore_pyro.command_line import one_line_errors
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import NonFiniteError, RunFolderError
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.terminal import Interrupted
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.order import MixtureDataset
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.trainer import belongs_of
from bydore_pyro.training.training import train_target

Key = tuple[int, int]


class Whole(NamedTuple):
    """A training that nothing disturbed, and the keys of the sequences that it read."""

    folder: Path
    metrics: dict[str, Any]
    seen: list[Key]

    @property
    def losses(self) -> list[float]:
        return [entry["loss"] for entry in self.metrics["log"]]

    def unfinished(self, folder: Path, *without: int) -> Path:
        """A copy that has no model yet, without some of its checkpoints."""
        shutil.copytree(self.folder, folder)
        for name in ("model", *(f"checkpoints/checkpoint-{step}" for step in without)):
            shutil.rmtree(folder / name)
        return folder


def watch(monkeypatch: pytest.MonkeyPatch) -> list[Key]:
    """The keys of the sequences that are read, as they are read."""
    seen: list[Key] = []
    plain = MixtureDataset.__getitem__

    def read(self: MixtureDataset, key: Key) -> dict[str, torch.Tensor]:
        seen.append(key)
        return plain(self, key)

    monkeypatch.setattr(MixtureDataset, "__getitem__", read)
    return seen


@pytest.fixture(scope="module")
def whole(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        seen = watch(monkeypatch)
        return Whole(folder, train(corpus, folder), seen)


def losses(metrics: dict[str, Any]) -> list[float]:
    return [entry["loss"] for entry in metrics["log"]]


def test_what_a_training_leaves(corpus: TokenStore, whole: Whole) -> None:
    assert len(whole.losses) == 12
    assert whole.losses[0] == pytest.approx(math.log(corpus.vocabulary), abs=0.1)
    assert whole.losses[-1] < whole.losses[0] - 0.5
    assert {path.name for path in whole.folder.iterdir()} == {
        *("config.json", "schedule.json", "manifest.json", "metrics.json"),
        *("checkpoints", "model"),
    }
    config = json.loads((whole.folder / "config.json").read_text())
    assert TargetConfig(**config["target"]) == tiny_config()
    checkpoints = whole.folder / "checkpoints"
    assert {p.name for p in checkpoints.iterdir()} == {"checkpoint-8", "checkpoint-12"}
    assert not list((whole.folder / "model").glob("*.bin")), "no pickle"
    for folder in (whole.folder / "model", checkpoints / "checkpoint-12"):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert len(tokenizer) == model.config.vocab_size == corpus.vocabulary
        assert model.config.eos_token_id == tokenizer.eos_token_id
        assert model.config.trained_sequence_length == 32
        assert same_bits(weights_in(folder), weights_in(whole.folder / "model"))


def test_the_metrics_tell_the_shares(whole: Whole) -> None:
    metrics = json.loads((whole.folder / "metrics.json").read_text())
    assert metrics == whole.metrics
    assert metrics["tokens"] == 12 * 8 * 32
    for number, (name, weight) in enumerate(WEIGHTS.items()):
        assert abs(metrics["tokens_by_domain"][name] - weight * metrics["tokens"]) < 32
        read = sum(domain == number for domain, _ in whole.seen)
        assert metrics["tokens_by_domain"][name] == 32 * read
    assert metrics["final_loss"] == whole.losses[-1]
    assert metrics["log"][5]["epoch"] == pytest.approx(0.5), "the share of the run"
    assert metrics["parameters"] == 37_792


@pytest.mark.parametrize("stopped", [3, 8])
def test_resumed_it_ends_with_the_same_bits(
    corpus: TokenStore,
    whole: Whole,
    tmp_path: Path,
    stopped: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "run", callbacks=[StopAt(stopped)])
    begun = (stopped - 1) // 4 * 4  # it stops before it saves
    half = tmp_path / "run" / "checkpoints" / ".writing" / "checkpoint-9"
    half.mkdir(parents=True)  # as a kill amid a save leaves it
    (half / "model.safetensors").touch()
    seen = watch(monkeypatch)
    capsys.readouterr()
    resumed = train(corpus, tmp_path / "run", resume=True)
    assert seen == whole.seen[begun * 8 :], "the sequences that the whole run saw"
    assert ("checkpoint-" if begun else "beginning anew") in capsys.readouterr().err
    saved = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert saved == {"checkpoint-8", "checkpoint-12"}
    assert same_bits(weights_in(tmp_path / "run/model"), weights_in(whole.folder / "model"))
    assert [{**entry, "epoch": 0} for entry in resumed["log"]] == [
        {**entry, "epoch": 0} for entry in whole.metrics["log"]
    ]


def test_dropout_goes_on_too(corpus: TokenStore, tmp_path: Path) -> None:
    model = tiny_shape()
    model.attention_dropout = 0.2
    given = {"model": model, "tokens": "1536", "loader_workers": 1}
    train(corpus, tmp_path / "whole", **given)
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "run", callbacks=[StopAt(5)], **given)
    train(corpus, tmp_path / "run", resume=True, **given)
    run, uninterrupted = (weights_in(tmp_path / name / "model") for name in ("run", "whole"))
    assert same_bits(run, uninterrupted)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize(
    ("number", "code", "step"), [(signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 7)]
)
def test_a_signal_saves_first_and_says_where(
    corpus: TokenStore,
    whole: Whole,
    tmp_path: Path,
    number: int,
    code: int,
    step: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In any step; with workers that read ahead."""
    asking, run = SignalAt(step, number), tmp_path / "run"
    with pytest.raises(Interrupted) as found:
        train(corpus, run, callbacks=[asking], loader_workers=1)
    assert found.value.exit_code == code
    saved = f"Saved {run}/checkpoints/checkpoint-{step}\nGo on with: bydore train --resume {run}\n"
    assert saved in capsys.readouterr().err
    assert asking.saved == 1 + step // 4
    assert not (run / "model").exists()
    resumed = train(corpus, run, resume=True)
    assert same_bits(weights_in(run / "model"), weights_in(whole.folder / "model"))
    assert losses(resumed) == whole.losses


def test_edited_options_are_refused_by_the_field(
    corpus: TokenStore, whole: Whole, tmp_path: Path
) -> None:
    folder = whole.unfinished(tmp_path / "run")
    for field, value in (("learning_rate", 0.5), ("seed", 7), ("weight_decay", 0.0)):
        with pytest.raises(RunFolderError, match=f"Expected {field} .*, found {value}: a run"):
            train(corpus, folder, resume=True, **{field: value})
    birds = Stages.constant(Mixture(names=("birds",), weights=(1.0,)))
    with pytest.raises(RunFolderError, match="Expected mixture "):
        train(corpus, folder, resume=True, stages=birds)
    other = dataclasses.replace(corpus, index={**corpus.index, "sha256": "0" * 64})
    with pytest.raises(RunFolderError, match=r"Expected text .*, found 0000"):
        train(other, folder, resume=True)
    belongs = belongs_of(str(folder / "checkpoints" / "checkpoint-12"))
    assert (belongs["text"], belongs["seed"]) == (corpus.sha256, 0)
    resumed = train(corpus, folder, resume=True, log_every=3)  # all steps are done
    assert same_bits(weights_in(folder / "model"), weights_in(whole.folder / "model"))
    assert resumed["tokens_by_domain"] == whole.metrics["tokens_by_domain"]
    with pytest.raises(RunFolderError, match="found a finished one in"):
        train(corpus, folder, resume=True)


def test_a_damaged_checkpoint_is_named_and_goes_on_without(
    corpus: TokenStore, whole: Whole, tmp_path: Path
) -> None:
    """A file that was cut, and one that would run code."""
    ran = tmp_path / "ran"

    class Runs:
        def __reduce__(self) -> tuple:
            return (open, (str(ran), "w"))

    files = ("model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json")
    for name in (*files, "rng_state.pth"):
        run = whole.unfinished(tmp_path / name, 12)
        damaged = run / "checkpoints" / "checkpoint-8"
        if name == "rng_state.pth":
            torch.save({"state": Runs()}, damaged / name)
        else:
            (damaged / name).write_bytes((damaged / name).read_bytes()[:100])
        with pytest.raises(RunFolderError, match=r"Expected a whole checkpoint .*-8 .delete it"):
            train(corpus, run, resume=True)
        assert not ran.exists()
    shutil.rmtree(damaged)
    train(corpus, run, resume=True)
    assert same_bits(weights_in(run / "model"), weights_in(whole.folder / "model"))


def test_stages_follow_each_other(corpus: TokenStore, tmp_path: Path) -> None:
    first = Mixture(names=("birds", "digits"), weights=(0.75, 0.25))
    second = Mixture(names=("greek",), weights=(1.0,))
    stages = Stages(ends=(0.5, 1.0), mixtures=(first, second))
    trained = train(corpus, tmp_path / "run", stages=stages, tokens="1024")
    sequences = {k: v // 32 for k, v in trained["tokens_by_domain"].items()}
    assert sequences == {"birds": 12, "digits": 4, "greek": 16}


def test_folders_that_cannot_be_used(corpus: TokenStore, whole: Whole, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected to read the text of a domain at most"):
        train(corpus, tmp_path / "run", tokens="1B")
    assert not (tmp_path / "run").exists(), "nothing was written"
    with pytest.raises(RunFolderError, match="Expected a new output folder, found a run"):
        train(corpus, whole.folder)
    with pytest.raises(RunFolderError, match="Expected an unfinished training"):
        train(corpus, tmp_path, resume=True)
    (tmp_path / "out" / "model").mkdir(parents=True)
    with pytest.raises(RunFolderError, match="new output folder, found model in"):
        train(corpus, tmp_path / "out")


def test_a_diverging_training_stops(corpus: TokenStore, tmp_path: Path) -> None:
    stages = Stages.constant(mixture_for(corpus))
    config = tiny_config(learning_rate=1e30, max_gradient_norm=1e30, warmup_share=0.0)
    with pytest.raises(NonFiniteError, match="Expected a finite"):
        train_target(tiny_shape(), corpus, stages, config, tmp_path / "run")


@pytest.fixture(scope="module")
def pair(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes' training, and another that a signal stopped, which reached the second alone.

    The second is so late that it finds what the first has written.
    """
    folder = tmp_path_factory.mktemp("pair")

    def work(rank: int) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        seen = watch(pytest.MonkeyPatch())
        while rank == 1 and not Path("run/config.json").exists():
            time.sleep(0.05)
        train(corpus, Path("run"))
        Path(f"seen-{rank}").write_text(json.dumps(seen))
        try:
            late = [SignalAt(6, signal.SIGTERM)] if rank == 1 else []
            train(corpus, Path("stopped"), callbacks=late)
        except Interrupted as error:
            Path(f"code-{rank}").write_text(str(error.exit_code))

    on_two_processes(work, folder)
    return folder


def test_two_processes_train_what_one_trains(
    corpus: TokenStore, whole: Whole, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = pair / "run"
    seen = [json.loads((pair / f"seen-{rank}").read_text()) for rank in (0, 1)]
    for step in range(12):  # four sequences of each process make up a step
        own = [tuple(key) for share in seen for key in share[4 * step : 4 * step + 4]]
        assert sorted(own) == sorted(whole.seen[8 * step : 8 * step + 8])
    metrics = json.loads((run / "metrics.json").read_text())
    np.testing.assert_allclose(losses(metrics), whole.losses, rtol=1e-5)
    held_out = metrics["held_out_loss_nats_per_token"]
    assert held_out == pytest.approx(whole.metrics["held_out_loss_nats_per_token"], rel=1e-4)
    two, one = weights_in(run / "model"), weights_in(whole.folder / "model")
    torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-4)

    # Begun by two processes, killed behind step 8, ended by one.
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "checkpoints" / "checkpoint-12")
    alone = watch(monkeypatch)
    train(corpus, run, resume=True)
    assert alone == whole.seen[64:]
    torch.testing.assert_close(weights_in(run / "model"), two, rtol=1e-3, atol=1e-4)


def test_processes_save_together(
    corpus: TokenStore, whole: Whole, pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever of them the signal reaches; no save waits for one that has gone."""
    run = pair / "stopped"
    assert [(pair / f"code-{rank}").read_text() for rank in (0, 1)] == ["143", "143"]
    saved = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert saved == ["checkpoint-4", "checkpoint-6"]
    resumed = train(corpus, run, resume=True)
    assert f"going on from {run}/checkpoints/checkpoint-6\n" in capsys.readouterr().err
    np.testing.assert_allclose(losses(resumed), whole.losses, rtol=1e-4)


@pytest.mark.parametrize("room", [100_000, 300_000])
def test_a_full_disk_is_one_line(corpus: TokenStore, tmp_path: Path, room: int) -> None:
    """Of weights (0.2 MB) and of the optimiser's state; a limit on the size of files fails a write
    as a full disk does."""

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        with one_line_errors("test"):
            train(corpus, tmp_path / "run")

    process = forked(full, tmp_path / "told")
    process.join(60)
    line = (tmp_path / "told").read_text().splitlines()[-1]
    assert process.exitcode == 2, line
    assert line.startswith(f"test: error: Expected to write to {tmp_path / 'run'}")
