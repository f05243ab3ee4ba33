"""The Trainer reads the sampler's sequences, with workers too, and reports where it is asked to."""

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
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.training.plan import plan_training
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.trainer import MixtureTrainer, RunCallback
from bydore_pyro.training.training import build_trainer


@pytest.fixture
def build(corpus: TokenStore, tmp_path: Path) -> Callable[..., MixtureTrainer]:
    stages, folder = Stages.constant(mixture_for(corpus)), RunFolder(tmp_path / "run")

    def build(**options: Any) -> MixtureTrainer:
        plan = plan_training(tiny_shape(), corpus, stages, tiny_config(**options), None)
        return build_trainer(plan, folder)

    return build


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
    assert trainer.largest(15) == 15


def test_losses_are_reported_where_asked(build: Callable[..., MixtureTrainer]) -> None:
    callbacks = build(report_to="tensorboard").callback_handler.callbacks
    assert "TensorBoardCallback" in [type(one).__name__ for one in callbacks]
    assert any(isinstance(one, RunCallback) for one in callbacks)
