"""Trains a target model on a mixture by `transformers.Trainer`, from its checks to its folder.

The sequences come in their own order; all else is the Trainer's. Accelerate deals the sampler's
batches out to the processes in turn, so that the sequences of an optimiser's step are those that
follow each other, with any number of processes. A folder with

    config.json, schedule.json   the options; the mixture, or the mixtures, as they were read
    manifest.json                the text
    checkpoints/checkpoint-N     the Trainer's own, what a run goes on from
    model/                       the trained model and its tokenizer, for `from_pretrained`
    metrics.json                 losses, tokens and held-out loss of each domain, speed, versions
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from transformers import PretrainedConfig, TrainerCallback, TrainingArguments

from bydore_pyro.command_line import resume_command
from bydore_pyro.data import TokenStore
from bydore_pyro.errors import DataError, RunFolderError, one_line
from bydore_pyro.files import LOCK, RunFolder, appearing_folder, provenance
from bydore_pyro.proxy import TRAINED_LENGTH, MeasuredModel, Parallel, build_language_model
from bydore_pyro.terminal import Interrupted, deferred, tell, told_if_stopped
from bydore_pyro.training.checkpoints import copy_tokenizer
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.held_out import held_out_losses
from bydore_pyro.training.order import MixtureSampler
from bydore_pyro.training.plan import CHECKPOINTS, TrainingPlan, plan_training
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.trainer import MixtureTrainer, RunCallback

MODEL = "model"
PICKLE = "training_args.bin"  # the Trainer leaves its arguments as a pickle; nothing reads it


def build_trainer(
    plan: TrainingPlan,
    folder: RunFolder,
    callbacks: Sequence[TrainerCallback] = (),
    asked: Callable[[], int] = lambda: 0,
) -> MixtureTrainer:
    """Returns the Trainer of a fresh model; `folder` and `asked` are for its callback."""
    config = plan.config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model: Any = build_language_model(plan.model, plan.store.vocabulary)
        setattr(model.config, TRAINED_LENGTH, config.sequence_length)
        if config.activation_checkpointing:
            newer = getattr(model, "activation_checkpointing_enable", None)
            (newer or model.gradient_checkpointing_enable)()
    arguments = _arguments(plan, folder.path / CHECKPOINTS)
    trainer = MixtureTrainer(model=model, args=arguments, train_dataset=plan.dataset)
    trainer.folder = folder
    trainer.sampler = MixtureSampler(
        plan.stages.by_step(config.steps),
        config.steps,
        config.target_batch_sequences,
        plan.state,
    )
    for callback in (RunCallback(trainer, plan, asked), *callbacks):
        trainer.add_callback(callback)
    return trainer


def _arguments(plan: TrainingPlan, checkpoints: Path) -> TrainingArguments:
    config, gpu = plan.config, plan.config.on_gpu
    given: dict[str, Any] = {
        "output_dir": str(checkpoints),
        "use_cpu": not gpu,
        "seed": config.seed,
        "max_steps": config.steps,
        "ignore_data_skip": True,  # the sampler begins where the run stands
        "per_device_train_batch_size": plan.device_batch,
        "gradient_accumulation_steps": plan.accumulation,
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
        "save_total_limit": 2,
    }
    return TrainingArguments(**given)


def train_target(
    model: str | Path | PretrainedConfig,
    store: TokenStore,
    stages: Stages,
    config: TargetConfig,
    out: Path,
    *,
    resume: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> dict[str, Any]:
    """Trains a causal language model from scratch on a mixture.

    Args:
        model: A folder with a `config.json`, a hub name, or a configuration object.
        store: The text.
        stages: The mixture, or the mixtures.
        config: How it is trained.
        out: The folder of the run.
        resume: Whether the folder holds a run that is continued, from its last whole checkpoint.
        options: What `config.json` holds beside `config`, by part.
        callbacks: Further ones for the Trainer.

    Returns:
        What `metrics.json` holds. Its `log` has, of every `log_every` steps, `step`, `loss` (nats
        per token, their mean), `learning_rate` and `grad_norm`.

    Raises:
        DataError: When model, text, mixture and length do not go together, or the text changes.
        Interrupted: On Ctrl-C or SIGTERM; a checkpoint of the last step was saved.
        RunFolderError: When the folder cannot be used or gone on with, or is deleted meanwhile.
        NonFiniteError: When a loss is NaN or infinite.
        ValueError: When there is no such device, or the batch cannot be shared among the processes.
    """
    with RunFolder(out, resume=resume, writes=os.environ.get("RANK", "0") == "0") as folder:
        if folder.writes:  # by the time another process looks, its first files may be there
            _check_folder(out, resume)
        plan = plan_training(model, store, stages, config, out if resume else None)
        if plan.checkpoint is None:
            parts = {**(options or {}), "target": dataclasses.asdict(config)}
            folder.write_text("schedule.json", stages.to_json() + "\n")
            folder.write_json("manifest.json", store.index)
            folder.write_config("train", parts)
        with told_if_stopped(f"Go on with: {resume_command(out)}"):
            start = time.perf_counter()
            trainer = _trained(plan, folder, callbacks)
            store.require_unchanged()
            seconds = time.perf_counter() - start
            # First: a model whose losses are NaN is none.
            told = _held_out(trainer, plan)
            _save_model(trainer, store.tokenizer)
            metrics = _record(trainer, plan, seconds, told)
            folder.write_json("metrics.json", metrics)
        return metrics


def _trained(
    plan: TrainingPlan, folder: RunFolder, callbacks: Sequence[TrainerCallback]
) -> MixtureTrainer:
    """Trains from the plan's checkpoint to the end, or saves where it is asked to stop."""
    try:
        with deferred() as asked:
            trainer = build_trainer(plan, folder, callbacks, asked)
            trainer.train(resume_from_checkpoint=plan.checkpoint and str(plan.checkpoint))
            # Every process comes here: none ends before it is saved.
            if number := trainer.largest(asked()):
                tell(f"Saved {folder.path / CHECKPOINTS}/checkpoint-{trainer.state.global_step}")
                raise Interrupted(number)
    except DataError as error:  # one of a worker's comes with its traceback
        reason = str(error).splitlines()[-1].split(f"{DataError.__name__}: ")[-1]
        raise DataError(reason) from error
    except UnpicklingError as error:
        found = f"Expected a valid {plan.checkpoint}, found: {one_line(error)}"
        raise RunFolderError(found) from error
    return trainer


