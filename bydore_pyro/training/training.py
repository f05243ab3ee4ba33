"""A target model trained on a mixture by `transformers.Trainer`, from its checks to its folder.

A folder with

    config.json, schedule.json   the options; the mixture, or the mixtures, as they were read
    manifest.json                the text
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
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch

from bydore_pyro.data import TokenStore
from bydore_pyro.training.checkpoints import copy_tokenizer
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.training_plan import CHECKPOINTS, TrainingPlan, plan_training
from bydore_pyro.utils import (
    DataError,
    Interrupted,
    RunFolder,
    RunFolderError,
    appearing_folder,
    deferred,
    one_line,
    provenance,
)

if TYPE_CHECKING:
    from transformers import PretrainedConfig, TrainerCallback

    from bydore_pyro.training.trainer import MixtureTrainer

__all__ = ["train_target"]

MODEL, METRICS, SCHEDULE = "model", "metrics.json", "schedule.json"
PICKLE = "training_args.bin"  # the Trainer leaves its arguments as a pickle; nothing reads it


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
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Trains a causal language model from scratch on a mixture.

    Args:
        model: A folder with a `config.json`, a hub name, or a configuration object.
        store: The text.
        stages: The mixture, or the mixtures.
        config: How it is trained.
        out: The folder of the run.
        resume: Whether the folder holds a run that is continued, from its last whole checkpoint.
        options: What `config.json` tells beside `config`, by part.
        callbacks: Further ones for the Trainer.
        tell: Is given lines of progress.

    Returns:
        What `metrics.json` holds. Its `log` has, of every `log_every` steps, `step`, `loss` (nats
        per token, their mean), `learning_rate` and `grad_norm`.

    Raises:
        DataError: When model, text, mixture and length do not go together, or the text changes.
        Interrupted: When a signal asked for the end; a checkpoint of the last step was saved.
        RunFolderError: When the folder cannot be used or gone on with, or is deleted meanwhile.
        NonFiniteError: When a loss is NaN or infinite.
        ValueError: When there is no such device, or the batch cannot be shared among the processes.
    """
    with RunFolder(out, resume=resume, writes=os.environ.get("RANK", "0") == "0") as folder:
        if folder.writes:  # by the time another process looks, its first files may be there
            _check_folder(out, resume)
        plan = plan_training(model, store, stages, config, out if resume else None, tell)
        if plan.checkpoint is None:
            parts = {**(options or {}), "target": dataclasses.asdict(config)}
            folder.write_text(SCHEDULE, stages.to_json() + "\n")
            folder.write_json("manifest.json", store.index)
            folder.write_config("train", parts, tell)
        from bydore_pyro.training.trainer import build_trainer

        start = time.perf_counter()
        try:
            with deferred() as asked:
                trainer = build_trainer(plan, store, folder, callbacks, asked)
                trainer.train(resume_from_checkpoint=plan.checkpoint and str(plan.checkpoint))
                # Every process comes here: none ends before it is saved.
                if number := trainer.largest(asked()):
                    saved = out / CHECKPOINTS / f"checkpoint-{trainer.state.global_step}"
                    tell(f"Saved {saved}. Go on with --resume {out}")
                    raise Interrupted(number)
        except DataError as error:  # one of a worker's comes with its traceback
            reason = str(error).splitlines()[-1].split(f"{DataError.__name__}: ")[-1]
            raise DataError(reason) from error
        except UnpicklingError as error:
            found = f"Expected a valid {plan.checkpoint}, found: {one_line(error)}"
            raise RunFolderError(found) from error
        store.require_unchanged()
        seconds = time.perf_counter() - start
        _save_model(trainer, store, folder)
        metrics = _metrics(trainer, plan, seconds)
        folder.write_json(METRICS, metrics)
        return metrics


def _check_folder(out: Path, resume: bool) -> None:
    """Refuses a folder where something would be overwritten, or done again."""
    if not resume:
        for name in (MODEL, CHECKPOINTS, METRICS, SCHEDULE, "manifest.json", "tensorboard"):
            if (out / name).exists():
                raise RunFolderError(f"Expected a new output folder, found {name} in {out}")
    elif not (out / "config.json").is_file():
        raise RunFolderError(f"Expected an unfinished training in {out}, found none")
    elif (out / MODEL).is_dir() and (out / METRICS).is_file():
        raise RunFolderError(f"Expected an unfinished training, found a finished one in {out}")


def _save_model(trainer: MixtureTrainer, store: TokenStore, folder: RunFolder) -> None:
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


def _metrics(trainer: MixtureTrainer, plan: TrainingPlan, seconds: float) -> dict[str, Any]:
    config, dataset = plan.config, plan.dataset
    batch = config.target_batch_sequences * config.sequence_length
    taken = dict(zip(dataset.names, trainer.sampler.state(config.steps).taken, strict=True))
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    metrics: dict[str, Any] = {
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
        "device": torch.cuda.get_device_name() if config.device == "cuda" else "cpu",
        # Of this call, which may have gone on with another's run.
        "seconds": seconds,
        "tokens_per_second": (config.steps - plan.state.step) * batch / seconds,
        **provenance(),
    }
    if config.device == "cuda":
        metrics["peak_gpu_memory_bytes"] = torch.cuda.max_memory_allocated()
    return metrics
