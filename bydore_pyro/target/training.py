"""A target model trained on a mixture by `transformers.Trainer`, from its checks to its folder.

A folder with

    config.json, schedule.json   the options; the mixture, or the mixtures, as they were read
    checkpoints/checkpoint-N     the Trainer's own, what a run goes on from
    tensorboard/                 event files
    model/                       the trained model and its tokenizer, for `from_pretrained`
    metrics.json                 losses, tokens of each domain, speed, versions
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from bydore_pyro.data import TokenStore
from bydore_pyro.target.checkpoints import checkpoint_step, copy_tokenizer, tensors_only
from bydore_pyro.target.config import TargetConfig
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.target.training_plan import CHECKPOINTS, TrainingPlan, plan_training
from bydore_pyro.utils import (
    DataError,
    Interrupted,
    RunFolder,
    RunFolderError,
    appearing_folder,
    deferred,
    provenance,
)

if TYPE_CHECKING:
    from transformers import PretrainedConfig, TrainerCallback

    from bydore_pyro.target.trainer import SequentialTrainer

__all__ = ["TargetConfig", "Trained", "train_target"]

MODEL, METRICS = "model", "metrics.json"
PICKLE = "training_args.bin"  # the Trainer leaves its arguments as a pickle; nothing reads it


@dataclass(frozen=True)
class Trained:
    """A training that came to its end.

    Attributes:
        folder: What it left behind.
        log: What was logged: `step`, `loss` (nats per token, mean over the steps since the last),
            `learning_rate`, `grad_norm`.
        metrics: What `metrics.json` holds.
    """

    folder: Path
    log: list[dict[str, float]]
    metrics: dict[str, Any]

    @property
    def model(self) -> Path:
        """The trained model's folder, for `AutoModelForCausalLM.from_pretrained`."""
        return self.folder / MODEL


def train_target(
    model: str | Path | PretrainedConfig,
    store: TokenStore,
    schedule: MixtureSchedule,
    config: TargetConfig,
    out: Path,
    *,
    resume: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    tell: Callable[[str], None] = lambda line: None,
) -> Trained:
    """Trains a causal language model from scratch on a mixture.

    The sequences of step ``s`` are ``s G`` to ``(s + 1) G`` of a `MixtureDataset`, with ``G`` the
    batch of all processes together, however many there are.

    Args:
        model: A folder with a `config.json`, a hub name, or a configuration object.
        store: The text.
        schedule: The mixture, or the mixtures.
        config: How it is trained.
        out: The folder of the run.
        resume: Whether the folder holds a run that is continued, from its last whole checkpoint.
        options: What `config.json` tells beside `config`, by part.
        callbacks: Further ones for the Trainer.
        tell: Is given lines of progress.

    Raises:
        DataError: When model, text, mixture and length do not go together, or the text changes.
        Interrupted: When a signal asked for the end; a checkpoint of the last step was saved.
        RunFolderError: When the folder cannot be used or gone on with, or is deleted meanwhile.
        NonFiniteError: When a loss is NaN or infinite.
        ValueError: When there is no such device, too little memory, a package is missing, or the
            batch cannot be shared among the processes.
    """
    with RunFolder(out, resume=resume, writes=os.environ.get("RANK", "0") == "0") as folder:
        return _train(model, store, schedule, config, folder, options, callbacks, tell)


