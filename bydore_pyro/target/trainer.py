"""`transformers.Trainer` with the sequences in their order; all else is the Trainer's own.

Accelerate deals the sampler's batches out to the processes in turn, so that the sequences of an
optimiser's step are those that follow each other, with any number of processes.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler, SequentialSampler
from transformers import (
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from bydore_pyro.data import TokenStore
from bydore_pyro.proxy import build_language_model
from bydore_pyro.target.checkpoints import checkpoint_step, copy_tokenizer, write_seal
from bydore_pyro.target.training_plan import CHECKPOINTS, TrainingPlan
from bydore_pyro.utils import NonFiniteError, RunFolder

__all__ = [
    "RunCallback",
    "SequentialTrainer",
    "build_trainer",
    "training_arguments",
]


def _apart(start: Callable[[int], None] | None, worker: int) -> None:
    """Puts a worker that reads ahead into a process group of its own: Ctrl-C and torchrun signal
    whole groups, and a training whose workers died could not end its step."""
    os.setpgid(0, 0)
    if start is not None:
        start(worker)


class SequentialTrainer(Trainer):
    """A `Trainer` that draws nothing: sequence after sequence."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Returns the Trainer's own, whose workers live on when a signal ends the training."""
        loader = super().get_train_dataloader()
        inner: Any = getattr(loader, "base_dataloader", loader)  # Accelerate's wraps another
        inner.worker_init_fn = partial(_apart, inner.worker_init_fn)
        return loader

    def largest(self, value: int) -> int:
        """Returns the largest of the processes' values, to all of them."""
        if self.accelerator.num_processes == 1:
            return value
        own = torch.tensor([value], device=self.accelerator.device)
        return int(self.accelerator.gather(own).max())

    def train(self, *arguments: Any, **options: Any) -> Any:
        """Trains; ends the line of the bar also on an error, which is told on a line of its own."""
        try:
            return super().train(*arguments, **options)
        finally:
            for callback in self.callback_handler.callbacks:
                if (bar := getattr(callback, "training_bar", None)) is not None:
                    bar.close()

    def _get_train_sampler(self, train_dataset: Sized | None = None) -> Sampler[int]:
        return SequentialSampler(train_dataset if train_dataset is not None else self.train_dataset)


class Bar(ProgressCallback):
    """The Trainer's bar, with the last loss behind it instead of a line for every one."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        """Shows the loss, in nats per token."""
        if self.training_bar is not None and logs and "loss" in logs:
            self.training_bar.set_postfix_str(f"loss {logs['loss']:.3f}")


class RunCallback(TrainerCallback):
    """What a run asks of the Trainer besides training: an end in time, and whole checkpoints.

    It stops a training whose loss or gradient has become NaN or infinite, whose folder is deleted
    (the Trainer would make it again), or whose text changes. It saves and ends one behind the step
    in which a signal arrived in any process. It puts the tokenizer beside the model of every
    checkpoint, and seals it.

    Args:
        plan: What runs.
        store: The text.
        folder: Of the run.
        trainer: Knows the other processes: all end behind the same step, and a checkpoint is whole
            when each has written its file.
        asked: Returns the number of the signal that arrived in this process, 0 before.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        store: TokenStore,
        folder: RunFolder,
        trainer: SequentialTrainer,
        asked: Callable[[], int],
    ) -> None:
        self._belongs, self._store, self._folder = plan.belongs, store, folder
        self._trainer, self._asked = trainer, asked

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        """Looks at what is logged.

        Raises:
            NonFiniteError: When it is not finite.
        """
        for name in ("loss", "grad_norm"):
            value = (logs or {}).get(name, 0.0)
            if not math.isfinite(value):
                raise NonFiniteError(
                    f"Expected a finite {name}, found {value} at step {state.global_step}: a lower "
                    "--learning_rate may help"
                )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Looks for signals, at the folder, and at the text where the step is saved or the last.

        Raises:
            RunFolderError: When the folder is another.
            DataError: When the text is.
        """
        self._folder.require()
        if self._trainer.largest(self._asked()):
            control.should_log = control.should_save = control.should_training_stop = True
        if control.should_save or control.should_training_stop:
            self._store.require_unchanged()

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Makes the checkpoint whole."""
        self._trainer.accelerator.wait_for_everyone()
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            copy_tokenizer(self._store.tokenizer, checkpoint)
            write_seal(checkpoint, self._belongs)


