"""The Trainer's own training, but for the order. Whole trainings show its callback's work."""

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
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.trainer import MixtureTrainer, build_trainer
from bydore_pyro.training.training_plan import TrainingPlan, plan_training
from bydore_pyro.utils.run_folder import RunFolder


def plan(store: TokenStore, **options: Any) -> TrainingPlan:
    stages = Stages.constant(mixture_for(store))
    return plan_training(tiny_shape(), store, stages, tiny_config(**options), None, print)


@pytest.fixture
def build(corpus: TokenStore, tmp_path: Path) -> Callable[..., MixtureTrainer]:
    folder = RunFolder(tmp_path / "run")
    return lambda **options: build_trainer(plan(corpus, **options), corpus, folder)


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


def test_the_seed_decides_the_model(build: Callable[..., MixtureTrainer]) -> None:
    first = [next(build(seed=seed).model.parameters()) for seed in (0, 0, 1)]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])


def test_arguments(build: Callable[..., MixtureTrainer]) -> None:
    found = build(warmup_share=0.25).args
    assert (found.max_steps, found.warmup_steps) == (12, 3)
    assert (found.per_device_train_batch_size, found.gradient_accumulation_steps) == (4, 2)
    assert not found.bf16
    assert not found.torch_compile
