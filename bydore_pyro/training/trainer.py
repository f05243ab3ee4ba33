"""`transformers.Trainer` for a mixture: the order of its sequences, whole checkpoints, and requests
to stop."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler
from transformers import (
    PretrainedConfig,
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, rotate_checkpoints

from bydore_pyro import data, files, proxy
from bydore_pyro.errors import DataError, NonFiniteError, RunFolderError, expecting
from bydore_pyro.training.checks import device_batch
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.order import MixtureDataset, MixtureSampler, begin, next_batch
from bydore_pyro.training.stages import Stages

CHECKPOINTS = "checkpoints"  # the folder of the Trainer in that of a run
KEPT = 2  # checkpoints: the newest, and the one before it should the newest be damaged
WRITING = ".writing"  # the folder of the checkpoint that is being written


def _in_a_group_of_its_own(start: Callable[[int], None] | None, worker: int) -> None:
    """Starts a process that reads ahead, in a group of its own: Ctrl-C and torchrun stop whole
    groups, and without its readers a training could not finish the step and save."""
    os.setpgid(0, 0)
    if start is not None:
        start(worker)


class MixtureTrainer(Trainer):
    """A `Trainer` that reads the sequences of a sampler, in its order, and whose checkpoints appear
    whole or not at all.

    Attributes:
        sampler: Of the sequences.
        folder: Of the run.
        tokenizer: The folder of the text's tokenizer, which is copied into every checkpoint.
    """

    sampler: MixtureSampler
    folder: files.RunFolder
    tokenizer: Path

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[Any]:
        return self.sampler

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Returns the Trainer's loader; its workers live on when the training is asked to stop."""
        loader = super().get_train_dataloader()
        inner: Any = getattr(loader, "base_dataloader", loader)  # Accelerate's wraps another
        inner.worker_init_fn = partial(_in_a_group_of_its_own, inner.worker_init_fn)
        # What it draws for its workers would move the dropout of a run that was resumed.
        inner.generator = torch.Generator()
        return loader

    def _get_output_dir(self, trial: Any) -> str:
        return str(Path(self.args.output_dir) / WRITING)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        step, place = self.state.global_step, Path(self.args.output_dir)
        self.folder.require()  # one that was deleted would be made again
        self.sampler.state(step)  # forgets those before it
        with saving(place):
            super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            written = place / WRITING / f"{PREFIX_CHECKPOINT_DIR}-{step}"
            copy_tokenizer(self.tokenizer, written)
            written.rename(place / written.name)
            shutil.rmtree(written.parent, ignore_errors=True)
            rotate_checkpoints(str(place), KEPT)

    def train(self, resume_from_checkpoint: str | bool | None = None, **options: Any) -> Any:
        """Trains; ends the line of the progress bar, so that an error has a line of its own."""
        try:
            return super().train(resume_from_checkpoint, **options)
        finally:
            for callback in self.callback_handler.callbacks:
                if (bar := getattr(callback, "training_bar", None)) is not None:
                    bar.close()

    def _load_from_checkpoint(self, checkpoint: str, *arguments: Any, **options: Any) -> None:
        with _whole(checkpoint):
            super()._load_from_checkpoint(checkpoint, *arguments, **options)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with _whole(checkpoint):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with _whole(checkpoint):
            super()._load_rng_state(checkpoint)


def saving(place: Path) -> Any:
    """Turns the errors of writing tensors, such as those of a full disk, into one line."""
    return expecting(f"Expected to write to {place}, found:", as_error=RunFolderError)


def copy_tokenizer(tokenizer: Path, folder: Path) -> None:
    """Copies a tokenizer's files beside a model, without their modes: a text may be read-only."""
    shutil.copytree(tokenizer, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
    folder.chmod(0o755)


def _whole(checkpoint: str | None) -> Any:
    """Turns the errors of reading a damaged checkpoint into one line."""
    return expecting(
        f"Expected a whole checkpoint in {checkpoint} (delete it to continue from the one before), "
        "found:",
        as_error=RunFolderError,
    )


def belongs_of(checkpoint: str) -> dict[str, Any]:
    """Returns what a checkpoint belongs to, as `RunCallback` got it.

    Raises:
        RunFolderError: When the file that says so is damaged.
    """
    with _whole(checkpoint):
        callbacks = files.read_json(Path(checkpoint) / TRAINER_STATE_NAME)["stateful_callbacks"]
        return dict(callbacks[RunCallback.__name__]["attributes"])


class RunCallback(TrainerCallback, ExportableState):
    """Ends a training when it is asked to stop, a loss is not finite, or the text changes.

    All processes end after the step in which any of them was asked.

    Args:
        accelerator: Of the Trainer; it knows the other processes.
        store: The text.
        belongs: What the run's checkpoints belong to, plain values. The Trainer saves them.
        asked: Returns the number of the signal that arrived in this process, 0 before.
    """

    def __init__(
        self,
        accelerator: Any,
        store: data.TokenStore,
        belongs: Mapping[str, Any],
        asked: Callable[[], int],
    ) -> None:
        self._accelerator, self._store, self._belongs = accelerator, store, belongs
        self._asked = asked

    def state(self) -> dict[str, Any]:
        """Returns what the Trainer saves of it in a checkpoint."""
        return {"args": {}, "attributes": dict(self._belongs)}

    def signal(self) -> int:
        """Returns the number of the signal that arrived in any of the processes, 0 without one."""
        if self._accelerator.num_processes == 1:
            return self._asked()
        own = torch.tensor([self._asked()], device=self._accelerator.device)
        return int(self._accelerator.gather(own).max())

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any) -> None:
        """Checks what is logged.

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

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Checks for requests to stop, and the text before a save.

        Raises:
            DataError: When the text has changed.
        """
        if self.signal():
            control.should_log = control.should_save = control.should_training_stop = True
        if control.should_save or control.should_training_stop:
            self._store.require_unchanged()


