"""The Trainer's own training, but for the order; and its callbacks."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bydore_pyro.training.mixture_schedule import MixtureSchedule
from torch.utils.data import SequentialSampler
from training_runs import mixture_for, tiny_config, tiny_shape
from transformers import TrainerControl

from bydore_pyro.data.store import TokenStore, open_store
from bydore_pyro.training.checkpoints import broken_seal, last_checkpoint
from bydore_pyro.training.trainer import (
    RunCallback,
    SequentialTrainer,
    build_trainer,
    training_arguments,
)
from bydore_pyro.training.training_plan import TrainingPlan, plan_training
from bydore_pyro.utils.errors import DataError, NonFiniteError, RunFolderError
from bydore_pyro.utils.run_folder import RunFolder


def plan(store: TokenStore, **options: Any) -> TrainingPlan:
    schedule = MixtureSchedule.constant(mixture_for(store))
    return plan_training(tiny_shape(), store, schedule, tiny_config(**options), None, print)


def test_sequence_after_sequence(corpus: TokenStore, tmp_path: Path) -> None:
    trainer = build_trainer(plan(corpus), corpus, RunFolder(tmp_path / "run"))
    assert isinstance(trainer, SequentialTrainer)
    sampler = trainer._get_train_sampler()
    assert isinstance(sampler, SequentialSampler)
    assert list(sampler) == list(range(96))
    batches = list(trainer.get_train_dataloader())
    assert len(batches) == 24
    expected = torch.stack([trainer.train_dataset[n]["input_ids"] for n in (4, 5, 6, 7)])
    assert torch.equal(batches[1]["input_ids"], expected)
    assert torch.equal(batches[1]["labels"], expected)


def test_worker_processes_read_the_same(corpus: TokenStore, tmp_path: Path) -> None:
    alone, helped = (
        list(build_trainer(p, corpus, RunFolder(tmp_path / "run")).get_train_dataloader())
        for p in (plan(corpus), plan(corpus, loader_workers=2))
    )
    assert len(alone) == len(helped)
    assert all(
        torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(alone, helped, strict=True)
    )


def test_the_seed_decides_the_model(corpus: TokenStore, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    models = [
        build_trainer(plan(corpus, seed=seed), corpus, RunFolder(tmp_path / "run")).model
        for seed in (0, 0, 1)
    ]
    first = [next(model.parameters()) for model in models]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
    torch.random.set_rng_state(before)


def test_arguments(corpus: TokenStore, tmp_path: Path) -> None:
    found = training_arguments(plan(corpus, warmup_share=0.25), tmp_path)
    assert (found.max_steps, found.warmup_steps) == (12, 3)
    assert (found.per_device_train_batch_size, found.gradient_accumulation_steps) == (4, 2)
    assert found.lr_scheduler_type == "cosine_with_min_lr"
    assert not found.bf16
    assert not found.torch_compile
    sharded = dataclasses.replace(plan(corpus), config=tiny_config(device="cuda", fsdp=True))
    plugin = training_arguments(sharded, tmp_path).fsdp_plugin_args
    assert plugin["fsdp_version"] == 2
    assert plugin["state_dict_type"] == "FULL_STATE_DICT", "the sharded kind's index is a pickle"


def callback(
    store: TokenStore,
    folder: RunFolder,
    *,
    asked: Callable[[], int] = lambda: 0,
    largest: Callable[[int], int] = lambda own: own,
    wait: Callable[[], object] = lambda: None,
) -> RunCallback:
    accelerator = SimpleNamespace(wait_for_everyone=wait)
    trainer: Any = SimpleNamespace(largest=largest, accelerator=accelerator)
    return RunCallback(plan(store), store, folder, trainer, asked)


def test_a_training_that_diverges_stops(corpus: TokenStore, tmp_path: Path) -> None:
    state: Any = SimpleNamespace(global_step=7)
    own = callback(corpus, RunFolder(tmp_path / "run"))
    own.on_log(None, state, None)  # type: ignore[arg-type]
    for name in ("loss", "grad_norm"):
        own.on_log(None, state, None, logs={name: 1.0})  # type: ignore[arg-type]
        with pytest.raises(NonFiniteError, match=f"Expected a finite {name}, found nan at step 7"):
            own.on_log(None, state, None, logs={name: float("nan")})  # type: ignore[arg-type]


def test_one_process_makes_a_checkpoint_whole(corpus: TokenStore, tmp_path: Path) -> None:
    """When every process has written its file."""
    checkpoint = tmp_path / "checkpoint-7"
    checkpoint.mkdir()
    late = checkpoint / "rng_state_1.pth"
    own = callback(corpus, RunFolder(tmp_path / "run"), wait=late.touch)
    for main in (False, True):
        state: Any = SimpleNamespace(global_step=7, is_world_process_zero=main)
        own.on_save(SimpleNamespace(output_dir=str(tmp_path)), state, None)  # type: ignore[arg-type]
        assert (checkpoint / "tokenizer.json").is_file() == main
        assert (broken_seal(checkpoint) is None) == main
    assert last_checkpoint(tmp_path, plan(corpus).belongs, print) == checkpoint


def test_files_that_do_not_stay_stop_a_training(corpus: TokenStore, tmp_path: Path) -> None:
    data = Path(shutil.copytree(corpus.folder, tmp_path / "store"))
    folder = RunFolder(tmp_path / "run")
    own = callback(open_store(data), folder)
    own.on_step_end(None, None, TrainerControl())  # type: ignore[arg-type]
    (data / "train" / "birds.bin").unlink()
    # The text is looked at where what was learned of it is kept.
    own.on_step_end(None, None, TrainerControl())  # type: ignore[arg-type]
    for name in ("should_save", "should_training_stop"):
        control = TrainerControl(**{name: True})
        with pytest.raises(
            DataError, match=r"birds\.bin not to change while it is read, found: No such"
        ):
            own.on_step_end(None, None, control)  # type: ignore[arg-type]
    folder.path.rmdir()
    with pytest.raises(RunFolderError, match="run to stay"):
        own.on_step_end(None, None, TrainerControl())  # type: ignore[arg-type]


def test_processes_end_behind_the_same_step(corpus: TokenStore, tmp_path: Path) -> None:
    """A signal that reached another process counts too."""
    numbers, heard = iter([0, 0, 15]), iter([0, 2, 0])
    own = callback(
        corpus,
        RunFolder(tmp_path / "run"),
        asked=lambda: next(heard),
        largest=lambda own: max(own, next(numbers)),
    )
    for stops in (False, True, True):
        control = TrainerControl()
        own.on_step_end(None, None, control)  # type: ignore[arg-type]
        assert control.should_training_stop == control.should_save == control.should_log == stops


def test_workers_are_in_groups_of_their_own(corpus: TokenStore, tmp_path: Path) -> None:
    """Ctrl-C and torchrun signal whole groups; a training whose workers died could not save."""
    trainer = build_trainer(plan(corpus, loader_workers=1), corpus, RunFolder(tmp_path / "run"))
    batches = iter(trainer.get_train_dataloader())
    next(batches)
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)
    assert len(list(batches)) == 23
    assert trainer.largest(15) == 15