def _train(
    model: str | Path | PretrainedConfig,
    store: TokenStore,
    schedule: MixtureSchedule,
    config: TargetConfig,
    folder: RunFolder,
    options: Mapping[str, Mapping[str, Any]] | None,
    callbacks: Sequence[TrainerCallback],
    tell: Callable[[str], None],
) -> Trained:
    """Trains in a folder that is this process's; see `train_target`."""
    out, resume = folder.path, folder.resumed
    if folder.writes:  # by the time another process looks, its first files may be there
        _check_folder(out, resume)
    plan = plan_training(model, store, schedule, config, out if resume else None, tell)
    if plan.checkpoint is None:
        parts = {**(options or {}), "target": dataclasses.asdict(config)}
        folder.write_text("schedule.json", schedule.to_json() + "\n")
        folder.write_json("manifest.json", store.index)
        folder.write_config("train", parts, tell)
    from bydore_pyro.target.trainer import build_trainer

    plan.dataset.order.counts(checkpoint_step(plan.checkpoint) * config.target_batch_sequences)
    start = time.perf_counter()
    try:
        with tensors_only(plan.checkpoint), deferred() as asked:
            trainer = build_trainer(plan, store, folder, callbacks, asked)
            trainer.train(resume_from_checkpoint=plan.checkpoint and str(plan.checkpoint))
            # Every process comes here: none ends before it is saved.
            if number := trainer.largest(asked()):
                name = f"checkpoint-{trainer.state.global_step}"
                tell(f"Saved {folder.path / CHECKPOINTS / name}. Go on with --resume {out}")
                raise Interrupted(number)
    except DataError as error:  # one of a worker's comes with its traceback
        reason = str(error).splitlines()[-1].split(f"{DataError.__name__}: ")[-1]
        raise DataError(reason) from error
    store.require_unchanged()
    seconds = time.perf_counter() - start
    _save_model(trainer, store, folder)
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    metrics = _metrics(trainer, plan, seconds, log)
    folder.write_json(METRICS, metrics)
    return Trained(out, log, metrics)


def _check_folder(out: Path, resume: bool) -> None:
    """Checks that nothing in the folder would be overwritten, or done again.

    Raises:
        RunFolderError: When it would.
    """
    if resume:
        if not (out / "config.json").is_file():
            raise RunFolderError(f"Expected an unfinished training in {out}, found none")
        if (out / MODEL).is_dir() and (out / METRICS).is_file():
            raise RunFolderError(f"Expected an unfinished training, found a finished one in {out}")
        return
    for name in (MODEL, CHECKPOINTS, METRICS, "schedule.json", "manifest.json", "tensorboard"):
        if (out / name).exists():
            raise RunFolderError(f"Expected a new output folder, found {name} in {out}")


def _save_model(trainer: SequentialTrainer, store: TokenStore, folder: RunFolder) -> None:
    """Writes the final model with its tokenizer; every process takes part in gathering it."""
    trainer.accelerator.unwrap_model(trainer.model).config.use_cache = True
    if not folder.writes:
        trainer.save_model(str(folder.path / MODEL))  # writes nothing
        return
    folder.require()
    with appearing_folder(folder.path / MODEL, first_wins=folder.resumed) as aside:
        trainer.save_model(str(aside))
        (aside / PICKLE).unlink(missing_ok=True)
        copy_tokenizer(store.tokenizer, aside)


def _metrics(
    trainer: SequentialTrainer, plan: TrainingPlan, seconds: float, log: list[dict[str, float]]
) -> dict[str, Any]:
    config, order = plan.config, plan.dataset.order
    batch = config.target_batch_sequences * config.sequence_length
    counts = order.counts(len(order))
    tokens = (counts * config.sequence_length).tolist()
    model = trainer.accelerator.unwrap_model(trainer.model)
    metrics: dict[str, Any] = {
        "steps": config.steps,
        "tokens": config.steps * batch,
        "tokens_by_domain": dict(zip(order.names, tokens, strict=True)),
        "largest_deviation_sequences": float(np.abs(counts - order.quotas(len(order))).max()),
        "epochs": plan.dataset.epochs(),
        "final_loss": log[-1]["loss"] if log else None,
        "log": log,
        "flops": trainer.state.total_flos,  # as transformers counts: 6 for each weight and token
        "parameters": _size(model),
        "embedding_parameters": _size(model.get_input_embeddings()),
        "processes": plan.processes,
        "device": torch.cuda.get_device_name() if plan.device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "seed": config.seed,
        # Of this call, which may have gone on with another's run.
        "seconds": seconds,
        "tokens_per_second": (config.steps - checkpoint_step(plan.checkpoint)) * batch / seconds,
        **provenance(),
    }
    if plan.device.type == "cuda":
        metrics["peak_gpu_memory_bytes"] = torch.cuda.max_memory_allocated()
    return metrics


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