def step_of(checkpoint: str | None) -> int:
    """Returns the training steps before a checkpoint, 0 without one."""
    return int(checkpoint.rpartition("-")[2]) if checkpoint else 0


def fresh_model(
    model: str | Path | PretrainedConfig, store: data.TokenStore, config: TargetConfig
) -> PreTrainedModel:
    """Returns a causal language model for the text, with the seed's weights.

    Raises:
        DataError: When there is no such model, or it takes no sequences of that length.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        fresh: Any = proxy.build_language_model(model, store.vocabulary)
    longest = getattr(fresh.config, "max_position_embeddings", None)
    if longest is not None and config.sequence_length > longest:
        raise DataError(
            f"Expected sequence_length <= {longest}, the longest that {type(fresh).__name__} "
            f"takes, found {config.sequence_length}"
        )
    # Documents are joined by this token, so it is what a text begins with too.
    _, end = data.load_encoder(store.tokenizer)
    fresh.config.bos_token_id = fresh.config.eos_token_id = end
    setattr(fresh.config, proxy.TRAINED_LENGTH, config.sequence_length)
    if config.activation_checkpointing:
        newer = getattr(fresh, "activation_checkpointing_enable", None)
        (newer or fresh.gradient_checkpointing_enable)()
    return fresh


def build_trainer(
    model: PreTrainedModel,
    dataset: MixtureDataset,
    store: data.TokenStore,
    stages: Stages,
    config: TargetConfig,
    folder: files.RunFolder,
    begun: int = 0,
) -> MixtureTrainer:
    """Returns the Trainer of a model, before its callbacks.

    Args:
        model: Before its first step.
        dataset: The sequences.
        store: Of the text, with its tokenizer.
        stages: The mixtures.
        config: How it is trained.
        folder: Of the run.
        begun: Training steps that were taken before; the order of domains begins after them.
    """
    trainer = MixtureTrainer(
        model=model, args=_arguments(config, folder.path / CHECKPOINTS), train_dataset=dataset
    )
    trainer.sampler = _sampler(stages, config, begun)
    trainer.folder, trainer.tokenizer = folder, store.tokenizer
    return trainer


def _sampler(stages: Stages, config: TargetConfig, begun: int) -> MixtureSampler:
    """Returns the keys of the sequences after `begun` steps. The order depends on the weights
    alone, so that replaying it finds where the run stood."""
    weights, batch = stages.by_step(config.steps), config.target_batch_sequences
    state = begin(len(stages.names))
    for step in range(begun):
        _, state = next_batch(state, weights(step), batch)
    return MixtureSampler(weights, config.steps, batch, state)


def _arguments(config: TargetConfig, checkpoints: Path) -> TrainingArguments:
    gpu, (each, accumulation) = config.on_gpu, device_batch(config, proxy.number_of_processes())
    given: dict[str, Any] = {
        "output_dir": str(checkpoints),
        "use_cpu": not gpu,
        "seed": config.seed,
        "max_steps": config.steps,
        "ignore_data_skip": True,  # the sampler begins after the steps that were taken
        "per_device_train_batch_size": each,
        "gradient_accumulation_steps": accumulation,
        "average_tokens_across_devices": True,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
        "warmup_steps": round(config.warmup_share * config.steps),
        "weight_decay": config.weight_decay,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "max_grad_norm": config.max_gradient_norm,
        "bf16": gpu and config.precision == "bfloat16",
        "torch_compile": gpu and config.torch_compile,
        "use_liger_kernel": gpu and config.liger and find_spec("liger_kernel") is not None,
        "ddp_find_unused_parameters": False,
        "dataloader_num_workers": config.loader_workers,
        "dataloader_pin_memory": gpu,
        "remove_unused_columns": False,
        "logging_steps": config.log_every,
        "logging_nan_inf_filter": False,
        "report_to": config.report_to,
        "disable_tqdm": False,
        "save_steps": config.save_every,
    }
    return TrainingArguments(**given)
