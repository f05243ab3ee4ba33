"""Trains a target model on a mixture by `transformers.Trainer`, from its checks to its folder.

The sequences come in their own order; all else is the Trainer's. Accelerate deals the sampler's
batches out to the processes in turn, so that the sequences of an optimiser's step are those that
follow each other, with any number of processes. A folder with

    config.json, schedule.json   the options; the mixture, or the mixtures, as they were read
    manifest.json                the text
    checkpoints/checkpoint-N     the Trainer's own, what a run continues from
    model/                       the trained model and its tokenizer, for `from_pretrained`
    metrics.json                 losses, tokens and held-out loss of each domain, speed, versions
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PretrainedConfig, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from bydore_pyro import data, files, proxy, terminal
from bydore_pyro.command_line import resume_command
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.law import PER_TOKEN
from bydore_pyro.training.checks import check_training, device_batch
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.held_out import held_out_losses
from bydore_pyro.training.order import MixtureDataset
from bydore_pyro.training.stages import SCHEDULE, Stages
from bydore_pyro.training.trainer import (
    CHECKPOINTS,
    MixtureTrainer,
    RunCallback,
    belongs_of,
    build_trainer,
    copy_tokenizer,
    fresh_model,
    saving,
    step_of,
)

MANIFEST, METRICS, MODEL = "manifest.json", "metrics.json", "model"
PICKLE = "training_args.bin"  # the Trainer leaves its arguments as a pickle; nothing reads it
# The options that decide which sequences a step sees, and what it does with them. The others say
# how that is computed, read, reported and kept: they may change on the way.
DECIDING = (
    *("tokens", "sequence_length", "target_batch_sequences", "seed", "precision"),
    *("learning_rate", "warmup_share", "weight_decay", "max_gradient_norm"),
)


def train_target(
    model: str | Path | PretrainedConfig,
    store: data.TokenStore,
    stages: Stages,
    config: TargetConfig,
    out: Path,
    *,
    resume: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    read_on: data.TokenStore | None = None,
) -> dict[str, Any]:
    """Trains a causal language model from scratch on a mixture.

    Args:
        model: A folder with a `config.json`, a hub name, or a configuration object.
        store: The text.
        stages: The mixture, or the mixtures.
        config: How it is trained.
        out: The folder of the run.
        resume: Whether the folder holds a run that is continued, from its last checkpoint.
        options: What `config.json` holds beside `config`, by part.
        callbacks: Further ones for the Trainer.
        read_on: The text with targets as further domains, on whose held-out text the model is read
            at the end; the text alone when None.

    Returns:
        What `metrics.json` holds. Its `log` has, of every `log_every` steps, `step`, `loss` (nats
        per token, their mean), `learning_rate` and `grad_norm`.

    Raises:
        DataError: When model, text, mixture and length do not go together, or the text changes.
        Interrupted: On Ctrl-C or SIGTERM; a checkpoint of the last step was saved.
        RunFolderError: When the folder cannot be used, holds another run or a damaged checkpoint,
            or is deleted meanwhile.
        NonFiniteError: When a loss is NaN or infinite.
        ValueError: When there is no such device, or the batch cannot be shared among the processes.
    """
    with files.RunFolder(out, resume=resume, writes=os.environ.get("RANK", "0") == "0") as folder:
        if resume:
            _require_unfinished(out)
        elif folder.writes:  # by the time another process looks, its first files may be there
            _require_new(out)
        processes = proxy.number_of_processes()
        each, accumulation = device_batch(config, processes)
        check_training(store, stages, config)
        dataset = MixtureDataset(store, stages.names, config.sequence_length, config.seed)
        belongs = _belongs(store, stages, config)
        checkpoint = _checkpoint_of(out, belongs) if resume else None
        fresh = fresh_model(checkpoint or model, store, config)
        terminal.tell(
            f"{fresh.num_parameters():,} parameters; {config.steps} steps of "
            f"{config.target_batch_sequences} x {config.sequence_length} tokens, {each} sequences "
            f"at once, {accumulation} times, on {processes} x {'cuda' if config.on_gpu else 'cpu'}"
        )
        if checkpoint is None:
            parts = {**(options or {}), "target": dataclasses.asdict(config)}
            folder.write_text(SCHEDULE, stages.to_json() + "\n")
            folder.write_json(MANIFEST, store.index)
            folder.write_config("train", parts)
        with terminal.told_if_stopped(f"Go on with: {resume_command(out)}"):
            start, begun = time.perf_counter(), step_of(checkpoint)
            trainer = build_trainer(fresh, dataset, store, stages, config, folder, begun)
            _train(trainer, checkpoint, store, belongs, callbacks)
            store.require_unchanged()
            seconds = time.perf_counter() - start
            # Before the model is saved: one whose losses are NaN is none.
            held_out = _held_out(trainer, read_on or store, config)
            _save_model(trainer)
            metrics = {**_record(trainer, config, begun, seconds), **held_out}
            folder.write_json(METRICS, metrics)
        return metrics


def _require_new(out: Path) -> None:
    """Refuses a folder in which a run would overwrite something."""
    if found := [path.name for path in out.iterdir() if not path.name.startswith(".")]:
        raise RunFolderError(f"Expected a new output folder, found {min(found)} in {out}")


def _require_unfinished(out: Path) -> None:
    """Refuses to continue a run that is finished, or that is none."""
    if not (out / "config.json").exists():
        raise RunFolderError(f"Expected an unfinished training in {out}, found none")
    if (out / MODEL).exists() and (out / METRICS).exists():
        raise RunFolderError(f"Expected an unfinished training, found a finished one in {out}")


def _belongs(store: data.TokenStore, stages: Stages, config: TargetConfig) -> dict[str, Any]:
    """Returns what a run's checkpoints belong to: text, mixture, deciding options, versions."""
    return {
        **{name: getattr(config, name) for name in DECIDING},
        "text": store.sha256,
        "mixture": json.loads(stages.to_json()),
        "versions": files.versions(),
    }


