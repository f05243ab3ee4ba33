"""Checkpoints of the Trainer: which one is whole, and that none of them runs code."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import torch
from target_runs import mixture_for, tiny_config, write_run

from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.target.checkpoint_seal import write_seal
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.target.trainer_checkpoints import (
    belonging,
    check_checkpoint,
    check_same_run,
    checkpoint_step,
    copy_tokenizer,
    last_checkpoint,
    tensors_only,
)
from bydore_pyro.utils.errors import RunFolderError


def test_there_may_be_no_checkpoint(tmp_path: Path) -> None:
    """What a sound one is, and every damage, stands in the tests of trainings."""
    told: list[str] = []
    assert last_checkpoint(tmp_path / "none", 300, told.append) is None
    (tmp_path / "checkpoint-text").mkdir()
    assert last_checkpoint(tmp_path, 300, told.append) is None
    assert not told
    for step, content in ((900, None), (1100, '{"global_step": 12'), (1300, "[]")):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if content is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(content)
    assert last_checkpoint(tmp_path, 300, told.append) is None
    assert [line.split("checkpoint-")[1] for line in told] == [
        f"{step}, which was not written to its end" for step in (1300, 1100, 900)
    ]


def test_steps() -> None:
    assert checkpoint_step(None) == 0
    assert checkpoint_step(Path("run/checkpoints/checkpoint-120")) == 120


def test_a_copied_tokenizer_leaves_the_age_alone(corpus: TokenStore, tmp_path: Path) -> None:
    """The Trainer deletes the oldest checkpoints, by the times of their folders."""
    os.utime(corpus.tokenizer, (1e9, 1e9))
    copy_tokenizer(corpus.tokenizer, tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == (
        corpus.tokenizer / "tokenizer.json"
    ).read_bytes()
    assert tmp_path.stat().st_mtime > 1.1e9


def test_a_run_goes_on_with_what_it_was_begun_with(corpus: TokenStore, tmp_path: Path) -> None:
    schedule, config = MixtureSchedule.constant(mixture_for(corpus)), tiny_config()
    with pytest.raises(RunFolderError, match="Expected a training to go on with in"):
        check_same_run(tmp_path, corpus, schedule, config)
    write_run(tmp_path, corpus, schedule, config)
    check_same_run(tmp_path, corpus, schedule, config)
    check_same_run(tmp_path, corpus, schedule, tiny_config(device_batch_sequences=1))
    for changed in ({"tokens": "1M"}, {"seed": 1}, {"target_batch_sequences": 4}):
        with pytest.raises(RunFolderError, match=f"Expected the {next(iter(changed))} that"):
            check_same_run(tmp_path, corpus, schedule, tiny_config(**changed))
    birds = MixtureSchedule.constant(Mixture(names=("birds",), weights=(1.0,)))
    with pytest.raises(RunFolderError, match=r"Expected the mixture that .* was begun with"):
        check_same_run(tmp_path, corpus, birds, config)
    other = dataclasses.replace(corpus, index={**corpus.index, "sha256": "0" * 64})
    with pytest.raises(RunFolderError, match=r"Expected the text that .* found 000000000000"):
        check_same_run(tmp_path, other, schedule, config)


def test_a_checkpoint_belongs_to_its_run(corpus: TokenStore, tmp_path: Path) -> None:
    schedule = MixtureSchedule.constant(mixture_for(corpus))
    saved = belonging("models/target-60m", corpus, schedule, tiny_config())
    assert {"seed", "text", "mixture", "versions", "learning_rate"} <= set(saved)
    write_seal(tmp_path, saved)
    told: list[str] = []
    elsewhere = tiny_config(device_batch_sequences=1, log_every=3, kept_checkpoints=1)
    check_checkpoint(
        tmp_path, belonging("/elsewhere/target-60m", corpus, schedule, elsewhere), told.append
    )
    assert not told
    check_checkpoint(tmp_path, {**saved, "versions": {"torch": "1.0"}}, told.append)
    assert any("this is 1.0: the result may differ" in line for line in told)
    birds = MixtureSchedule.constant(Mixture(names=("birds",), weights=(1.0,)))
    for field, changed in (
        ("learning_rate", belonging("target-60m", corpus, schedule, tiny_config(learning_rate=1))),
        ("model", belonging("models/target-1b", corpus, schedule, tiny_config())),
        ("mixture", belonging("target-60m", corpus, birds, tiny_config())),
    ):
        with pytest.raises(RunFolderError, match=f"Expected {field} .*, with which"):
            check_checkpoint(tmp_path, changed, print)


class Runs:
    """What unpickling it does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (open, (str(self.path), "w"))


def test_nothing_but_tensors_is_unpickled(tmp_path: Path) -> None:
    file, ran = tmp_path / "optimizer.pt", tmp_path / "ran"
    torch.save({"state": Runs(ran)}, file)
    with (
        pytest.raises(RunFolderError, match="Expected a sound checkpoint-4, found: Weights only"),
        tensors_only(Path("checkpoint-4")),
    ):
        torch.load(file, weights_only=False)  # even so
    assert not ran.exists()
    torch.save({"state": torch.ones(2)}, file)
    with tensors_only(None):
        assert torch.load(file)["state"].sum() == 2
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    with pytest.raises(ZeroDivisionError), tensors_only(None):
        _ = 1 / 0
