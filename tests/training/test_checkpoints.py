"""Checkpoints of the Trainer: which one is whole and whose, and that none of them runs code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bydore_pyro.training.mixture_schedule import MixtureSchedule
from training_runs import Runs, mixture_for, tiny_config

from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.training.checkpoints import (
    belonging,
    broken_seal,
    checkpoint_step,
    copy_tokenizer,
    last_checkpoint,
    tensors_only,
    write_seal,
)
from bydore_pyro.utils.errors import RunFolderError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-3"
    (folder / "part").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "part" / "0.pt").write_bytes(b"optimiser")
    write_seal(folder, {"seed": 3, "versions": {"torch": "2"}})
    return folder


def seal_says(folder: Path, content: str) -> None:
    (folder / "belongs.json").write_text(content)


CHANGES: dict[str, Callable[[Path], object]] = {
    "whose model.safetensors was changed": lambda p: (p / "model.safetensors").write_bytes(b"w"),
    "whose part/0.pt was changed, lost": lambda p: (p / "part" / "0.pt").unlink(),
    "whose more.bin was changed, lost or added": lambda p: (p / "more.bin").touch(),
    "which has no belongs.json: it was not": lambda p: (p / "belongs.json").unlink(),
    "whose belongs.json was changed": lambda p: seal_says(
        p, (p / "belongs.json").read_text().replace('"seed": 3', '"seed": 4')
    ),
    **{
        "whose belongs.json was changed" + " " * n: lambda p, text=text: seal_says(p, text)
        for n, text in enumerate(("{", "[]", "{}", '{"files": 3, "sha256": "0"}'), 1)
    },
}


@pytest.mark.parametrize("reason", CHANGES)
def test_every_change_is_named(checkpoint: Path, reason: str) -> None:
    (checkpoint / ".nfs0001").touch()  # what a file system leaves is nobody's
    assert broken_seal(checkpoint) is None
    CHANGES[reason](checkpoint)
    assert str(broken_seal(checkpoint)).startswith(reason.rstrip())


def test_the_newest_sound_one_is_gone_on_from(checkpoint: Path, tmp_path: Path) -> None:
    told: list[str] = []
    own = {"seed": 3, "versions": {"torch": "2"}}
    assert last_checkpoint(tmp_path / "none", own, told.append) is None
    (tmp_path / "checkpoint-text").mkdir()
    (tmp_path / "checkpoint-1100").mkdir()
    assert last_checkpoint(tmp_path, own, told.append) == checkpoint
    (line,) = told
    assert "checkpoint-1100, which has no belongs.json: it was not written to its end" in line
    renamed = checkpoint.rename(tmp_path / "checkpoint-900")
    assert last_checkpoint(tmp_path, own, told.append, writes=True) is None
    assert told[-1].endswith("changed; it is set aside as refused-checkpoint-900")
    assert not renamed.exists()


def test_steps() -> None:
    assert checkpoint_step(None) == 0
    assert checkpoint_step(Path("run/checkpoints/checkpoint-120")) == 120


def test_a_copied_tokenizer_leaves_the_age_alone(corpus: TokenStore, tmp_path: Path) -> None:
    """The Trainer deletes the oldest checkpoints, by the times of their folders."""
    os.utime(corpus.tokenizer, (1e9, 1e9))
    copy_tokenizer(corpus.tokenizer, tmp_path)
    own, copy = (p / "tokenizer.json" for p in (corpus.tokenizer, tmp_path))
    assert own.read_bytes() == copy.read_bytes()
    assert tmp_path.stat().st_mtime > 1.1e9


def test_a_checkpoint_belongs_to_its_run(corpus: TokenStore, checkpoint: Path) -> None:
    schedule = MixtureSchedule.constant(mixture_for(corpus))
    saved = belonging("models/target-60m", corpus, schedule, tiny_config())
    assert {"seed", "text", "mixture", "versions", "learning_rate"} <= set(saved)
    write_seal(checkpoint, saved)
    told: list[str] = []
    elsewhere = tiny_config(device_batch_sequences=1, log_every=3, kept_checkpoints=1)
    same = belonging("/elsewhere/target-60m", corpus, schedule, elsewhere)
    assert last_checkpoint(checkpoint.parent, same, told.append) == checkpoint
    assert not told
    last_checkpoint(checkpoint.parent, {**saved, "versions": {"torch": "1.0"}}, told.append)
    assert any("this is 1.0: the result may differ" in line for line in told)
    birds = MixtureSchedule.constant(Mixture(names=("birds",), weights=(1.0,)))
    for field, changed in (
        ("learning_rate", belonging("target-60m", corpus, schedule, tiny_config(learning_rate=1))),
        ("model", belonging("models/target-1b", corpus, schedule, tiny_config())),
        ("mixture", belonging("target-60m", corpus, birds, tiny_config())),
        ("text", {**saved, "text": "0" * 64}),
    ):
        with pytest.raises(RunFolderError, match=f"Expected {field} .*, with which"):
            last_checkpoint(checkpoint.parent, json.loads(json.dumps(changed)), print)


def test_nothing_but_tensors_is_unpickled(tmp_path: Path) -> None:
    file, ran = tmp_path / "optimizer.pt", tmp_path / "ran"
    torch.save({"state": Runs(ran)}, file)
    with (
        pytest.raises(RunFolderError, match="Expected a valid checkpoint-4, found: Weights only"),
        tensors_only(Path("checkpoint-4")),
    ):
        torch.load(file, weights_only=False)  # even so
    assert not ran.exists()
    torch.save({"state": torch.ones(2)}, file)
    with tensors_only(None):
        assert torch.load(file)["state"].sum() == 2
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
