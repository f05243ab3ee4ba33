"""`transformers.Trainer` for a mixture: order of sequences, whole checkpoints, requests to stop."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler
from transformers import Trainer, TrainerCallback

from bydore_pyro.errors import NonFiniteError
from bydore_pyro.files import RunFolder
from bydore_pyro.training.checkpoints import copy_tokenizer, write_seal
from bydore_pyro.training.order import MixtureSampler
from bydore_pyro.training.plan import TrainingPlan


def _apart(start: Callable[[int], None] | None, worker: int) -> None:
    """Puts a worker that reads ahead into a process group of its own: Ctrl-C and torchrun stop
    whole groups, and a training whose workers died could not end its step."""
    os.setpgid(0, 0)
    if start is not None:
        start(worker)


class MixtureTrainer(Trainer):
    """A `Trainer` that reads the sequences of a sampler, in its order."""

    sampler: MixtureSampler
    folder: RunFolder

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Returns the Trainer's loader; its workers live on when the training is asked to stop."""
        loader = super().get_train_dataloader()
        inner: Any = getattr(loader, "base_dataloader", loader)  # Accelerate's wraps another
        inner.worker_init_fn = partial(_apart, inner.worker_init_fn)
        # What it draws for its workers would move the dropout of a run that was resumed.
        inner.generator = torch.Generator()
        return loader

    def save_model(self, *arguments: Any, **options: Any) -> None:
        """Writes the model, also of a checkpoint, unless the folder was deleted or replaced."""
        self.folder.require()
        super().save_model(*arguments, **options)

    def largest(self, value: int) -> int:
        """Gives all processes the largest of their values."""
        if self.accelerator.num_processes == 1:
            return value
        own = torch.tensor([value], device=self.accelerator.device)
        return int(self.accelerator.gather(own).max())

    def train(self, *arguments: Any, **options: Any) -> Any:
        """Trains; ends the line of the bar, so that an error has a line of its own."""
        try:
            return super().train(*arguments, **options)
        finally:
            for bar in self.bars():
                bar.close()

    def bars(self) -> list[Any]:
        """Returns the bars of the training; none in a process that shows none."""
        found = [getattr(c, "training_bar", None) for c in self.callback_handler.callbacks]
        return [bar for bar in found if bar is not None]

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[Any]:
        return self.sampler


class RunCallback(TrainerCallback):
    """Ends a training in time, and makes checkpoints whole, with the tokenizer and a seal.

    All processes end behind the step in which any of them was asked to stop.

    Args:
        trainer: Knows the other processes.
        plan: Of the training.
        asked: Returns the number of the signal that arrived in this process, 0 before.
    """

    def __init__(
        self, trainer: MixtureTrainer, plan: TrainingPlan, asked: Callable[[], int]
    ) -> None:
        self._trainer, self._plan, self._asked = trainer, plan, asked

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
        """Checks for requests to stop, the folder, and the text before a save.

        Raises:
            RunFolderError: When the folder is another.
            DataError: When the text is.
        """
        state.epoch = state.global_step / state.max_steps  # the Trainer's begins anew on resuming
        self._trainer.folder.require()  # the Trainer would make it again
        if self._trainer.largest(self._asked()):
            control.should_log = control.should_save = control.should_training_stop = True
        if control.should_save or control.should_training_stop:
            self._plan.store.require_unchanged()

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Completes the checkpoint when every process has written its file."""
        self._trainer.accelerator.wait_for_everyone()
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            copy_tokenizer(self._plan.store.tokenizer, checkpoint)
            order = self._trainer.sampler.state(state.global_step)
            write_seal(checkpoint, self._plan.belongs, order)
