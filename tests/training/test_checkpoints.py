"""Checkpoints of the Trainer: which one is whole, and whose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from training_runs import mixture_for, tiny_config

from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import RunFolderError
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.training.checkpoints import (
    belonging,
    copy_tokenizer,
    last_checkpoint,
    read_seal,
    write_seal,
)
from bydore_pyro.training.order import MixtureState
from bydore_pyro.training.stages import Stages

STATE = MixtureState(3, [5, 7], [0.1 + 0.2, -(0.1 + 0.2)])


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-3"
    (folder / "part").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "part" / "0.pt").write_bytes(b"optimiser")
    write_seal(folder, {"seed": 3, "versions": {"torch": "2"}}, STATE)
    return folder


CHANGES: dict[str, Callable[[Path], object]] = {
    "whose model.safetensors was changed": lambda p: (p / "model.safetensors").write_bytes(b"w"),
    "whose part/0.pt was changed, lost": lambda p: (p / "part" / "0.pt").unlink(),
    "whose more.bin was changed, lost or added": lambda p: (p / "more.bin").touch(),
    "which has no belongs.json: it was not": lambda p: (p / "belongs.json").unlink(),
    "whose belongs.json was changed": lambda p: (p / "belongs.json").write_text(
        (p / "belongs.json").read_text().replace('"seed": 3', '"seed": 4')
    ),
    "whose belongs.json was changed ": lambda p: (p / "belongs.json").write_text("[]"),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_every_change_is_named(checkpoint: Path, reason: str) -> None:
    (checkpoint / ".nfs0001").touch()  # what a file system leaves is nobody's
    assert read_seal(checkpoint) == ({"seed": 3, "versions": {"torch": "2"}}, STATE)
    CHANGES[reason](checkpoint)
    with pytest.raises(ValueError, match=reason.rstrip()):
        read_seal(checkpoint)


def test_the_newest_sound_one_is_gone_on_from(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"seed": 3, "versions": {"torch": "2"}}
    assert last_checkpoint(tmp_path / "none", own) is None
    (tmp_path / "checkpoint-text").mkdir()
    (tmp_path / "checkpoint-1100").mkdir()
    assert last_checkpoint(tmp_path, own) == (checkpoint, STATE)
    (line,) = capsys.readouterr().err.splitlines()
    assert "checkpoint-1100, which has no belongs.json: it was not written to its end" in line
    renamed = checkpoint.rename(tmp_path / "checkpoint-900")
    assert last_checkpoint(tmp_path, own, writes=True) is None
    assert capsys.readouterr().err.endswith("changed; it is set aside as refused-checkpoint-900\n")
    assert not renamed.exists()


def test_a_checkpoint_belongs_to_its_run(
    corpus: TokenStore, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = Stages.constant(mixture_for(corpus))
    saved = belonging("models/target-60m", corpus, stages, tiny_config())
    write_seal(checkpoint, saved, STATE)
    elsewhere = tiny_config(device_batch_sequences=1, log_every=3, save_every=7)
    same = belonging("/elsewhere/target-60m", corpus, stages, elsewhere)
    assert last_checkpoint(checkpoint.parent, same) == (checkpoint, STATE)
    assert not capsys.readouterr().err
    birds = Stages.constant(Mixture(names=("birds",), weights=(1.0,)))
    for field, changed in (
        ("model", belonging("models/target-1b", corpus, stages, tiny_config())),
        ("mixture", belonging("target-60m", corpus, birds, tiny_config())),
        ("text", {**saved, "text": "0" * 64}),
    ):
        with pytest.raises(RunFolderError, match=f"Expected {field} .*, with which"):
            last_checkpoint(checkpoint.parent, json.loads(json.dumps(changed)))


def test_a_tokenizer_is_copied(corpus: TokenStore, tmp_path: Path) -> None:
    copy_tokenizer(corpus.tokenizer, tmp_path)
    own, copy = (p / "tokenizer.json" for p in (corpus.tokenizer, tmp_path))
    assert own.read_bytes() == copy.read_bytes()