def _check_folder(out: Path, resume: bool) -> None:
    """Refuses a folder in which a run would overwrite something or repeat work."""
    found = [path.name for path in out.iterdir() if path.name != LOCK]
    if found and not resume:
        raise RunFolderError(f"Expected a new output folder, found {min(found)} in {out}")
    if resume and "config.json" not in found:
        raise RunFolderError(f"Expected an unfinished training in {out}, found none")
    if {MODEL, "metrics.json"} <= {*found}:
        raise RunFolderError(f"Expected an unfinished training, found a finished one in {out}")


def _held_out(trainer: MixtureTrainer, plan: TrainingPlan) -> dict[str, Any]:
    """Returns what the record tells of held-out text; every process takes part in reading it."""
    config = plan.config
    model = MeasuredModel(
        trainer.accelerator.unwrap_model(trainer.model),
        parallel=Parallel(cpu=not config.on_gpu),
        precision=config.precision if config.on_gpu else "float32",
    )
    chunk = plan.device_batch * plan.processes
    found = held_out_losses(model, plan.store, config.sequence_length, chunk)
    return {
        "held_out_loss_nats_per_token": {name: one.loss for name, one in found.items()},
        "held_out_sequences": {name: one.sequences for name, one in found.items()},
    }


def _save_model(trainer: MixtureTrainer, tokenizer: Path) -> None:
    """Writes the final model with its tokenizer; every process takes part in gathering it."""
    folder = trainer.folder
    trainer.accelerator.unwrap_model(trainer.model).config.use_cache = True
    if not folder.writes:
        trainer.save_model(str(folder.path / MODEL))  # writes nothing
        return
    folder.require()
    with appearing_folder(folder.path / MODEL, first_wins=folder.resumed) as aside:
        trainer.save_model(str(aside))
        (aside / PICKLE).unlink(missing_ok=True)
        copy_tokenizer(tokenizer, aside)


def _record(
    trainer: MixtureTrainer, plan: TrainingPlan, seconds: float, told: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what `metrics.json` holds of a training; `seconds` are those of this call, which may
    have gone on with another's run."""
    config, dataset = plan.config, plan.dataset
    batch = config.target_batch_sequences * config.sequence_length
    taken = dict(zip(dataset.names, trainer.sampler.state(config.steps).taken, strict=True))
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    return {
        "steps": config.steps,
        "tokens": config.steps * batch,
        "tokens_by_domain": {name: n * config.sequence_length for name, n in taken.items()},
        "epochs": dataset.epochs(taken),
        "final_loss": log[-1]["loss"] if log else None,
        "log": log,
        "flops": trainer.state.total_flos,  # as transformers counts: 6 for each weight and token
        "parameters": model.num_parameters(),
        "embedding_parameters": model.get_input_embeddings().weight.numel(),
        "processes": plan.processes,
        "device": torch.cuda.get_device_name() if config.on_gpu else "cpu",
        "seconds": seconds,
        "tokens_per_second": (config.steps - plan.state.step) * batch / seconds,
        **provenance(),
        **told,
        "peak_gpu_memory_bytes": torch.cuda.max_memory_allocated() if config.on_gpu else None,
    }
