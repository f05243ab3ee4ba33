"""The Trainer's own training, but for the order; and its callbacks."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from training_runs import mixture_for, tiny_config, tiny_shape
from transformers import TrainerControl

from bydore_pyro.data.store import TokenStore, open_store
from bydore_pyro.training.checkpoints import read_seal
from bydore_pyro.training.mixture_batches import begin
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.trainer import MixtureTrainer, RunCallback, build_trainer
from bydore_pyro.training.training_plan import TrainingPlan, plan_training
from bydore_pyro.utils.errors import DataError, NonFiniteError, RunFolderError
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


def callback(
    store: TokenStore,
    folder: RunFolder,
    *,
    asked: Callable[[], int] = lambda: 0,
    largest: Callable[[int], int] = lambda own: own,
    wait: Callable[[], object] = lambda: None,
) -> RunCallback:
    trainer: Any = SimpleNamespace(
        largest=largest,
        accelerator=SimpleNamespace(wait_for_everyone=wait),
        sampler=SimpleNamespace(state=lambda step: begin(4)._replace(step=step)),
    )
    return RunCallback(trainer, {"seed": 3}, store, folder, asked)


def at(step: int, *, main: bool = True) -> SimpleNamespace:
    """The Trainer's state."""
    return SimpleNamespace(global_step=step, max_steps=8, is_world_process_zero=main)


def test_a_training_that_diverges_stops(corpus: TokenStore, tmp_path: Path) -> None:
    own = callback(corpus, RunFolder(tmp_path / "run"))
    own.on_log(None, at(7), None)
    for name in ("loss", "grad_norm"):
        own.on_log(None, at(7), None, {name: 1.0})
        with pytest.raises(NonFiniteError, match=f"Expected a finite {name}, found nan at step 7"):
            own.on_log(None, at(7), None, {name: float("nan")})


def test_one_process_makes_a_checkpoint_whole(corpus: TokenStore, tmp_path: Path) -> None:
    """When every process has written its file."""
    checkpoint = tmp_path / "checkpoint-7"
    checkpoint.mkdir()
    late = checkpoint / "rng_state_1.pth"
    own = callback(corpus, RunFolder(tmp_path / "run"), wait=late.touch)
    own.on_save(SimpleNamespace(output_dir=str(tmp_path)), at(7, main=False), None)
    assert not (checkpoint / "tokenizer.json").is_file()
    own.on_save(SimpleNamespace(output_dir=str(tmp_path)), at(7), None)
    assert (checkpoint / "tokenizer.json").is_file()
    assert read_seal(checkpoint) == ({"seed": 3}, begin(4)._replace(step=7))


def test_files_that_do_not_stay_stop_a_training(corpus: TokenStore, tmp_path: Path) -> None:
    data = Path(shutil.copytree(corpus.folder, tmp_path / "store"))
    folder = RunFolder(tmp_path / "run")
    own = callback(open_store(data), folder)
    own.on_step_end(None, at(1), TrainerControl())
    (data / "train" / "birds.bin").unlink()
    # The text is looked at where what was learned of it is kept.
    own.on_step_end(None, at(1), TrainerControl())
    for name in ("should_save", "should_training_stop"):
        with pytest.raises(
            DataError, match=r"birds\.bin not to change while it is read, found: No such"
        ):
            own.on_step_end(None, at(1), TrainerControl(**{name: True}))
    folder.path.rmdir()
    with pytest.raises(RunFolderError, match="run to stay"):
        own.on_step_end(None, at(1), TrainerControl())


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
        own.on_step_end(None, at(2), control)
        assert control.should_training_stop == control.should_save == control.should_log == stops