def _checkpoint_of(out: Path, belongs: Mapping[str, Any]) -> str | None:
    """Returns the newest checkpoint of a run, after checking that it is this run's."""
    folder = out / CHECKPOINTS
    checkpoint: str | None = get_last_checkpoint(folder) if folder.is_dir() else None
    if checkpoint is None:
        terminal.tell("no checkpoint: beginning anew")
        return None
    files.check_belongs(Path(checkpoint), belongs_of(checkpoint), belongs)
    terminal.tell(f"going on from {checkpoint}")
    return checkpoint


def _train(
    trainer: MixtureTrainer,
    checkpoint: str | None,
    store: data.TokenStore,
    belongs: Mapping[str, Any],
    callbacks: Sequence[TrainerCallback],
) -> None:
    """Trains from a checkpoint to the end, or saves where it is asked to stop."""
    try:
        with terminal.deferred() as asked:
            run = RunCallback(trainer.accelerator, store, belongs, asked)
            for callback in (run, *callbacks):
                trainer.add_callback(callback)
            trainer.train(resume_from_checkpoint=checkpoint)
            # Every process comes here: none ends before it is saved.
            if number := run.signal():
                terminal.tell(
                    f"Saved {trainer.args.output_dir}/checkpoint-{trainer.state.global_step}"
                )
                raise terminal.Interrupted(number)
    except DataError as error:  # one of a worker's comes with its traceback
        reason = str(error).splitlines()[-1].split(f"{DataError.__name__}: ")[-1]
        raise DataError(reason) from error


def _held_out(
    trainer: MixtureTrainer, store: data.TokenStore, config: TargetConfig
) -> dict[str, Any]:
    """Returns what the record says of held-out text; every process takes part in reading it."""
    model = proxy.MeasuredModel(
        trainer.accelerator.unwrap_model(trainer.model),
        parallel=proxy.Parallel(cpu=not config.on_gpu),
        precision=config.precision if config.on_gpu else "float32",
    )
    chunk = trainer.args.per_device_train_batch_size * model.parallel.count
    found = held_out_losses(model, store, config.sequence_length, chunk)
    tasks = {name: one for name, one in found.items() if one.unit != PER_TOKEN}
    plain = {name: one for name, one in found.items() if name not in tasks}
    return {
        "held_out_loss_nats_per_token": {name: one.loss for name, one in plain.items()},
        "held_out_sequences": {name: one.sequences for name, one in plain.items()},
        "tasks": {name: one._asdict() for name, one in tasks.items()},
    }


def _save_model(trainer: MixtureTrainer) -> None:
    """Writes the final model with its tokenizer; every process takes part in gathering it."""
    folder = trainer.folder
    trainer.accelerator.unwrap_model(trainer.model).config.use_cache = True
    if not folder.writes:
        trainer.save_model(str(folder.path / MODEL))  # writes nothing
        return
    folder.require()
    with files.appearing_folder(folder.path / MODEL, first_wins=folder.resumed) as aside:
        with saving(folder.path):
            trainer.save_model(str(aside))
        (aside / PICKLE).unlink(missing_ok=True)
        copy_tokenizer(trainer.tokenizer, aside)


def _record(
    trainer: MixtureTrainer, config: TargetConfig, begun: int, seconds: float
) -> dict[str, Any]:
    """Returns what `metrics.json` holds of a training.

    Args:
        trainer: After the last step.
        config: How it trained.
        begun: Steps that an earlier call had taken.
        seconds: That this call took for the others.
    """
    batch, dataset = config.target_batch_sequences * config.sequence_length, trainer.train_dataset
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
        "processes": trainer.accelerator.num_processes,
        "device": torch.cuda.get_device_name() if config.on_gpu else "cpu",
        "seconds": seconds,
        "tokens_per_second": (config.steps - begun) * batch / seconds,
        **files.provenance(),
        "peak_gpu_memory_bytes": torch.cuda.max_memory_allocated() if config.on_gpu else None,
    }
