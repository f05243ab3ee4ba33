"""A training that has passed its checks: what will run, on what, and from where."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from bydore_pyro.data import TokenStore, load_encoder
from bydore_pyro.proxy import build_language_model, number_of_processes
from bydore_pyro.target.checkpoints import belonging, last_checkpoint
from bydore_pyro.target.config import TargetConfig
from bydore_pyro.target.mixture_dataset import MixtureDataset
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.target.training_checks import (
    check_epochs,
    check_memory,
    check_positions,
    check_schedule,
    device_batch,
    memory_needed,
)
from bydore_pyro.utils import require

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["CHECKPOINTS", "TrainingPlan", "plan_training"]

CHECKPOINTS = "checkpoints"  # where they lie in the folder of a run


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What a training will do.

    Attributes:
        config: The options.
        model: The model's configuration, with the text's vocabulary.
        dataset: The run's sequences.
        device: The kind of device.
        device_batch: Sequences that a device takes at once.
        accumulation: How often it does so in a step.
        processes: How many there are.
        liger: Whether liger-kernel's kernels are used.
        checkpoint: What is gone on from, or None.
        belongs: What its checkpoints belong to.
    """

    config: TargetConfig
    model: PretrainedConfig
    dataset: MixtureDataset
    device: torch.device
    device_batch: int
    accumulation: int
    processes: int
    liger: bool
    checkpoint: Path | None
    belongs: Mapping[str, Any]


def plan_training(
    model: str | Path | PretrainedConfig,
    store: TokenStore,
    schedule: MixtureSchedule,
    config: TargetConfig,
    resumed: Path | None,
    tell: Callable[[str], None],
) -> TrainingPlan:
    """Checks everything that can be checked before anything long starts.

    Args:
        model: A folder with a `config.json`, a hub name, or a configuration object.
        store: The text.
        schedule: The mixture, or the mixtures.
        config: How it is trained.
        resumed: The folder of the run that is continued, or None.
        tell: Is given what was found.

    Raises:
        DataError: When model, text, mixture and length do not go together.
        RunFolderError: When the run that is to be continued is another one.
        ValueError: When there is no such device, too little memory, a package is missing, or the
            batch cannot be shared among the processes.
    """
    processes = number_of_processes()
    _check_packages(config, processes)
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("Expected a CUDA device, found none: --device cpu trains on the CPU")
    device = torch.device(config.device)
    each, accumulation = device_batch(
        config.target_batch_sequences, config.device_batch_sequences, processes
    )
    check_schedule(schedule, store, other_tokenizer=config.other_tokenizer)
    dataset = MixtureDataset(store, schedule, config.sequences, config.sequence_length, config.seed)
    check_epochs(dataset, schedule, config.max_epochs)
    named = str(model) if isinstance(model, str | Path) else type(model).__name__
    checkpoint, belongs = None, belonging(named, store, schedule, config)
    if resumed is not None:
        writes = os.environ.get("RANK", "0") == "0"
        checkpoint = last_checkpoint(resumed / CHECKPOINTS, belongs, tell, writes=writes)
        tell(f"going on from {checkpoint}" if checkpoint else "no checkpoint: beginning anew")
    empty = _empty_model(checkpoint or model, store)
    check_positions(empty.config, config.sequence_length, named)
    liger = config.liger and device.type == "cuda" and find_spec("liger_kernel") is not None
    needed = memory_needed(
        empty,
        each,
        config.sequence_length,
        shards=processes if config.fsdp else 1,
        fused_loss=liger,
        recomputes=config.activation_checkpointing,
    )
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", str(processes)))
    check_memory(needed, device, beside)
    tell(
        f"{sum(p.numel() for p in empty.parameters()):,} parameters; "
        f"{config.steps} steps of {config.target_batch_sequences} x {config.sequence_length} "
        f"tokens, {each} sequences at once, {accumulation} times, on {processes} x {device.type}; "
        f"about {needed / 2**30:.1f} GiB each"
    )
    return TrainingPlan(
        config=config,
        model=cast("PretrainedConfig", empty.config),
        dataset=dataset,
        device=device,
        device_batch=each,
        accumulation=accumulation,
        processes=processes,
        liger=liger,
        checkpoint=checkpoint,
        belongs=belongs,
    )


def _empty_model(model: str | Path | PretrainedConfig, store: TokenStore) -> nn.Module:
    """Returns the model without memory, its configuration with the text's vocabulary."""
    with torch.device("meta"):
        empty = build_language_model(model, store.vocabulary)
    shape: Any = empty.config
    # Documents are joined by this token, so it is what a text begins with too.
    _, shape.eos_token_id = load_encoder(store.tokenizer)
    shape.bos_token_id = shape.eos_token_id
    return empty


def _check_packages(config: TargetConfig, processes: int) -> None:
    for package in ("accelerate", *(["tensorboard"] if config.log == "tensorboard" else [])):
        require(package, "target")
    if config.fsdp and processes == 1:
        raise ValueError("Expected several processes with --fsdp, found one")
