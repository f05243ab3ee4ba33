"""The Trainer reads the sampler's sequences, with workers too."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from training_runs import mixture_for, tiny_config, tiny_shape

from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.training.order import MixtureDataset
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.trainer import (
    MixtureTrainer,
    RunCallback,
    build_trainer,
    copy_tokenizer,
    fresh_model,
    saving,
    step_of,
)


@pytest.fixture
def build(corpus: TokenStore, tmp_path: Path) -> Callable[..., MixtureTrainer]:
    stages, folder = Stages.constant(mixture_for(corpus)), RunFolder(tmp_path / "run")

    def build(**options: Any) -> MixtureTrainer:
        config = tiny_config(**options)
        model = fresh_model(tiny_shape(), corpus, config)
        dataset = MixtureDataset(corpus, stages.names, config.sequence_length)
        return build_trainer(model, dataset, corpus, stages, config, folder, 0)

    return build


def test_a_fresh_model_for_the_text(corpus: TokenStore) -> None:
    found = fresh_model(tiny_shape(), corpus, tiny_config()).config
    assert found.vocab_size == corpus.vocabulary
    assert found.eos_token_id == found.bos_token_id == 0, "the store's end of text"
    with pytest.raises(DataError, match="sequence_length <= 64, the longest that LlamaFor"):
        fresh_model(tiny_shape(), corpus, tiny_config(sequence_length=65))


def test_the_samplers_sequences_in_its_order(build: Callable[..., MixtureTrainer]) -> None:
    """With workers that read ahead too, each in a group of its own: Ctrl-C and torchrun signal
    whole groups, and a training whose workers died could not save."""
    trainer = build()
    batches = list(trainer.get_train_dataloader())
    assert len(batches) == 24
    rows = [trainer.train_dataset[key]["input_ids"] for key in trainer.sampler]
    assert torch.equal(torch.cat([batch["input_ids"] for batch in batches]), torch.stack(rows))
    assert torch.equal(batches[1]["labels"], batches[1]["input_ids"])
    helped = iter(build(loader_workers=1).get_train_dataloader())
    first = next(helped)
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)
    for batch, other in zip(batches, (first, *helped), strict=True):
        assert torch.equal(batch["input_ids"], other["input_ids"])


def test_a_signal_ends_a_training(build: Callable[..., MixtureTrainer], corpus: TokenStore) -> None:
    trainer = build()
    run = RunCallback(trainer.accelerator, corpus, {"seed": 3}, lambda: 15)
    assert run.signal() == 15
    assert run.state()["attributes"] == {"seed": 3}
    run.on_step_end(trainer.args, trainer.state, trainer.control)
    assert trainer.control.should_save
    assert trainer.control.should_training_stop


def test_the_tokenizer_of_a_text_that_is_read_only(tmp_path: Path) -> None:
    own, copy = tmp_path / "tokenizer", tmp_path / "checkpoint"
    own.mkdir()
    (own / "tokenizer.json").touch(0o444)
    own.chmod(0o555)
    copy_tokenizer(own, copy)
    assert all(path.stat().st_mode & 0o200 for path in (copy, copy / "tokenizer.json"))


def test_the_step_of_a_checkpoint() -> None:
    assert (step_of(None), step_of("run/checkpoints/checkpoint-1200")) == (0, 1200)


def test_an_error_of_writing_is_one_of_the_folder(tmp_path: Path) -> None:
    expected = f"Expected to write to {tmp_path}, found: OSError: no room"
    with pytest.raises(RunFolderError, match=expected), saving(tmp_path):
        raise OSError("no room")