def build_trainer(
    plan: TrainingPlan,
    store: TokenStore,
    folder: RunFolder,
    callbacks: Sequence[TrainerCallback] = (),
    asked: Callable[[], int] = lambda: 0,
) -> SequentialTrainer:
    """Returns the Trainer of a fresh model.

    Args:
        plan: What will run.
        store: The text; its tokenizer goes into every checkpoint.
        folder: Of the run.
        callbacks: Further ones.
        asked: Returns the number of the signal that arrived, 0 before.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.config.seed)
        model = build_language_model(plan.model, store.vocabulary)
    trainer = SequentialTrainer(
        model=model,
        args=training_arguments(plan, folder.path / CHECKPOINTS),
        train_dataset=plan.dataset,
    )
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(Bar)
    own = RunCallback(plan, store, folder, trainer, asked)
    for callback in (own, *_tensorboard(plan, folder), *callbacks):
        trainer.add_callback(callback)
    if trainer.is_fsdp_enabled:
        # The sharded kind has an index that is unpickled, and no `from_pretrained` reads it.
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    return trainer


def training_arguments(plan: TrainingPlan, checkpoints: Path) -> TrainingArguments:
    """Returns what a plan is in the Trainer's own terms.

    Args:
        plan: What will run.
        checkpoints: Where the Trainer writes.
    """
    config, gpu = plan.config, plan.device.type == "cuda"
    known = {entry.name for entry in dataclasses.fields(TrainingArguments)}
    recompute = "activation_checkpointing"
    given: dict[str, Any] = {
        "output_dir": str(checkpoints),
        "use_cpu": not gpu,
        "seed": config.seed,
        # What a step sees and what it does with it.
        "max_steps": config.steps,
        "per_device_train_batch_size": plan.device_batch,
        "gradient_accumulation_steps": plan.accumulation,
        "average_tokens_across_devices": True,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr_rate": config.final_learning_rate},
        "warmup_steps": round(config.warmup_share * config.steps),
        "weight_decay": config.weight_decay,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "max_grad_norm": config.max_gradient_norm,
        # How it is computed.
        "bf16": gpu and config.precision == "bfloat16",
        "torch_compile": gpu and config.torch_compile,
        "use_liger_kernel": plan.liger,
        recompute if recompute in known else "gradient_checkpointing": (
            config.activation_checkpointing and not config.fsdp  # FSDP2 has its own
        ),
        "ddp_find_unused_parameters": False,
        # How it is read, told and kept.
        "dataloader_num_workers": config.loader_workers,
        "dataloader_pin_memory": gpu,
        "remove_unused_columns": False,
        "logging_steps": config.log_every,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": False,
        "save_strategy": "steps",
        "save_steps": config.save_every,
        "save_total_limit": config.kept_checkpoints,
    }
    if config.fsdp:
        given["fsdp"] = True
        given["fsdp_config"] = {
            "version": 2,
            "state_dict_type": "FULL_STATE_DICT",
            "activation_checkpointing": config.activation_checkpointing,
        }
    return TrainingArguments(**given)


def _tensorboard(plan: TrainingPlan, folder: RunFolder) -> list[TrainerCallback]:
    if plan.config.log != "tensorboard" or not folder.writes:
        return []
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations import TensorBoardCallback

    place = str(folder.path / "tensorboard")
    return [
        TensorBoardCallback(SummaryWriter(place, purge_step=checkpoint_step(plan.checkpoint) + 1))
    ]
